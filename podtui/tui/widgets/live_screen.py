"""Screens that show the model: opened with all of it, then told what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from podtui.tui.model import Changes
from podtui.tui.overview.offers import is_offered
from podtui.tui.widgets.compositing import CellsCompositor

if TYPE_CHECKING:
    from podtui.tui.app import PodtuiApp

RIGHT = 3
"""The mouse button that opens the menu."""


class LiveScreen(Screen[None]):
    """Base of our full screens."""

    BINDINGS: ClassVar[list[BindingType]] = []

    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset()
    """Ids of the bindings that the line of keys names before all others: what one comes for."""

    NO_HINTS: ClassVar[frozenset[str]] = frozenset()
    """Ids of those that it does not name: their words are not true here."""

    opened = False
    """Whether its widgets are there: what is published before is shown when it opens."""

    _parts: tuple[Widget, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CellsCompositor()

    def on_mount(self) -> None:
        self.opened = True
        self._parts = tuple(self.children)
        self.publish(self.podtui.model.everything(), self.podtui.now())

    def on_unmount(self) -> None:
        self.opened = False

    @property
    def is_current(self) -> bool:
        """Whether any of it is seen. Textual says so of a screen right below the top one, whatever
        hides it, and draws all of the top one for each change below."""
        if not super().is_current:
            return False
        stack = self.podtui.screen_stack
        above = stack[stack.index(self) + 1 :]
        return not any(screen.styles.background.a == 1 for screen in above)

    @property
    def shown(self) -> bool:
        """Whether all of it is there to draw on: a screen that is leaving loses its widgets one
        by one before it is gone."""
        return self.opened and all(part in self.children for part in self._parts)

    @property
    def podtui(self) -> PodtuiApp:
        """The app, by its own type."""
        return cast("PodtuiApp", cast("Any", self).app)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not is_offered(self.podtui.model.server.capabilities, action, parameters):
            return False
        return super().check_action(action, parameters)

    def has_target(self, action: str) -> bool:
        """Whether there is something to act on. Without it, the key is not in hints and menu;
        pressed, it says what is missing."""
        return True

    @property
    def menu_title(self) -> str:
        """What the menu is called: the thing that it is about."""
        return "Menu"

    async def on_click(self, event: events.Click) -> None:
        if event.button == RIGHT:
            await self.run_action("app.menu")

    def publish(self, changes: Changes, now: float) -> None:
        """Show what changed; ``changes`` may be empty when only time went on."""


class BackScreen(LiveScreen):
    """A screen that goes back with ``q`` and Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back", key_display="esc", id="screen.back"),
    ]
    DEFAULT_CSS = "BackScreen { layout: vertical; background: $background; }"

    def action_back(self) -> None:
        self.podtui.pop_screen()
