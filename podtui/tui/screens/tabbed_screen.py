"""The base of screens with tabs, of which one shows logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.widget import Widget

from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.tab_bar import next_tab
from podtui.tui.widgets.bars import Hints
from podtui.tui.widgets.prompt import Prompt, Purpose
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.text_view import TextView
from podtui.tui.widgets.tones import LinesView


class TabbedScreen(BackScreen):
    """``tab`` is the open tab; its widget has the tab's name as its ID."""

    TABS: ClassVar[Mapping[str, str]] = {}
    tab: str
    logs: LogsPane

    def action_tab(self, tab: str) -> None:
        """Open a tab."""
        raise NotImplementedError

    def body_of_tab(self) -> Widget:
        """Return the widget of the open tab that gets the keys."""
        return self.logs.view if self.tab == "logs" else self.query_one(f"#{self.tab}")

    def action_cycle(self, step: int) -> None:
        self.action_tab(next_tab(self.TABS, self, self.tab, step))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "find" and self.tab == "logs":
            return True
        if action == "match":
            return not isinstance(self.find_target, Table)
        return super().check_action(action, parameters)

    def action_find(self) -> None:
        if self.tab == "logs":
            self.query_one(Prompt).ask(Purpose.SEARCH)
            self.query_one(Hints).display = False
        else:
            super().action_find()

    def action_match(self, step: int) -> None:
        target = self.find_target
        if isinstance(target, (LinesView, TextView)):
            if step > 0:
                target.next_match()
            else:
                target.previous_match()

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        if self.tab == "logs":
            self._close_prompt()
            self.logs.find(message.text)
        else:
            super().on_prompt_submitted(message)

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        if self.tab == "logs":
            self._close_prompt()
        else:
            super().on_prompt_cancelled(message)

    def _close_prompt(self) -> None:
        super()._close_prompt()
        self.set_focus(self.body_of_tab())
