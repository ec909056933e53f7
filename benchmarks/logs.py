"""The log pane's buffer and view in a headless terminal of 160x45, and the log path through the
agent, each measured separately."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import psutil
from textual.app import App, ComposeResult

from benchmarks.report import Row, row
from podtui.runtime.docker.logs import Logs
from podtui.runtime.protocol import LogOptions
from podtui.server.kubelet_api.logs import copy
from podtui.server.transport.streams import Outflow
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.views.logs.filters import parse_log_filter
from podtui.tui.views.logs.line_buffer import LineBuffer

LINES = 1_000_000
MANY = 5_000_000
BATCH = 1_000
FOLLOWED = 10_000
"""Lines a second."""
PASSED = 100_000
STAMP = b"2026-11-21T07:08:09.123456789Z "
TEXT = b"level=info msg=x " * 4 + b"done"


class _LogApp(App[None]):
    def compose(self) -> ComposeResult:
        yield LogView()


def _batch(start: int) -> list[bytes]:
    return [STAMP + TEXT + b" %d" % n for n in range(start, start + BATCH)]


def _file_floor() -> float:
    """Return the rate of lines that are only written to a file."""
    batch = _batch(0)
    begin = time.monotonic()
    with tempfile.TemporaryFile() as file:
        for _ in range(0, LINES, BATCH):
            file.write(b"\n".join(batch))
    return LINES / (time.monotonic() - begin)


def _search_floor(text: bytes, pattern: bytes) -> float:
    """Return the seconds that `re` alone takes to search a byte string in memory."""
    begin = time.monotonic()
    re.findall(pattern, text)
    return time.monotonic() - begin


class _Lag:
    """Measures the delay of a task that runs every millisecond: the wait of a key."""

    def __init__(self) -> None:
        self.all: list[float] = []

    async def run(self) -> None:
        while True:
            begin = time.monotonic()
            await asyncio.sleep(0.001)
            self.all.append(time.monotonic() - begin - 0.001)


async def _million(rows: list[Row]) -> None:
    app = _LogApp()
    process = psutil.Process()
    async with app.run_test(size=(160, 45)), asyncio.TaskGroup() as tasks:
        view = app.query_one(LogView)
        before = process.memory_info().rss
        begin = time.monotonic()
        for start in range(0, LINES, BATCH):
            view.write(_batch(start))
            await asyncio.sleep(0)
        view.draw_frame()
        rate = LINES / (time.monotonic() - begin)
        grown = (process.memory_info().rss - before) / 1e6
        rows += [
            row("log view: lines taken in", [rate], "lines/s", floor=[_file_floor()],
                floor_name="into a file, unindexed"),
            row("log view: memory for 1,000,000 lines", [grown], "MB", bound=60),
            row("log view: lines lost of 1,000,000", [float(LINES - len(view.buffer))], "lines",
                bound=0),
        ]  # fmt: skip
        text = b"\n".join(view.buffer)
        floor = [_search_floor(text, rb"(?m)done 99999") for _ in range(3)]
        del text
        lag = _Lag()
        watching = tasks.create_task(lag.run())
        rows += await _search(view, floor)
        watching.cancel()
        rows.append(
            row("log view: a key's wait while 1,000,000 lines are looked through",
                [late * 1000 for late in lag.all], "ms")
        )  # fmt: skip
        rows += _scroll(view)


async def _search(view: LogView, floor: list[float]) -> list[Row]:
    begin = time.monotonic()
    view.search("done 99999")
    await _until(lambda: view.lines.progress >= 1)
    searched = time.monotonic() - begin
    view.search("")
    found: list[float] = []
    for words in ("done 9999", "!7", "-f dn99", "-C 3 done 99999"):
        begin = time.monotonic()
        view.ask(filter=parse_log_filter(words))
        await _until(lambda: view.lines.progress >= 1)
        found.append(time.monotonic() - begin)
    view.ask(filter=parse_log_filter(""))
    name = "re on one run of bytes in memory"
    return [
        row("log view: search of 1,000,000 lines, keys served meanwhile", [searched], "s",
            floor=floor, floor_name=name),
        row("log view: filter of 1,000,000 lines: re, !re, -f, -C", found, "s", floor=floor,
            floor_name=name),
    ]  # fmt: skip


def _scroll(view: LogView) -> list[Row]:
    """Page through a million lines: each page reads chunks from disk, and draws 45 rows."""
    samples: list[float] = []
    for page in range(300):
        begin = time.monotonic()
        view.go_to((page * 7919 * 131) % LINES)
        for y in range(view.size.height):
            view.render_line(y)
        samples.append((time.monotonic() - begin) * 1000)
    reads: list[float] = []
    buffer = view.buffer
    for place in range(0, len(buffer.chunks) - 1, 3):
        buffer._cache.clear()
        begin = time.monotonic()
        buffer.block(buffer.chunks[place])
        reads.append((time.monotonic() - begin) * 1000)
    return [
        row("log view: a page anywhere in 1,000,000 lines", samples, "ms", bound=20),
        row("log view: one chunk read back from the disk", reads, "ms", bound=1),
    ]


async def _follow(seconds: float) -> list[Row]:
    app = _LogApp()
    async with app.run_test(size=(160, 45)):
        view = app.query_one(LogView)
        process = psutil.Process()
        used = process.cpu_times()
        begin = time.monotonic()
        sent = 0
        while time.monotonic() - begin < seconds:
            due = int((time.monotonic() - begin) * FOLLOWED)
            view.write([STAMP + TEXT + b" %d" % n for n in range(sent, due)])
            sent = due
            await asyncio.sleep(0.01)
        view.draw_frame()
        spent = process.cpu_times()
        share = (spent.user + spent.system - used.user - used.system) / seconds
        lost = sent - len(view.buffer)
        last = view.render_line(view.size.height - 1).text
        seen = last.rstrip().endswith(f"done {sent - 1}")
        return [
            row(f"log view: lines lost at {FOLLOWED:,} lines/s", [float(lost)], "lines", bound=0),
            row(f"log view: the newest line not shown at {FOLLOWED:,} lines/s",
                [float(not seen)], "lines", bound=0),
            row(f"log view: of one processor at {FOLLOWED:,} lines/s", [share * 100], "%"),
        ]  # fmt: skip


def _many() -> Sequence[Row]:
    process = psutil.Process()
    before = process.memory_info().rss
    buffer = LineBuffer()
    lines = [TEXT + b" %d" % n for n in range(BATCH)]
    stamps, tags = [1] * BATCH, bytes(BATCH)
    for _ in range(0, MANY, BATCH):
        buffer.append(lines, stamps, tags)
    for chunk in buffer.chunks:
        buffer.block(chunk)
    grown = (process.memory_info().rss - before) / 1e6
    buffer.close()
    return [row("log buffer: memory for 5,000,000 lines, all read once", [grown], "MB", bound=40)]


class _Engine:
    """Replaces connection, ownership and wire: one container with ``body`` as its log."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.link = self.wire = self
        self.info = SimpleNamespace(local=False)

    async def inspect(self, _id: str) -> dict[str, Any]:
        return {"Config": {"Tty": False}, "HostConfig": {}, "LogPath": ""}

    @asynccontextmanager
    async def open(self, *_: object, **__: object) -> AsyncGenerator[Any]:
        rest = memoryview(self._body)

        async def read(most: int) -> bytes:
            nonlocal rest
            piece, rest = bytes(rest[:most]), rest[most:]
            return piece

        yield SimpleNamespace(content=SimpleNamespace(read=read))


async def _pass(body: bytes) -> int:
    """Return the bytes of the response."""
    engine = cast("Any", _Engine(body))
    outflow, written = Outflow(), 0

    async def write(data: bytes) -> None:
        nonlocal written
        written += len(data)

    lines = Logs(engine, engine, engine).read("c", LogOptions())
    async with aclosing(lines), asyncio.TaskGroup() as tasks:
        tasks.create_task(outflow.write_to(cast("Any", SimpleNamespace(write=write))))
        await copy(lines, outflow, timestamps=True, limit=None, gaps=True)
    return written


def _through_the_agent(runs: int) -> Row:
    """The floor only removes the frames."""
    lines = [line + b"\n" for start in range(0, PASSED, BATCH) for line in _batch(start)]
    body = b"".join(b"\1\0\0\0" + len(line).to_bytes(4, "big") + line for line in lines)
    spent: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        begin = time.process_time()
        written = asyncio.run(_pass(body))
        spent.append(time.process_time() - begin)
        begin, at = time.process_time(), 0
        found: list[bytes] = []
        while at < len(body):
            start = at + 8
            at = start + int.from_bytes(body[at + 4 : start], "big")
            found.append(body[start:at])
        text = b"".join(found)
        bare.append(time.process_time() - begin)
        assert written == len(text)
    return row(f"agent: CPU for {PASSED:,} lines, from the engine's answer to the response", spent,
               "s", floor=bare, floor_name="frames taken off")  # fmt: skip


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not done():  # noqa: ASYNC110 - the view has no event for it
            await asyncio.sleep(0.002)


def measure(*, quick: bool) -> list[Row]:
    """Measure one fill with a million lines and one follow; five million lines if there is time."""
    rows: list[Row] = []
    if not quick:
        # First, while the process is as small as possible.
        rows += _many()
    asyncio.run(_million(rows))
    rows += asyncio.run(_follow(2.0 if quick else 10.0))
    rows.append(_through_the_agent(3 if quick else 11))
    return rows
