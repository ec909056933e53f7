"""The menu: all actions available on a screen, generated from its active key bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen

from podtui.tui.commands.key_registry import group_order, group_title
from podtui.tui.widgets.cells import Line, Span, line_width, sized, width_of
from podtui.tui.widgets.dialogs import movement_bindings
from podtui.tui.widgets.key_names import UNBOUND
from podtui.tui.widgets.sanitize import literal
from podtui.tui.widgets.tones import LinesView

FIRST: Final = (
    "logs", "why", "probes", "timeline", "yaml", "resources", "act", "own", "main", "pod",
)  # fmt: skip
"""Groups that come first, in this order: actions on the selected object."""
MOVES: Final = frozenset({"text", "lines", "dialog", "picker", "prompt", "log-prompt", "menu"})
"""Groups of keys that only move or scroll, for which the mouse needs no menu."""
MOVING: Final = frozenset(
    {
        "table.up", "table.down", "table.first", "table.last", "table.page-up", "table.page-down",
        "table.next-column", "table.column-before", "main.next", "main.before", "pod.next",
        "pod.before", "node.next", "node.before", "probes.before", "probes.next",
        "what-if.page-down", "what-if.page-up", "app.menu", "app.interrupt",
    }
)  # fmt: skip
KEY: Final = 10
NAME: Final = 20
WIDEST: Final = 96


@dataclass(frozen=True, slots=True)
class Choice:
    """One menu item: ``shown`` is its key for display, ``action`` is run on ``owner``."""

    id: str
    shown: str
    name: str
    words: str
    action: str
    owner: DOMNode | None = None

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


def choices(screen: Screen[Any]) -> list[Choice]:
    """Return all actions that keys have on this screen now, without duplicates and movements."""
    app = cast("App[Any]", cast("Any", screen).app)
    has_target: Callable[[str], bool] = getattr(screen, "has_target", lambda _: True)
    found: dict[str, Choice] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        name = binding.id or ""
        movement_bindings = name in MOVING or name.partition(".")[0] in MOVES
        if not name or movement_bindings or not active.enabled or binding.key == UNBOUND:
            continue
        if not has_target(binding.action):
            continue
        shown = app.get_key_display(binding)
        found.setdefault(
            name,
            Choice(name, shown, binding.description, binding.tooltip, binding.action, active.node),
        )
    return sorted(found.values(), key=lambda choice: _order(choice.group))


def _order(group: str) -> tuple[int, tuple[int, str]]:
    return (FIRST.index(group) if group in FIRST else len(FIRST), group_order(group))


def menu_lines(
    items: Iterable[Choice], selected: int, width: int
) -> tuple[list[Line], list[int | None]]:
    """Return the lines, and for each the index of its item, None for a title or a blank line."""
    lines: list[Line] = []
    numbers: list[int | None] = []
    group = ""
    for number, item in enumerate(items):
        if item.group != group:
            group = item.group
            if lines:
                lines.append(())
                numbers.append(None)
            lines.append((Span(f"  {group_title(group)}", "heading"),))
            numbers.append(None)
        lines.append(_line(item, width, selected=number == selected))
        numbers.append(number)
    return lines, numbers


def _line(item: Choice, width: int, *, selected: bool) -> Line:
    """Return key and name, and the description if it fits and differs from the name."""
    head = (
        Span("❯ " if selected else "  ", "name"),
        Span(sized(item.shown, KEY), "hint-key"),
        Span(item.name.ljust(NAME), "name" if selected else ""),
    )
    more = item.words if item.words and item.words != item.name else ""
    if more and line_width(head) + 1 + width_of(more) <= width:
        head = (*head, Span(f" {more}", "muted"))
    return head


class Menu(ModalScreen[Choice | None]):
    """Returns the selected item, or None if cancelled. A single click selects."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings("menu"),
        Binding("enter", "choose", "Choose", id="menu.choose", tooltip="Run the action"),
        Binding("escape,q,m,f10", "cancel", "Close", id="menu.cancel", tooltip="Cancel"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    Menu {
        align: center middle;
        & > LinesView {
            width: 90%; max-width: 100; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, title: str, items: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self.items = tuple(items)
        self._numbers: list[int | None] = []
        self.place = 0
        self.view = LinesView(id="menu")

    def compose(self) -> ComposeResult:
        self.view.border_title = literal(f" {self._title} ")
        self.view.border_subtitle = " click or enter runs it · esc closes "
        yield self.view

    def on_mount(self) -> None:
        # Draw before the first frame, otherwise an empty box is visible for a moment.
        self._draw()
        self.view.focus()

    def on_resize(self) -> None:
        self._draw()
        self.call_after_refresh(self._show_place)

    def _draw(self) -> None:
        room = cast("App[Any]", cast("Any", self).app).size
        width = max(20, min(WIDEST, int(room.width * 0.9) - 5))
        lines, self._numbers = menu_lines(self.items, self.place, width)
        self.view.styles.height = min(len(lines) + 2, int(room.height * 0.9))
        self.view.show(lines)

    def _show_place(self) -> None:
        row = self._numbers.index(self.place) if self.items else 0
        high = max(1, self.view.size.height)
        top = round(self.view.scroll_y)
        # Keep the line above visible as well: it may be the title of the group.
        if row - 1 < top:
            self.view.scroll_to(y=row - 1, animate=False)
        elif row >= top + high:
            self.view.scroll_to(y=row - high + 1, animate=False)

    def action_move(self, step: int) -> None:
        self.place = max(0, min(len(self.items) - 1, self.place + step))
        self._draw()
        self._show_place()

    def on_click(self, event: events.Click) -> None:
        if not self.view.region.contains(event.screen_x, event.screen_y):
            self.dismiss(None)
            return
        row = event.screen_y - self.view.content_region.y + round(self.view.scroll_y)
        number = self._numbers[row] if 0 <= row < len(self._numbers) else None
        if number is not None:
            self.place = number
            self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self.items[self.place] if self.items else None)

    def action_cancel(self) -> None:
        self.dismiss(None)
