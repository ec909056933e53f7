"""The menu: all actions available on a screen, generated from its active key bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from podtui.tui.commands.key_registry import group_order, group_title
from podtui.tui.widgets.cells import Line, Span, line_width, sized, width_of
from podtui.tui.widgets.dialogs import ListDialog, movement_bindings
from podtui.tui.widgets.key_names import UNBOUND

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
    description: str
    action: str
    owner: DOMNode | None = None

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


def choices(screen: Screen[Any]) -> list[Choice]:
    """Return all actions that keys have on this screen now, without duplicates and movements."""
    app = cast("App[Any]", cast("Any", screen).app)
    has_target: Callable[[str], bool] = getattr(screen, "has_target", lambda _: True)
    by_id: dict[str, Choice] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        name = binding.id or ""
        moves = name in MOVING or name.partition(".")[0] in MOVES
        if not name or moves or not active.enabled or binding.key == UNBOUND:
            continue
        if not has_target(binding.action):
            continue
        shown = app.get_key_display(binding)
        by_id.setdefault(
            name,
            Choice(name, shown, binding.description, binding.tooltip, binding.action, active.node),
        )
    return sorted(by_id.values(), key=lambda choice: _order(choice.group))


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
    more = item.description if item.description and item.description != item.name else ""
    if more and line_width(head) + 1 + width_of(more) <= width:
        head = (*head, Span(f" {more}", "muted"))
    return head


class Menu(ListDialog[Choice]):
    """Returns the selected item. A single click selects."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings("menu"),
        Binding("enter", "choose", "Choose", id="menu.choose", tooltip="Run the action"),
        Binding("escape,q,m,f10", "cancel", "Close", id="menu.cancel", tooltip="Cancel"),
    ]  # fmt: skip
    DEFAULT_CSS = "Menu > LinesView { max-width: 100; padding: 0 1; }"
    FOOTER = "click or enter runs it · esc closes"

    def __init__(self, title: str, items: Sequence[Choice]) -> None:
        super().__init__(title, len(items))
        self.items = tuple(items)

    def draw(self) -> None:
        width = max(20, min(WIDEST, int(self.room.width * 0.9) - 5))
        lines, self.rows = menu_lines(self.items, self.place, width)
        self.view.styles.height = min(len(lines) + 2, int(self.room.height * 0.9))
        self.view.show(lines)

    def on_click(self, event: events.Click) -> None:
        if not self.view.region.contains(event.screen_x, event.screen_y):
            self.dismiss(None)
            return
        item = self.item_at(event)
        if item is not None:
            self.place = item
            self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self.items[self.place] if self.items else None)
