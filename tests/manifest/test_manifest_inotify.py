"""What Linux says of a folder."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Generator
from pathlib import Path

import pytest

from podtui.manifest import inotify
from podtui.manifest.inotify import (
    IN_CREATE,
    IN_DELETE,
    IN_IGNORED,
    IN_MODIFY,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_Q_OVERFLOW,
    Inotify,
    Said,
    parsed,
)
from podtui.manifest.listing import folder_stamp
from podtui.manifest.watch import ADDED, DELETED, MODIFIED, Changes, FolderWatch

pytestmark = pytest.mark.skipif(not inotify.IS_HERE, reason="Linux alone has it")


def written(mask: int, name: bytes, padded: int) -> bytes:
    return struct.pack("iIII", 1, mask, 0, padded) + name.ljust(padded, b"\0")


def test_events_lie_one_behind_the_other() -> None:
    data = (
        written(IN_CREATE, b"web.yaml", 16)
        + written(IN_Q_OVERFLOW, b"", 0)
        + written(IN_DELETE, b"\xff.yaml", 16)
    )
    assert parsed(data) == [
        Said(IN_CREATE, "web.yaml"),
        Said(IN_Q_OVERFLOW, ""),
        Said(IN_DELETE, "\udcff.yaml"),
    ]
    assert parsed(b"") == []


@pytest.fixture
def watched(tmp_path: Path) -> Generator[Inotify]:
    found = Inotify(str(tmp_path))
    yield found
    found.close()


def test_what_is_done_in_a_folder_is_said(tmp_path: Path, watched: Inotify) -> None:
    assert watched.read() == []
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b").unlink()
    assert watched.read() == [
        Said(IN_CREATE, "a"),
        Said(IN_MODIFY, "a"),
        Said(IN_MOVED_FROM, "a"),
        Said(IN_MOVED_TO, "b"),
        Said(IN_DELETE, "b"),
    ]


def test_the_end_of_the_folder_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watched = Inotify(str(folder))
    folder.rmdir()
    assert watched.read()[-1] == Said(IN_IGNORED, "")
    watched.close()


@pytest.mark.parametrize(
    ("name", "error"), [("none", FileNotFoundError), ("file", NotADirectoryError)]
)
def test_what_is_no_folder_is_not_watched(tmp_path: Path, name: str, error: type[OSError]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(error):
        Inotify(str(tmp_path / name))


async def follow(path: Path) -> FolderWatch:
    watch = FolderWatch(str(path))
    assert watch.follow(folder_stamp(str(path)), single=False)
    return watch


async def test_steps_that_belong_together_come_together(tmp_path: Path) -> None:
    watch = await follow(tmp_path)
    (tmp_path / "a").write_text("x")
    await asyncio.sleep(0)
    (tmp_path / "a").rename(tmp_path / "b")
    changes = await watch.wait(10)
    assert changes == Changes({"a": frozenset({ADDED, MODIFIED, DELETED}), "b": frozenset({ADDED})})
    watch.close()


async def test_a_file_that_never_rests_is_told_of_all_the_same(tmp_path: Path) -> None:
    watch = await follow(tmp_path)
    path = tmp_path / "a"

    async def write() -> None:
        with path.open("w") as file:
            while True:
                file.write("x")
                file.flush()
                await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write())
        changes = await watch.wait(10)
        writing.cancel()
    assert changes is not None
    assert "a" in changes.names
    watch.close()


async def test_nothing_runs_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    read = Inotify.read

    def count(self: Inotify) -> list[Said]:
        nonlocal reads
        reads += 1
        return read(self)

    monkeypatch.setattr(Inotify, "read", count)
    watch = await follow(tmp_path)
    assert await watch.wait(0.2) is None
    assert reads == 0
    (tmp_path / "a").write_text("x")
    assert await watch.wait(10) is not None
    assert reads >= 1
    watch.close()


async def test_a_folder_that_went_is_watched_anew_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch = await follow(folder)
    folder.rmdir()
    changes = await watch.wait(10)
    assert changes is not None
    assert changes.lost
    folder.mkdir()
    assert watch.follow(folder_stamp(str(folder)), single=False)
    (folder / "a").write_text("x")
    changes = await watch.wait(10)
    assert changes is not None
    assert "a" in changes.names
    watch.close()
