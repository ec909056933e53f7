"""An app with only a log view."""

from __future__ import annotations

from textual.app import App, ComposeResult

from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.views.logs.line_buffer import DISK_BYTES

STAMP = b"2026-11-21T07:08:09.123456789Z "


class LogApp(App[None]):
    CSS = "LogView { height: 1fr; }"

    def __init__(self, disk_bytes: int = DISK_BYTES) -> None:
        super().__init__()
        self._disk_bytes = disk_bytes

    def compose(self) -> ComposeResult:
        yield LogView(disk_bytes=self._disk_bytes)

    @property
    def log_view(self) -> LogView:
        return self.query_one(LogView)


def numbered(count: int, start: int = 0, text: bytes = b"line") -> list[bytes]:
    return [STAMP + text + b" %d" % n for n in range(start, start + count)]


async def fill(app: LogApp, lines: list[bytes]) -> LogView:
    view = app.log_view
    view.write(lines)
    view.draw_frame()
    return view
