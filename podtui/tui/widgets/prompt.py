"""The input line for filters, searches and commands; it replaces the key hints while open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import ClassVar, Final

from rich.highlighter import Highlighter
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from podtui.tui.widgets.filters import FilterError
from podtui.tui.widgets.sanitize import clean

Complete = Callable[[str], str | None]


class Completer(Suggester):
    """A suggester that calls a function. Nothing is cached, since completions change with the
    pods.
    """

    def __init__(self, complete: Complete) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return self._complete(value)


def complete_command(text: str, candidates: Iterable[str]) -> str | None:
    """Return the first of ``candidates`` that begins with ``text``."""
    lower = text.lower()
    return next((text + w[len(text) :] for w in candidates if w.lower().startswith(lower)), None)


class InputHistory:
    """The history of lines typed in a prompt, for the arrow keys."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._at = 0
        self._draft = ""

    def add(self, line: str) -> None:
        """Add a line as the newest, without duplicates, and go to the end."""
        if line.strip():
            self._lines = [*(old for old in self._lines if old != line), line][-LINES_KEPT:]
        self._at = len(self._lines)

    def step(self, by: int, current: str) -> str:
        """Return the previous (-1) or next (1) line. ``current``, the unfinished line, is at the
        end.
        """
        if self._at == len(self._lines):
            self._draft = current
        self._at = max(0, min(len(self._lines), self._at + by))
        return self._draft if self._at == len(self._lines) else self._lines[self._at]


LINES_KEPT: Final = 50


class Purpose(Enum):
    FILTER = "/"
    SEARCH = "?"
    COMMAND = ":"


SIGNS = {Purpose.FILTER: "/", Purpose.SEARCH: "/", Purpose.COMMAND: ":"}
HELP = {
    Purpose.FILTER: "regex  !regex  -l label=value  -f fuzzy  status=X restarts>3 age<2h",
    Purpose.SEARCH: "regex; n and N go to the next and the previous match",
    Purpose.COMMAND: "po  events  logs  no  sort COLUMN  theme NAME  help  q",
}

Check = Callable[[str], FilterError | None]


class _ErrorHighlighter(Highlighter):
    """Highlights the invalid part of the text."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        if self.place is not None:
            text.stylize("underline reverse", *self.place)


class Prompt(Horizontal):
    """Hidden until `ask`; posts `Changed` while the user types, finally `Submitted` or
    `Cancelled`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="prompt.cancel",
                tooltip="Close and clear the filter"),
        Binding("up", "history(-1)", "Earlier", show=False, id="prompt.earlier",
                tooltip="Previous entry"),
        Binding("down", "history(1)", "Later", show=False, id="prompt.later",
                tooltip="Next entry"),
        Binding("tab", "complete", "Complete", show=False, id="prompt.complete",
                tooltip="Accept the completion"),
    ]  # fmt: skip
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
        & > #prompt-fault {
            width: auto; max-width: 60%; padding: 0 1; color: $error; text-style: none;
            display: none;
            &.-open { display: block; }
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
        self._marks = _ErrorHighlighter()
        self._fault = Static("", id="prompt-fault")
        self._history = {purpose: InputHistory() for purpose in Purpose}
        self._check: Check | None = None
        self.input = Input(select_on_focus=False, highlighter=self._marks, id="prompt-input")

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.input
        yield self._fault

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def ask(
        self,
        purpose: Purpose,
        text: str = "",
        candidates: Sequence[str] = (),
        *,
        complete: Complete | None = None,
        check: Check | None = None,
    ) -> None:
        """Open the prompt with an initial text.

        Completions come from ``candidates`` or from ``complete``. An error of ``check`` is shown
        while the user types and prevents submission.
        """
        self._purpose = purpose
        self._check = check
        self._sign.update(SIGNS[purpose])
        self.input.placeholder = HELP[purpose]
        if candidates:
            complete = partial(complete_command, candidates=candidates)
        self.input.suggester = Completer(complete) if complete is not None else None
        with self.prevent(Input.Changed):
            self.input.value = text
        self.input.cursor_position = len(text)
        if purpose is Purpose.FILTER:
            # As in a search field: typing replaces the last filter, a cursor key edits it.
            self.input.select_all()
        self._history[purpose].add("")
        self._show_error(text)
        self.add_class("-open")
        # Focus at once, not in a later message: keys that follow quickly are meant for the input.
        self.screen.set_focus(self.input)

    def close(self) -> None:
        self.remove_class("-open")

    def _show_error(self, text: str) -> bool:
        """Check a text and show its error. Returns True if it is valid."""
        fault = self._check(text) if self._check is not None else None
        self._marks.place = (fault.start, fault.end) if fault is not None else None
        message = f"✖ at {fault.start + 1}: {clean(str(fault))}" if fault is not None else ""
        self._fault.update(Content(message))
        self._fault.set_class(bool(message), "-open")
        return fault is None

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self._show_error(event.value)
            self.post_message(self.Changed(self._purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self._show_error(event.value):
            return
        self._history[self._purpose].add(event.value)
        self.close()
        self.post_message(self.Submitted(self._purpose, event.value))

    def action_cancel(self) -> None:
        self.close()
        self.post_message(self.Cancelled(self._purpose, self.input.value))

    def action_history(self, step: int) -> None:
        self.input.value = self._history[self._purpose].step(step, self.input.value)
        self.input.cursor_position = len(self.input.value)

    def action_complete(self) -> None:
        self.input.action_end()
        self.input.action_cursor_right()
