"""The main screen's prompt: table filters, log search, commands."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from podtui.tui.model.model import Changes
from podtui.tui.screens.live_screen import LiveScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.main.pods_pane import PodsPane
from podtui.tui.widgets.bars import Hints
from podtui.tui.widgets.filters import FilterError, column_named, complete_filter, parse_filter
from podtui.tui.widgets.prompt import Prompt, Purpose
from podtui.tui.widgets.table_pane import TablePane


class PromptedScreen(LiveScreen):
    """A screen with a prompt. The subclass provides the panes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", tooltip="Filter the table, or search the log",
                id="main.filter"),
    ]  # fmt: skip

    pods: PodsPane
    logs: LogsPane

    @property
    def active(self) -> str:
        """The pane with the keyboard focus."""
        raise NotImplementedError

    @property
    def active_table(self) -> TablePane | None:
        """The focused pane, if it has a table."""
        raise NotImplementedError

    def focus_of(self, name: str) -> Widget:
        """Return the widget of a pane that takes the focus."""
        raise NotImplementedError

    def action_pane(self, name: str) -> None:
        """Focus a pane."""
        raise NotImplementedError

    def went(self) -> None:
        """Add the current view to the history."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "filter" and self.is_mounted:
            return self.active == "logs" or self.active_table is not None
        return super().check_action(action, parameters)

    # --- opening

    def action_filter(self) -> None:
        prompt = self.query_one(Prompt)
        pane = self.active_table
        if self.active == "logs":
            prompt.ask(Purpose.SEARCH)
        elif pane is not None:
            table = pane.table.set
            prompt.ask(
                Purpose.FILTER,
                table.filter.text,
                complete=lambda text: complete_filter(
                    text, table.columns, lambda n: (row.values[n] for row in table.rows.values())
                ),
                check=lambda text: self._fault_of(text, pane),
            )
        self._prompting(prompt.is_open)

    def ask_command(self) -> None:
        """Open the prompt for a command."""
        prompt = self.query_one(Prompt)
        prompt.ask(Purpose.COMMAND, words=self.podtui.command_words())
        self._prompting(True)

    def _prompting(self, on: bool) -> None:
        self.query_one(Hints).display = not on
        if not on:
            self.set_focus(self.focus_of(self.active))

    # --- answers

    def _fault_of(self, text: str, pane: TablePane) -> FilterError | None:
        try:
            parse_filter(text, pane.table.columns)
        except FilterError as error:
            return error
        return None

    def filter_table(self, text: str) -> None:
        """Filter the focused table, by default the pods. Raises `FilterError`."""
        pane = self.active_table or self.pods
        pane.filter_by(parse_filter(text, pane.table.columns))
        self.publish(Changes(), self.podtui.now())

    def on_prompt_changed(self, message: Prompt.Changed) -> None:
        pane = self.active_table
        if (
            message.purpose is Purpose.FILTER
            and pane is not None
            and self._fault_of(message.text, pane) is None
        ):
            self.filter_table(message.text)

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self.filter_table(message.text)
            self.went()
        elif message.purpose is Purpose.SEARCH:
            self.logs.find(message.text)
        else:
            self.podtui.run_command(message.text)

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self.filter_table("")

    # --- commands

    def action_go(self, pane: str, text: str = "") -> None:
        """Focus a pane; filter its table by ``text`` unless that is empty."""
        self.action_pane(pane)
        if text and self.active_table is not None:
            try:
                self.filter_table(text)
            except FilterError as error:
                self.notify(str(error), severity="error", title="Filter", markup=False)
            else:
                self.went()

    def action_sort_by(self, column: str) -> None:
        """Sort the table by a column, given by any of its names."""
        table = (self.active_table or self.pods).table
        place = column_named(column, table.columns)
        if place is None:
            names = " ".join(c.names[0] for c in table.columns)
            self.notify(f"The columns are {names}", severity="warning", markup=False)
        else:
            table.sort_by(table.columns[place].key)

    def action_choose_columns(self) -> None:
        (self.active_table or self.pods).action_columns()
