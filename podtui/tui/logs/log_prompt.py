"""The line of a log pane where filters and searches are typed."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static


class Asked(Enum):
    """The value is what is said where nothing is typed yet."""

    FILTER = "show lines with re, without !re, -f letters; -C 3 shows lines around"
    SEARCH = "go to lines with re; n and N to the next and the one before"


class LogPrompt(Horizontal):
    """Hidden until `ask`; posts `Changed` as one types, `Done` at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="log-prompt.cancel", tooltip="Leave it as it was"),
    ]
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
        """``text`` is what it was before where that was ``cancelled``."""

        def __init__(self, asked: Asked, text: str, *, cancelled: bool) -> None:
            super().__init__(asked, text)
            self.cancelled = cancelled

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._asked = Asked.FILTER
        self._before = ""
        self._sign = Static()
        self.input = Input(select_on_focus=False)

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.input

    def ask(self, asked: Asked, text: str) -> None:
        """Open with a text to begin with."""
        self._asked, self._before = asked, text
        self._sign.update("filter" if asked is Asked.FILTER else "find")
        self.input.placeholder = asked.value
        with self.prevent(Input.Changed):
            self.input.value = text
        self.input.cursor_position = len(text)
        self.display = True
        # At once, not when there is time for it: keys that follow fast are for it.
        self.screen.set_focus(self.input)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Changed(self._asked, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close(event.value, cancelled=False)

    def action_cancel(self) -> None:
        self._close(self._before, cancelled=True)

    def _close(self, text: str, *, cancelled: bool) -> None:
        self.display = False
        self.post_message(self.Done(self._asked, text, cancelled=cancelled))
