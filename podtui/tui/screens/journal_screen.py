"""The journal: every action and every engine call as a command line to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.v1 import Pod
from podtui.tui.screens.list_screen import ListScreen
from podtui.tui.views.journal import COLUMNS, LINE, journal_rows
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Column, Line, Row, Span, wrap
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView


class JournalScreen(ListScreen):
    """The journal of all pods. If it was opened for ``pod``, ``p`` toggles between that and all."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "all_pods", "All or one pod", id="journal.pods",
                tooltip="The lines of all pods, or of the selected pod"),
        Binding("y", "copy_line", "Copy the line", id="journal.copy",
                tooltip="Copy the line under the cursor, to run it in a shell"),
    ]  # fmt: skip
    COLUMNS: ClassVar[Sequence[Column]] = COLUMNS
    SORT = "age"
    DEFAULT_CSS = """
    JournalScreen #line { border: round $pane-border; padding: 0 1; background: $background;
        border-title-color: $pane-title; }
    """
    NAME = "journal"
    ON_ROWS = frozenset({"copy_line"})
    NOTHING = ("No actions yet.", "Your actions and the engine calls of the agent are listed here.")

    def __init__(self, pod: Pod | None = None) -> None:
        super().__init__()
        self._pod = pod
        self.line = LinesView(id="line")
        self.line.border_title = " line "
        self._only = False

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield self.table
        yield self.line
        yield Hints()
        yield Prompt()

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        self._show_line()

    def on_resize(self) -> None:
        self._show_line()

    def _show_line(self) -> None:
        """Show the full line under the cursor, on up to a third of the screen."""
        row = self.table.cursor_row
        text = row.cells[LINE].text if row is not None else ""
        lines = wrap((Span(text),), max(20, self.size.width - 6), indent=2)
        self.line.styles.height = min(len(lines), max(1, self.size.height // 3)) + 2
        self.line.show(lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "all_pods":
            return self._pod is not None
        return super().check_action(action, parameters)

    async def rows(self) -> Iterable[Row]:
        pod = self._pod if self._only else None
        uid = pod.metadata.uid if pod is not None else ""
        calls = await self.session.client.engine_calls(uid)
        return journal_rows(self.session.journal, calls, pod.metadata.name if pod else "")

    def summary(self, count: int) -> Line:
        whose = pod_label(self._pod) if self._only and self._pod is not None else "all pods"
        return (Span(f"{whose} · {count:,}", "soft"),)

    def action_all_pods(self) -> None:
        self._only = not self._only
        self.ask()

    def action_copy_line(self) -> None:
        row = self.table.cursor_row
        if row is not None:
            self.session.app.copy_to_clipboard(str(row.values[LINE]))
            self.session.notify(str(row.values[LINE]), title="Copied")

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_copy_line()
