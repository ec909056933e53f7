"""The list of running port-forwards with their endpoints and traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.text.terminal_text import plural
from podtui.tui.commands.session import RunningForward
from podtui.tui.model.model import Changes
from podtui.tui.screens.list_screen import ListScreen
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    Span,
    ValueKind,
    content_of,
    text_field,
    wrap,
)
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.format import size
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView


def _local(running: RunningForward) -> ColumnValue:
    glyph, tone = ("✗", "error") if running.failed else ("●", "good")
    return ColumnValue(
        Cell(f"{glyph} {running.address}", tone), running.forward.local_port, running.address
    )


def _figure(number: int, tone: str, text: str = "") -> ColumnValue:
    return ColumnValue(Cell(text or str(number), tone), number, float(number))


def _problem(running: RunningForward) -> ColumnValue:
    problem = clean(running.problem)
    return ColumnValue(Cell(f"▲ {problem}" if problem else "", "warning"), problem, problem)


FORWARD_COLUMNS = (
    Column("local", "LOCAL", 100, maximum=24, of=_local),
    Column("pod", "POD", 90, minimum=10, maximum=40, flexible=True,
           of=lambda running: text_field(pod_label(running.pod), "name")),
    Column("port", "PORT", 80, align="right", kind=ValueKind.COUNT,
           of=lambda running: _figure(running.forward.remote_port, "soft")),
    Column("open", "OPEN", 60, align="right", kind=ValueKind.COUNT,
           of=lambda running: _figure(running.forward.connections, "soft")),
    Column("total", "TOTAL", 40, align="right", kind=ValueKind.COUNT,
           of=lambda running: _figure(running.forward.accepted, "muted")),
    Column("sent", "SENT", 50, align="right", kind=ValueKind.BYTES,
           of=lambda running: _figure(running.forward.sent, "muted", size(running.forward.sent))),
    Column("received", "RECEIVED", 50, align="right", kind=ValueKind.BYTES,
           of=lambda running: _figure(running.forward.received, "muted",
                                      size(running.forward.received))),
    Column("problem", "PROBLEM", 85, minimum=16, maximum=400, flexible=True, filling=True,
           of=_problem),
)  # fmt: skip


def forward_row(number: int, running: RunningForward) -> Row:
    return Row(
        f"forward:{number}",
        *content_of(FORWARD_COLUMNS, running),
        search=f"{running.address} {pod_label(running.pod)}",
        fault=bool(running.problem),
    )


def stop_dialog(running: RunningForward) -> Dialog:
    what = f"{running.address} → {pod_label(running.pod)}:{running.forward.remote_port}"
    cut = running.forward.connections
    ends = (
        f"{plural(cut, 'open connection')} are closed."
        if cut != 1
        else "1 open connection is closed."
    )
    lines = [(Span("✖ ", "error"), Span(what, "name")), (Span(ends, "muted"),)]
    return confirmation("Stop the port-forward?", lines, "Stop")


class ForwardsScreen(ListScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d,x", "stop", "Stop", key_display="x", id="forwards.stop",
                tooltip="Stop this forward; its connections are cut"),
        Binding("y", "copy_address", "Copy the address", id="forwards.copy",
                tooltip="Copy the local address"),
    ]  # fmt: skip
    COLUMNS: ClassVar[Sequence[Column]] = FORWARD_COLUMNS
    SORT = "local"
    DEFAULT_CSS = """
    ForwardsScreen #problem { display: none; border: round $pane-border; padding: 0 1;
        background: $background; border-title-color: $pane-title; }
    """
    NAME = "port-forwards"
    ON_ROWS = frozenset({"stop", "copy_address"})
    NOTHING = ("No port-forwards.", "F on a pod starts one; they end with the screen.")

    def __init__(self) -> None:
        super().__init__()
        self.problem = LinesView(id="problem")
        self.problem.border_title = " problem "

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield self.table
        yield self.problem
        yield Hints()
        yield Prompt()

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        self._show_problem()

    def on_resize(self) -> None:
        self._show_problem()

    def publish(self, changes: Changes, now: float) -> None:
        super().publish(changes, now)
        self._show_problem()

    def _show_problem(self) -> None:
        """Show the full error of the forward under the cursor, on up to a third of the screen."""
        running = self._chosen()
        text = clean(running.problem) if running is not None else ""
        self.problem.display = bool(text)
        lines = wrap((Span(f"▲ {text}", "warning"),), max(20, self.size.width - 6), indent=2)
        self.problem.styles.height = min(len(lines), max(1, self.size.height // 3)) + 2
        self.problem.show(lines)

    async def rows(self) -> Iterable[Row]:
        return [forward_row(id(running), running) for running in self.session.forwards]

    def _chosen(self) -> RunningForward | None:
        key = self.table.cursor_key
        return next((k for k in self.session.forwards if f"forward:{id(k)}" == key), None)

    def action_stop(self) -> None:
        running = self._chosen()
        if running is None:
            return

        async def stop() -> None:
            if not running.failed and not await self.session.confirm(stop_dialog(running)):
                return
            running.stop()
            if running in self.session.forwards:
                self.session.forwards.remove(running)
            self.ask()

        self.session.start("Stop", stop, writes=False)

    def action_copy_address(self) -> None:
        running = self._chosen()
        if running is not None:
            self.session.app.copy_to_clipboard(running.address)
            self.session.notify(running.address, title="Copied")

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_copy_address()
