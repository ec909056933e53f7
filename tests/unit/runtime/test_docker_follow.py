"""Resuming a log at the same line."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest
from virtual_time import virtual

from podtui.runtime.docker.logs import LOST, ContainerLog, Rotation, Trail
from podtui.runtime.protocol import LogLine, LogOptions


def test_the_position_in_a_log_is_found_by_several_lines() -> None:
    def line(text: str, stamp: str = "2026-01-01T00:00:00.000000001Z") -> LogLine:
        return LogLine(timestamp=stamp, stream="stdout", content=text.encode())

    trail = Trail()
    assert trail.empty
    for text in "abxx":
        trail.add([line(text)])
    found: deque[LogLine] = deque(maxlen=8)
    places: list[int] = []
    for number, text in enumerate("zabxxxy"):
        found.append(line(text))
        if trail.ends_with(found):
            places.append(number)
    assert places == [4]
    assert not trail.ends_with(deque())
    assert not trail.ends_with(deque([line("x", "2026-01-01T00:00:00.000000002Z")]))


PIECE = 200
"""Bytes that arrive together: a few lines, and a part of one."""


class Content:
    """A response: ``data`` in small chunks, and then its end, or nothing more forever."""

    def __init__(self, data: bytes, *, ends: bool) -> None:
        self._data = data
        self._ends = ends

    async def read(self, _most: int) -> bytes:
        data, self._data = self._data[:PIECE], self._data[PIECE:]
        if not data and not self._ends:
            await asyncio.Event().wait()
        return data


class Response:
    def __init__(self, content: Content) -> None:
        self.content = content


class Engine:
    """Has a log of framed ``lines`` that its stream does not report. Records each read."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.number = 0
        self.tails: list[int] = []
        self.since = False
        self.polled: list[float] = []

    @property
    def wire(self) -> Any:
        return self

    @asynccontextmanager
    async def open(self, _method: str, _path: str, **wishes: Any) -> AsyncGenerator[Response]:
        query = wishes["query"]
        if query["follow"] == "1":
            yield Response(Content(b"", ends=False))
            return
        tail = 0 if query["tail"] == "all" else int(query["tail"])
        self.since = self.since or "since" in query
        self.tails.append(tail)
        self.polled.append(asyncio.get_running_loop().time())
        texts = [
            f"2026-01-01T00:00:00.{n:09}Z {t}\n" for n, t in enumerate(self.lines, self.number)
        ]
        frames = (b"\1\0\0\0" + struct.pack(">I", len(t)) + t.encode() for t in texts[-tail:])
        yield Response(Content(b"".join(frames), ends=True))


async def follow(engine: Engine, trail: Trail, found: list[str]) -> None:
    log = ContainerLog(cast("Any", engine), "c", LogOptions(follow=True), terminal=False)
    async for lines in log.lines_after(trail):
        found.extend(line.content.decode() for line in lines)


def seen(engine: Engine) -> Trail:
    trail = Trail()
    for number, text in enumerate(engine.lines):
        stamp = f"2026-01-01T00:00:00.{number:09}Z"
        trail.add([LogLine(timestamp=stamp, stream="stdout", content=text.encode())])
    return trail


@virtual()
async def test_a_quiet_log_is_polled_less_often() -> None:
    engine = Engine(*"abcdefghij")
    found: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await follow(engine, seen(engine), found)
    assert found == []
    waits = [after - before for before, after in pairwise(engine.polled)]
    assert waits == [2, 4, 8, 8, 8, 8, 8, 8]
    assert max(engine.tails[1:]) <= 16, "and no more of it than finds the place again"


@virtual()
async def test_lines_missed_by_the_stream_are_found_by_polling() -> None:
    engine = Engine("a")
    found: list[str] = []

    async def write() -> None:
        await asyncio.sleep(20)
        engine.lines += [f"line {n}" for n in range(100)]
        await asyncio.sleep(10)

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(engine, seen(engine), found))
        await write()
        following.cancel()
    assert found == [f"line {n}" for n in range(100)]
    after = [moment for moment in engine.polled if moment > 20]
    assert after[0] <= 20 + 8
    assert min(later - sooner for sooner, later in pairwise(after) if later > sooner) == 2


@virtual()
async def test_lines_rotated_away_before_reading_are_reported() -> None:
    engine = Engine(*"abc")
    trail = seen(engine)
    engine.lines, engine.number = list("xyz"), 50
    log = ContainerLog(cast("Any", engine), "c", LogOptions(follow=True), terminal=False)
    found: list[tuple[str, str]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            async for lines in log.lines_after(trail):
                found.extend((line.content.decode(), line.gap) for line in lines)
    assert found == [("x", LOST), ("y", ""), ("z", "")]


@pytest.mark.parametrize(("tail", "whole"), [(2, False), (3, False), (4, True)])
async def test_a_tail_with_fewer_lines_than_requested_is_the_whole_log(
    tail: int, whole: bool
) -> None:
    engine = Engine(*"abc")
    log = ContainerLog(cast("Any", engine), "c", LogOptions(tail=tail), terminal=False)
    log.counts = True
    lines = [line.content.decode() async for batch in log.lines(tail) for line in batch]
    assert lines == list("abc")[-tail:]
    assert log.whole is whole


@pytest.mark.parametrize("count", [20, 6000])
async def test_lines_since_a_time_are_selected_locally_with_rotation(count: int) -> None:
    """The engine's own filter leaves out rotated files."""
    engine = Engine(*map(str, range(count)))
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for micro, whole in ((1, False), (0, True)):
        options = LogOptions(since=begin + timedelta(microseconds=micro))
        log = ContainerLog(cast("Any", engine), "c", options, terminal=False, rotated=True)
        lines = [line.content.decode() async for batch in log.lines(None) for line in batch]
        assert lines == [str(n) for n in range(1000 * micro, count)]
        assert log.whole == whole
    assert not engine.since


@pytest.mark.parametrize(
    ("config", "oldest"),
    [
        ({"max-size": "16384", "max-file": "3"}, ("/log.2.gz", "/log.2")),
        ({"max-size": "16384", "max-file": "1"}, ()),
        ({"max-size": "16384"}, ()),
        ({"max-file": "3"}, ()),
        (None, ()),
    ],
)
def test_rotation_settings_imply_missing_lines(
    config: dict[str, str] | None, oldest: tuple[str, ...]
) -> None:
    driver = {"Type": "json-file", "Config": config}
    rotation = Rotation({"LogPath": "/log", "HostConfig": {"LogConfig": driver}})
    assert rotation.oldest == oldest
    if oldest:
        assert "the engine keeps 3 files of 16Ki (" in rotation.older_lines
    elsewhere = {"LogPath": "", "HostConfig": {"LogConfig": driver | {"Type": "journald"}}}
    assert Rotation(elsewhere).oldest == ()
