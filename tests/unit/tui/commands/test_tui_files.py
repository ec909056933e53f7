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


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_owner(web: Path) -> None:
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


def test_what_somebody_else_wrote_is_not_lost(web: Path) -> None:
    web.write_bytes(b"theirs")
    with pytest.raises(ManifestChanged, match=r"web\.yaml was changed"):
        write_manifest_file(web, b"two", expected=b"one")
    assert web.read_bytes() == b"theirs"
    assert names(web.parent) == ["web.yaml"]


def test_a_file_that_went_is_not_made_anew(web: Path) -> None:
    web.unlink()
    with pytest.raises(ManifestChanged, match="no longer exists"):
        write_manifest_file(web, b"two", expected=b"one")
    assert names(web.parent) == []


def test_a_new_file_takes_nobodys_place(web: Path) -> None:
    with pytest.raises(ManifestChanged, match=r"web\.yaml already exists"):
        write_manifest_file(web, b"two", expected=None)
    assert web.read_bytes() == b"one"
    new = web.with_name("new.yaml")
    write_manifest_file(new, b"two", expected=None)
    assert new.read_bytes() == b"two"
    assert not stat.S_IMODE(new.stat().st_mode) & 0o111
    assert names(web.parent) == ["new.yaml", "web.yaml"]


def test_a_new_file_has_the_mode_that_the_user_wants(
    web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_files_come_and_come_back_where_there_are_no_links(
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


def test_a_link_stays_one(web: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / "link.yaml"
    link.symlink_to(web)
    write_manifest_file(link, b"two", expected=b"one")
    assert link.is_symlink()
    assert web.read_bytes() == b"two"


def test_what_was_thrown_away_comes_back(web: Path) -> None:
    thrown = move_to_trash(web, MOMENT)
    assert names(web.parent) == [TRASH]
    assert trashed_files(web.parent) == [thrown]
    assert thrown.moment == MOMENT
    restore_file(thrown)
    assert web.read_bytes() == b"one"
    assert trashed_files(web.parent) == []


def test_two_of_one_name_are_two_in_the_trash_the_newest_first(web: Path) -> None:
    first = move_to_trash(web, MOMENT)
    web.write_bytes(b"two")
    second = move_to_trash(web, MOMENT + timedelta(seconds=1))
    assert trashed_files(web.parent) == [second, first]
    restore_file(second)
    with pytest.raises(ManifestFileError, match=r"web\.yaml exists again"):
        restore_file(first)
    assert web.read_bytes() == b"two"
    assert trashed_files(web.parent) == [first]


def test_nothing_is_lost_in_one_instant(web: Path) -> None:
    first = move_to_trash(web, MOMENT)
    web.write_bytes(b"two")
    with pytest.raises(ManifestFileError, match="already in the trash"):
        move_to_trash(web, MOMENT)
    assert (web.read_bytes(), first.path.read_bytes()) == (b"two", b"one")


def test_a_name_may_look_like_anything(tmp_path: Path) -> None:
    odd = tmp_path / "a~b 20260101T000000.000000Z~c\n.yaml"
    odd.write_bytes(b"odd")
    thrown = move_to_trash(odd, MOMENT)
    (found,) = trashed_files(tmp_path)
    assert (found, found.origin) == (thrown, odd)


def test_what_others_put_into_the_trash_is_left_alone(web: Path) -> None:
    assert trashed_files(web.parent) == []
    (web.parent / TRASH).mkdir()
    (web.parent / TRASH / "notes.txt").write_text("mine")
    (web.parent / TRASH / "20261399T256199.000000Z~web.yaml").write_text("mine")
    assert trashed_files(web.parent) == []
    with pytest.raises(ManifestFileError, match="cannot be moved"):
        move_to_trash(web.with_name("no.yaml"), MOMENT)


def test_a_new_file_brings_its_folder_with_it(tmp_path: Path) -> None:
    new = tmp_path / "config/static_pods/web.yaml"
    write_manifest_file(new, b"one", expected=None)
    assert new.read_bytes() == b"one"
    with pytest.raises(ManifestChanged, match="no longer exists"):
        write_manifest_file(tmp_path / "other/web.yaml", b"two", expected=b"one")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ManifestFileError, match=r"no\.yaml cannot be read: No such file"):
        read_manifest_file(tmp_path / "no.yaml")
