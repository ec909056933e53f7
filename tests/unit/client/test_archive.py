"""Archives from containers, whose content is not trusted."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from podtui.client.copying import below, pack, unpack
from podtui.client.protocol import CopyResult
from podtui.errors import PodtuiError


def archive(*members: tuple[str, bytes, bytes], mode: int = 0o4755) -> io.BytesIO:
    """Return an archive of the members, each (name, type, content or link)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                info.mode = mode
            else:
                info.linkname = content.decode()
            tar.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


REG, DIR, SYM, LNK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize(
    ("name", "root", "parts"),
    [
        ("etc/hosts", "etc", ("hosts",)),
        ("etc", "etc", ()),
        ("./etc/./a//b/", "etc", ("a", "b")),
        ("./bin/sh", ".", ("bin", "sh")),
        ("a..b/c", "a..b", ("c",)),
    ],
)
def test_names_below(name: str, root: str, parts: tuple[str, ...]) -> None:
    assert below(name, root) == parts


@pytest.mark.parametrize(
    "name", ["../x", "etc/../../x", "/etc/x", "etcetera", "other/x", "etc/..", ".", ""]
)
def test_names_outside_the_target_are_refused(name: str) -> None:
    with pytest.raises(PodtuiError, match="refused"):
        below(name, "etc")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(
    ("packed", "mask", "mode"),
    [
        (0o777, 0o022, 0o755),
        (0o777, 0o077, 0o700),
        (0o4755, 0o022, 0o755),
        (0o600, 0o022, 0o600),
        (0o000, 0o022, 0o600),
        (0o666, 0o002, 0o664),
    ],
)
def test_new_files_have_the_permissions_that_the_umask_leaves(
    tmp_path: Path, umask: Callable[[int], int], packed: int, mask: int, mode: int
) -> None:
    umask(mask)
    unpack(archive(("f", REG, b"x"), mode=packed), "f", tmp_path / "f")
    unpack(archive(("d/e/f", REG, b"x"), mode=packed), "d", tmp_path / "d")
    assert mode_of(tmp_path / "f") == mode_of(tmp_path / "d" / "e" / "f") == mode
    assert mode_of(tmp_path / "d") == 0o777 & ~mask


def test_an_existing_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("before")
    (tmp_path / "f").chmod(0o640)
    unpack(archive(("f", REG, b"x"), mode=0o777), "f", tmp_path / "f")
    assert (mode_of(tmp_path / "f"), (tmp_path / "f").read_text()) == (0o640, "x")


def test_an_archive_with_outside_paths_is_not_unpacked(tmp_path: Path) -> None:
    bad = archive(("d/good", REG, b"1"), ("d/../../evil", REG, b"2"))
    with pytest.raises(PodtuiError, match="refused"):
        unpack(bad, "d", tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tricky = archive(
        ("d", DIR, b""),
        ("d/out", SYM, str(outside).encode()),
        ("d/out/evil", REG, b"inside all the same"),
        ("d/hard", LNK, b"/etc/passwd"),
        ("d/pipe", tarfile.FIFOTYPE, b""),
        ("d/good", REG, b"kept"),
    )
    copied = unpack(tricky, "d", tmp_path / "d")
    assert copied == CopyResult(files=2, bytes=23, skipped=3)
    assert list(outside.iterdir()) == []
    assert sorted(os.listdir(tmp_path / "d")) == ["good", "out"]
    assert mode_of(tmp_path / "d" / "good") == 0o755


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no tar", "malformed"), (b"", "malformed|empty"), (bytes(10240), "empty")],
)
def test_invalid_archives(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(PodtuiError, match=words):
        unpack(io.BytesIO(content), "d", tmp_path / "d")


def test_packed_files_are_unpacked_unchanged(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a").write_bytes(b"abc")
    (source / "link").symlink_to("deep/a")
    os.mkfifo(source / "pipe")
    spool = io.BytesIO()
    assert pack(source, "named", spool) == CopyResult(files=2, bytes=3, skipped=1)
    spool.seek(0)
    with tarfile.open(fileobj=spool) as tar:
        members = {one.name: (one.uid, one.gid, one.uname) for one in tar}
    assert members == dict.fromkeys(
        ("named", "named/deep", "named/deep/a", "named/link"), (0, 0, "")
    )
    spool.seek(0)
    assert unpack(spool, "named", tmp_path / "back") == CopyResult(files=1, bytes=3, skipped=1)
    assert (tmp_path / "back" / "deep" / "a").read_bytes() == b"abc"


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(PodtuiError, match=r"cannot read .*none: No such file"):
        pack(tmp_path / "none", "none", io.BytesIO())


def test_an_existing_destination_of_another_type(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(PodtuiError, match="cannot write"):
        unpack(archive(("f", REG, b"1")), "f", tmp_path / "d")
