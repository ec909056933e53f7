"""The line where filters, searches and commands are typed; it stands in for the key hints."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static


class Purpose(Enum):
    FILTER = "/"
    SEARCH = "?"
    COMMAND = ":"


SIGNS = {Purpose.FILTER: "/", Purpose.SEARCH: "/", Purpose.COMMAND: ":"}
HELP = {
    Purpose.FILTER: "regex, !regex, -l label=value, -f fuzzy",
    Purpose.SEARCH: "regex; n and N go to the next and the one before",
    Purpose.COMMAND: "po  events  logs  no  theme NAME  help  q",
}


class Prompt(Horizontal):
    """Hidden until `ask`; posts `Changed` as one types, `Submitted` or `Cancelled` at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="prompt.cancel"),
    ]
    DEFAULT_CSS = """
    Prompt {
        height: 1;
        width: 1fr;
        display: none;
        background: $panel;
        &.-open { display: block; }
        & > Static {
            width: 3; padding: 0 1; color: $primary; text-style: bold; background: $panel;
        }
        & > Input {
            border: none; height: 1; padding: 0; background: $panel; width: 1fr;
            &:focus { border: none; background-tint: $panel 0%; }
        }
    }
    """

    class Changed(Message):
        def __init__(self, purpose: Purpose, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Submitted(Changed):
        pass

    class Cancelled(Changed):
        pass

    def __init__(self, *, id: str = "prompt") -> None:
        super().__init__(id=id)
        self._purpose = Purpose.FILTER
        self._sign = Static("/")
        self.input = Input(select_on_focus=False, id="prompt-input")

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.input

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def ask(self, purpose: Purpose, text: str = "", words: Sequence[str] = ()) -> None:
        """Open for a purpose, with a text to begin with; ``words`` complete commands."""
        self._purpose = purpose
        self._sign.update(SIGNS[purpose])
        self.input.placeholder = HELP[purpose]
        self.input.suggester = SuggestFromList(words, case_sensitive=False) if words else None
        with self.prevent(Input.Changed):
            self.input.value = text
        self.input.cursor_position = len(text)
        self.add_class("-open")
        self.input.focus()

    def close(self) -> None:
        self.remove_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Changed(self._purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()
        self.post_message(self.Submitted(self._purpose, event.value))

    def action_cancel(self) -> None:
        self.close()
        self.post_message(self.Cancelled(self._purpose, self.input.value))
