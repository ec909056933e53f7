"""The log pane's buffer and view, by themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil
from textual.app import App, ComposeResult

from benchmarks.report import Row, row
from podtui.tui.log_view import LogView

LINES = 1_000_000
BATCH = 1_000


class _LogApp(App[None]):
    def compose(self) -> ComposeResult:
        yield LogView()


async def _fill() -> tuple[float, float, float, int]:
    """(lines per second taken in and drawn, MB grown, seconds to search all, lines lost)."""
    line = b"2026-11-21T07:08:09.123456789Z " + b"level=info msg=x " * 4 + b"done"
    app = _LogApp()
    async with app.run_test(size=(160, 45)):
        view = app.query_one(LogView)
        process = psutil.Process()
        before = process.memory_info().rss
        begin = time.monotonic()
        for start in range(0, LINES, BATCH):
            view.write([line + b" %d" % n for n in range(start, start + BATCH)])
            await asyncio.sleep(0)
        view._frame()
        taken = time.monotonic() - begin
        grown = (process.memory_info().rss - before) / 1e6
        begin = time.monotonic()
        view.search("done 99999")
        async with asyncio.timeout(60):
            await _until(lambda: view._searched >= view.buffer.end)
        searched = time.monotonic() - begin
        return LINES / taken, grown, searched, LINES - len(view.buffer)


async def _until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 - the view has no event for it
        await asyncio.sleep(0.002)


def measure(*, quick: bool) -> list[Row]:
    """One fill of a million lines: the view in a headless terminal of 160x45."""
    rate, grown, searched, lost = asyncio.run(_fill())
    return [
        row("log view: lines taken in", [rate], "lines/s"),
        row("log view: memory for 1,000,000 lines", [grown], "MB", bound=250),
        row("log view: lines lost of 1,000,000", [float(lost)], "lines", bound=0),
        row("log view: search of 1,000,000 lines, keys served meanwhile", [searched], "s"),
    ]
