"""The commands that the prompt knows, with their short names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from podtui.tui.keys.commands import Command
from podtui.tui.widgets.cells import Line, Span, sized
from podtui.tui.widgets.tones import LinesView


class AliasesScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+a", "dismiss", "Close", id="aliases.close", tooltip="Close"),
    ]
    DEFAULT_CSS = """
    AliasesScreen {
        align: center middle;
        & > LinesView {
            width: 90%; max-width: 76; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self._lines = command_lines(commands)

    def compose(self) -> ComposeResult:
        view = LinesView(id="aliases")
        view.border_title = " Commands "
        view.border_subtitle = " : begins one · esc closes "
        yield view

    def on_mount(self) -> None:
        view = self.query_one(LinesView)
        view.styles.height = len(self._lines) + 2
        view.show(self._lines)


def command_lines(commands: Sequence[Command]) -> list[Line]:
    """A line for each: how it is typed, its short names, what it does."""
    return [
        (
            Span(sized(f":{command.name} {command.argument}", 17) + " ", "hint-key"),
            Span(sized(" ".join(command.aliases), 13), "key"),
            Span(command.words),
        )
        for command in commands
    ]
