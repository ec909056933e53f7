"""How the driver handles archives and links, without an engine."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podtui.errors import EngineError
from podtui.runtime.docker.archives import Member, PathStat, TarStream
from podtui.runtime.docker.host_files import batches, local_kind, remove_local
from podtui.runtime.docker.paths import Escapes, walk
from podtui.runtime.docker.volumes import ImageMembers
from podtui.runtime.protocol import HostPathKind

# --- archives


class Body:
    """A response body, as far as a `TarStream` reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def readexactly(self, n: int) -> bytes:
        taken, self._content = self._content[:n], self._content[n:]
        if len(taken) < n:
            raise asyncio.IncompleteReadError(taken, n)
        return taken


def archive(*entries: tuple[str, dict[str, Any]], kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as tar:
        for name, values in entries:
            info = tarfile.TarInfo(name)
            content = values.get("content", b"")
            info.size = len(content)
            for key, value in values.items():
                if key != "content":
                    setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


LONG = "d/" + "é" * 200
ENTRIES = (
    ("d/", {"type": tarfile.DIRTYPE}),
    (LONG, {"content": b"x" * 100_000, "mtime": 1_700_000_000.5}),
    ("d/link", {"type": tarfile.SYMTYPE, "linkname": "l" * 200}),
    ("d/empty", {}),
)


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
async def test_members_are_read_even_if_partly_consumed(kind: int) -> None:
    stream = TarStream(Body(archive(*ENTRIES, kind=kind)))
    seen: list[tuple[str, int, str]] = []
    async for member in stream.members():
        seen.append((member.name, member.size, member.link))
        if member.name == LONG:
            assert member.mtime == 1_700_000_000
            assert await stream.head(member, 10) == b"x" * 10
    assert seen == [("d", 0, ""), (LONG, 100_000, ""), ("d/link", 0, "l" * 200), ("d/empty", 0, "")]


async def test_the_archive_is_passed_on_unchanged(tmp_path: Path) -> None:
    whole = archive(*ENTRIES)
    stream, passed = TarStream(Body(whole)), b""
    async for member in stream.members():
        passed += member.header
        async for piece in stream.content():
            passed += piece
    assert whole.startswith(passed)
    assert not whole[len(passed) :].strip(b"\0")


async def test_ends_of_a_file() -> None:
    content = bytes(range(256)) * 300
    for size in (0, 1, 1000, 200_000):
        stream = TarStream(Body(archive(("f", {"content": content}))))
        async for member in stream.members():
            assert await stream.tail(member, size) == content[max(0, len(content) - size) :]


@pytest.mark.parametrize("length", [0, 100, 512, 600, 1500])
async def test_a_truncated_archive_is_an_error(length: int) -> None:
    with pytest.raises(EngineError, match="malformed archive"):
        async for _ in TarStream(Body(archive(*ENTRIES)[:length])).members():
            pass


# --- the image's files of an exported container


def member(name: str, kind: bytes = tarfile.REGTYPE, mtime: int = 0) -> Member:
    return Member(name, kind, "", 0, 0o644, mtime, f"<{name}>".encode())


def test_files_added_by_the_engine_are_not_of_the_image() -> None:
    members = ImageMembers(created=100)
    exported = [
        member(".dockerenv", mtime=100),
        member("bin", tarfile.DIRTYPE),
        member("dev", tarfile.DIRTYPE, mtime=100),
        member("dev/console", mtime=100),
        member("dev/shm", tarfile.DIRTYPE, mtime=100),
        member("etc", tarfile.DIRTYPE, mtime=101),
        member("etc/hosts", mtime=101),
        member("etc/mtab", tarfile.SYMTYPE, mtime=101),
        member("etc/passwd", mtime=5),
        member("etc/group", mtime=5),
        member("null", tarfile.CHRTYPE),
        member("proc", tarfile.DIRTYPE, mtime=99),
        member("sys", tarfile.DIRTYPE, mtime=100),
    ]
    passed = b"".join(members.headers(one) for one in exported)
    assert passed == b"<bin><etc><etc/passwd><etc/group><proc>"


# --- paths


def stat_of(files: Mapping[str, str]):
    """Return a function that inspects a tree: path → ``/`` for a directory, ``->TARGET`` for a
    link, else a file.
    """

    async def stat(path: str) -> PathStat | None:
        what = {"/": "/", **files}.get(path)
        if what is None:
            return None
        if what.startswith("->"):
            return PathStat(0o777, None, what[2:])
        return PathStat(0o755, HostPathKind.DIRECTORY if what == "/" else HostPathKind.FILE)

    return stat


TREE = {
    "/a": "/",
    "/a/f": "file",
    "/a/b": "/",
    "/a/up": "->../../../a",
    "/abs": "->/a/b",
    "/chain": "->abs/../f",
    "/loop": "->loop",
    "/dangling": "->/a/none/x",
}


@pytest.mark.parametrize(
    ("path", "real", "missing"),
    [
        ("", "/", ()),
        ("/a//./f", "/a/f", ()),
        ("/abs", "/a/b", ()),
        ("/chain", "/a/f", ()),
        ("/a/up/f", "/a/f", ()),
        ("/../../a", "/a", ()),
        ("/a/b/../f", "/a/f", ()),
        ("/a/none/y", "/a", ("none", "y")),
        ("/dangling/z", "/a", ("none", "x", "z")),
        ("/a/f/below", "/a/f", ("below",)),
    ],
)
async def test_paths_are_resolved(path: str, real: str, missing: tuple[str, ...]) -> None:
    found = await walk(stat_of(TREE), path)
    assert (found.path, found.missing, found.stat is None) == (real, missing, bool(missing))


async def test_confined_paths_stay_inside() -> None:
    stat = stat_of(TREE)
    assert (await walk(stat, "a/b/../f", confined=True)).path == "/a/f"
    for path in ("..", "a/../..", "a/up", "loop"):
        with pytest.raises(Escapes):
            await walk(stat, path, confined=True)
    with pytest.raises(EngineError, match="too many levels"):
        await walk(stat, "/loop")


def test_paths_missing_here_may_exist_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to("f")
    assert local_kind(f"{tmp_path}/link") is HostPathKind.FILE
    assert local_kind(str(tmp_path)) is HostPathKind.DIRECTORY
    assert local_kind("/dev/null") is HostPathKind.CHAR_DEVICE
    assert local_kind(f"{tmp_path}/none") is None
    assert local_kind("/nul\0") is None


def test_a_local_directory_is_removed_without_following_links(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (tmp_path / "volume" / "deep").mkdir(parents=True)
    kept.mkdir()
    (tmp_path / "volume" / "link").symlink_to(kept)
    (tmp_path / "volume" / "deep" / "file").write_text("x")
    assert remove_local(str(tmp_path / "volume"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "alias").symlink_to(kept)
    assert not remove_local(str(tmp_path / "alias"))
    assert kept.exists()
    assert not remove_local(str(tmp_path / "missing"))


def test_long_lists_of_paths_are_divided() -> None:
    paths = [f"/podtui/{'x' * 200}/{number}" for number in range(1000)]
    found = list(batches(paths))
    assert [path for batch in found for path in batch] == paths
    assert len(found) > 1
    assert all(sum(len(path) + 1 for path in batch) <= 64 * 1024 for batch in found)
    assert list(batches([])) == []
