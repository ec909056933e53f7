"""Manifests are written atomically, moved to the trash and restored."""

from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from podtui.tui.commands.manifest_file import (
    TRASH,
    ManifestChanged,
    ManifestFileError,
    move_to_trash,
    read_manifest_file,
    restore_file,
    trashed_files,
    write_manifest_file,
)

MOMENT = datetime(2026, 11, 21, 14, 5, 1, 123456, tzinfo=UTC)


@pytest.fixture
def web(tmp_path: Path) -> Path:
    path = tmp_path / "web.yaml"
    path.write_bytes(b"one")
    return path


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_is_replaced_atomically_with_its_mode_and_owner(web: Path) -> None:
    web.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(web, 1234, 2345)
    before = web.stat()
    with web.open("rb") as reader:
        write_manifest_file(web, b"two", expected=b"one")
        assert reader.read() == b"one", "who reads it meanwhile has the old one whole"
    after = web.stat()
    assert web.read_bytes() == b"two"
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert names(web.parent) == ["web.yaml"]


def test_changes_of_others_are_not_lost(web: Path) -> None:
    web.write_bytes(b"theirs")
    with pytest.raises(ManifestChanged, match=r"web\.yaml was changed"):
        write_manifest_file(web, b"two", expected=b"one")
    assert web.read_bytes() == b"theirs"
    assert names(web.parent) == ["web.yaml"]


def test_a_removed_file_is_not_recreated(web: Path) -> None:
    web.unlink()
    with pytest.raises(ManifestChanged, match="no longer exists"):
        write_manifest_file(web, b"two", expected=b"one")
    assert names(web.parent) == []


def test_a_new_file_does_not_overwrite(web: Path) -> None:
    with pytest.raises(ManifestChanged, match=r"web\.yaml already exists"):
        write_manifest_file(web, b"two", expected=None)
    assert web.read_bytes() == b"one"
    new = web.with_name("new.yaml")
    write_manifest_file(new, b"two", expected=None)
    assert new.read_bytes() == b"two"
    assert not stat.S_IMODE(new.stat().st_mode) & 0o111
    assert names(web.parent) == ["new.yaml", "web.yaml"]


def test_a_new_file_follows_the_umask(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mask: int) -> int:
        pytest.fail("other threads make files meanwhile")

    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", refuse)
            write_manifest_file(web.with_name("new.yaml"), b"two", expected=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE(web.with_name("new.yaml").stat().st_mode) == 0o640


def test_files_are_created_and_restored_without_hard_links(
    web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: Path, follow_symlinks: bool) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    thrown = move_to_trash(web, MOMENT)
    write_manifest_file(web, b"two", expected=None)
    with pytest.raises(ManifestFileError, match=r"web\.yaml exists again"):
        restore_file(thrown)
    with pytest.raises(ManifestChanged, match=r"web\.yaml already exists"):
        write_manifest_file(web, b"three", expected=None)
    assert web.read_bytes() == b"two"
    web.unlink()
    restore_file(thrown)
    assert web.read_bytes() == b"one"
    assert names(web.parent) == [TRASH, "web.yaml"]


def test_a_symbolic_link_is_kept(web: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / "link.yaml"
    link.symlink_to(web)
    write_manifest_file(link, b"two", expected=b"one")
    assert link.is_symlink()
    assert web.read_bytes() == b"two"


def test_files_are_restored_from_the_trash(web: Path) -> None:
    thrown = move_to_trash(web, MOMENT)
    assert names(web.parent) == [TRASH]
    assert trashed_files(web.parent) == [thrown]
    assert thrown.moment == MOMENT
    restore_file(thrown)
    assert web.read_bytes() == b"one"
    assert trashed_files(web.parent) == []


def test_equal_names_in_the_trash_are_listed_newest_first(web: Path) -> None:
    first = move_to_trash(web, MOMENT)
    web.write_bytes(b"two")
    second = move_to_trash(web, MOMENT + timedelta(seconds=1))
    assert trashed_files(web.parent) == [second, first]
    restore_file(second)
    with pytest.raises(ManifestFileError, match=r"web\.yaml exists again"):
        restore_file(first)
    assert web.read_bytes() == b"two"
    assert trashed_files(web.parent) == [first]


def test_files_deleted_in_the_same_instant_are_kept(web: Path) -> None:
    first = move_to_trash(web, MOMENT)
    web.write_bytes(b"two")
    with pytest.raises(ManifestFileError, match="already in the trash"):
        move_to_trash(web, MOMENT)
    assert (web.read_bytes(), first.path.read_bytes()) == (b"two", b"one")


def test_any_file_name_is_supported(tmp_path: Path) -> None:
    odd = tmp_path / "a~b 20260101T000000.000000Z~c\n.yaml"
    odd.write_bytes(b"odd")
    thrown = move_to_trash(odd, MOMENT)
    (found,) = trashed_files(tmp_path)
    assert (found, found.origin) == (thrown, odd)


def test_foreign_files_in_the_trash_are_ignored(web: Path) -> None:
    assert trashed_files(web.parent) == []
    (web.parent / TRASH).mkdir()
    (web.parent / TRASH / "notes.txt").write_text("mine")
    (web.parent / TRASH / "20261399T256199.000000Z~web.yaml").write_text("mine")
    assert trashed_files(web.parent) == []
    with pytest.raises(ManifestFileError, match="cannot be moved"):
        move_to_trash(web.with_name("no.yaml"), MOMENT)


def test_a_path_that_is_not_text_is_refused_with_the_remedy(tmp_path: Path) -> None:
    name = "web-\\xff.yaml"
    (tmp_path / os.fsdecode(b"web-\xff.yaml")).write_bytes(b"one")
    with pytest.raises(ManifestFileError, match="is not UTF-8 text; rename the file first"):
        read_manifest_file(tmp_path / name)
    with pytest.raises(ManifestFileError, match="is not UTF-8 text; rename the file first"):
        write_manifest_file(tmp_path / name, b"two", expected=b"one")
    # A file whose name contains a backslash is another file.
    (tmp_path / name).write_bytes(b"two")
    assert read_manifest_file(tmp_path / name) == b"two"


def test_a_new_file_creates_its_folder(tmp_path: Path) -> None:
    new = tmp_path / "config/static_pods/web.yaml"
    write_manifest_file(new, b"one", expected=None)
    assert new.read_bytes() == b"one"
    with pytest.raises(ManifestChanged, match="no longer exists"):
        write_manifest_file(tmp_path / "other/web.yaml", b"two", expected=b"one")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ManifestFileError, match=r"no\.yaml cannot be read: No such file"):
        read_manifest_file(tmp_path / "no.yaml")
