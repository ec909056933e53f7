"""The port-forwards that run: where from, where to, and what went through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from podtui.tui.actions.forwarding import KeptForward
from podtui.tui.actions.list_screen import ListScreen
from podtui.tui.overview.rows import pod_label
from podtui.tui.widgets.cells import Cell, Column, Kind, Line, Row, Span
from podtui.tui.widgets.format import size
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table

FORWARD_COLUMNS = (
    Column("local", "LOCAL", 100, maximum=24),
    Column("pod", "POD", 90, minimum=10, maximum=40, flexible=True),
    Column("port", "PORT", 80, align="right", kind=Kind.COUNT),
    Column("open", "OPEN", 60, align="right", kind=Kind.COUNT),
    Column("total", "TOTAL", 40, align="right", kind=Kind.COUNT),
    Column("sent", "SENT", 50, align="right", kind=Kind.BYTES),
    Column("received", "RECEIVED", 50, align="right", kind=Kind.BYTES),
    Column("problem", "PROBLEM", 85, minimum=16, maximum=400, flexible=True, filling=True),
)


def forward_row(number: int, kept: KeptForward) -> Row:
    forward, problem = kept.forward, clean(kept.problem)
    figures = (forward.remote_port, forward.connections, forward.accepted, forward.sent,
               forward.received)  # fmt: skip
    label = pod_label(kept.pod)
    tone = "error" if kept.failed else "good"
    glyph = "✗" if kept.failed else "●"
    cells = (
        Cell(f"{glyph} {kept.address}", tone),
        Cell(label, "name"),
        Cell(str(forward.remote_port), "soft"),
        Cell(str(forward.connections), "soft"),
        Cell(str(forward.accepted), "muted"),
        Cell(size(forward.sent), "muted"),
        Cell(size(forward.received), "muted"),
        Cell(f"▲ {problem}" if problem else "", "warning"),
    )
    sort = (forward.local_port, label, *figures, problem)
    values = (kept.address, label, *map(float, figures), problem)
    return Row(f"forward:{number}", cells, sort, values, search=f"{kept.address} {label}",
               fault=bool(problem))  # fmt: skip


class ForwardsScreen(ListScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d,x", "stop", "Stop", key_display="x", id="forwards.stop",
                tooltip="Stop this forward; its connections are cut"),
        Binding("y", "copy_address", "Copy the address", id="forwards.copy",
                tooltip="Copy the local address"),
    ]  # fmt: skip
    COLUMNS: ClassVar[Sequence[Column]] = FORWARD_COLUMNS
    SORT = "local"
    NAME = "port-forwards"
    NOTHING = ("No port is forwarded.", "F on a pod forwards one; they end with the screen.")

    async def rows(self) -> Iterable[Row]:
        return [forward_row(id(kept), kept) for kept in self.actions.forwards]

    def summary(self, count: int) -> Line:
        return (Span(f"{count:,}", "soft"),)

    def _chosen(self) -> KeptForward | None:
        key = self.table.cursor_key
        return next((k for k in self.actions.forwards if f"forward:{id(k)}" == key), None)

    def action_stop(self) -> None:
        kept = self._chosen()
        if kept is not None:
            kept.stop()
            self.actions.forwards.remove(kept)
            self.ask()

    def action_copy_address(self) -> None:
        kept = self._chosen()
        if kept is not None:
            self.podtui.copy_to_clipboard(kept.address)
            self.actions.tell(kept.address, title="Copied")

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_copy_address()
