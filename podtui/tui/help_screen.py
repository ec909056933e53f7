"""Every key that does something on the screen below, made from the bindings themselves."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from podtui.tui.cells import Line, Span
from podtui.tui.tones import LinesView

KEYS = 18
TITLES = {
    "main": "Panes and pods",
    "pod": "Pod",
    "manifest": "Manifest",
    "screen": "Screen",
    "app": "Everywhere",
    "pods": "Sorting the pods",
    "logs": "Logs",
    "table": "Moving in a table",
    "log": "Moving in a log",
    "text": "Moving in a text",
}


def help_lines(screen: Screen[Any]) -> list[Line]:
    """The bindings of a screen and all its widgets, by the group that their id names."""
    app = cast("App[Any]", cast("Any", screen).app)
    groups: dict[str, dict[str, tuple[list[str], str]]] = {}
    for node in (*screen.walk_children(with_self=True), app):
        for _, binding in node._bindings:  # pyright: ignore[reportPrivateUsage]
            group, _, name = (binding.id or "").partition(".")
            if not name or group not in TITLES:
                continue
            keys, _ = groups.setdefault(group, {}).setdefault(
                name, ([], binding.tooltip or binding.description)
            )
            shown = app.get_key_display(binding)
            if shown not in keys:
                keys.append(shown)
    lines: list[Line] = []
    for group, title in TITLES.items():
        if group not in groups:
            continue
        lines += [(Span(title, "heading"),)]
        for keys, words in groups[group].values():
            lines.append((Span(f"  {' '.join(keys):<{KEYS}}", "hint-key"), Span(words)))
        lines.append(())
    return lines


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close", id="help.close"),
    ]
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > LinesView {
            width: 90%; max-width: 84; height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 2;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, lines: list[Line]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        view = LinesView(id="help")
        view.border_title = " Keys "
        view.border_subtitle = " esc closes "
        yield view

    def on_mount(self) -> None:
        self.query_one(LinesView).show(self._lines)
