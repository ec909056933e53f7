"""The list of the prompt's commands with their aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from podtui.tui.commands.registry import Command
from podtui.tui.screens.help_screen import NARROW
from podtui.tui.widgets.cells import Line, Span, sized, wrap
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
        self._commands = tuple(commands)

    def compose(self) -> ComposeResult:
        view = LinesView(id="aliases")
        view.border_title = " Commands "
        view.border_subtitle = " : begins one · esc closes "
        yield view

    def on_resize(self) -> None:
        view = self.query_one(LinesView)
        width = min(76, int(self.size.width * 0.9)) - 5
        lines = command_lines(self._commands, width)
        view.styles.height = len(lines) + 2
        view.show(lines)


def command_lines(commands: Sequence[Command], width: int) -> list[Line]:
    """Return syntax, aliases and description of each command; on two lines on narrow screens."""
    lines: list[Line] = []
    for command in commands:
        typed, names = f":{command.name} {command.argument}", " ".join(command.aliases)
        if width < NARROW:
            lines.append((Span(f"{typed} ", "hint-key"), Span(names, "key")))
            lines += [(Span("  "), *row) for row in wrap((Span(command.words),), max(1, width - 2))]
        else:
            head = (Span(sized(typed, 17) + " ", "hint-key"), Span(sized(names, 13), "key"))
            lines.append((*head, Span(command.words)))
    return lines
