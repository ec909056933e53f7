"""The input line of a log pane for filters and searches."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from podtui.tui.overview.view_history import Typed
from podtui.tui.widgets.sanitize import clean


class Asked(Enum):
    """The kind of input; the value is the placeholder of an empty line."""

    FILTER = "show lines with re, without !re, -f letters; -C 3 shows lines around"
    SEARCH = "go to the first line with re; n and N go on"


class LogPrompt(Horizontal):
    """Hidden until `ask`; posts `Changed` while the user types and `Done` at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="log-prompt.cancel", tooltip="Cancel"),
        Binding("up", "history(-1)", "Earlier", show=False, id="log-prompt.earlier",
                tooltip="Previous entry"),
        Binding("down", "history(1)", "Later", show=False, id="log-prompt.later",
                tooltip="Next entry"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    LogPrompt {
        height: 1; width: 1fr; display: none; dock: bottom;
        & > Static { width: auto; padding: 0 1; color: $primary; text-style: bold; }
        & > Input {
            border: none; height: 1; padding: 0; width: 1fr; background: $background;
            &:focus { border: none; background-tint: $background 0%; }
        }
    }
    """

    class Changed(Message):
        def __init__(self, asked: Asked, text: str) -> None:
            super().__init__()
            self.asked = asked
            self.text = text

    class Done(Changed):
        """Posted at the end; if ``cancelled``, ``text`` is the previous text."""

        def __init__(self, asked: Asked, text: str, *, cancelled: bool) -> None:
            super().__init__(asked, text)
            self.cancelled = cancelled

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._asked = Asked.FILTER
        self._before = ""
        self._typed = {asked: Typed() for asked in Asked}
        self._sign = Static()
        self.input = Input(select_on_focus=False)

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.input

    @property
    def filters(self) -> bool:
        """True while a filter is typed: then the lower border is reserved for its error message."""
        return self.display and self._asked is Asked.FILTER

    def ask(self, asked: Asked, before: str) -> None:
        """Open an empty line; ``before`` stays in effect until the user types, ↑ recalls it."""
        self._asked, self._before = asked, before
        self._typed[asked].add(before)
        self._sign.update("filter" if asked is Asked.FILTER else "find")
        self.input.placeholder = f"↑ {clean(before)} · enter clears it" if before else asked.value
        with self.prevent(Input.Changed):
            self.input.value = ""
        self.display = True
        # Focus at once, not in a later message: keys that follow quickly are meant for the input.
        self.screen.set_focus(self.input)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Changed(self._asked, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._typed[self._asked].add(event.value)
        self._close(event.value, cancelled=False)

    def action_cancel(self) -> None:
        self._close(self._before, cancelled=True)

    def action_history(self, step: int) -> None:
        self.input.value = self._typed[self._asked].step(step, self.input.value)
        self.input.cursor_position = len(self.input.value)

    def _close(self, text: str, *, cancelled: bool) -> None:
        self.display = False
        self.post_message(self.Done(self._asked, text, cancelled=cancelled))
