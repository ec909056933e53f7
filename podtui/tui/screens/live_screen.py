"""Base classes of screens that show the model: all of it when opened, then its changes."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import ActiveBinding, Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from podtui.tui.commands.availability import is_available
from podtui.tui.commands.session import Session, session_of
from podtui.tui.model.model import Changes

RIGHT = 3
"""The mouse button that opens the menu."""


class LiveScreen(Screen[None]):
    """Base class of the full screens."""

    BINDINGS: ClassVar[list[BindingType]] = []

    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset()
    """Ids of the bindings that the key hints show first: the main actions of the screen."""

    NO_HINTS: ClassVar[frozenset[str]] = frozenset()
    """Ids of bindings without a key hint, because their description does not fit this screen."""

    opened = False
    """True while the widgets exist; earlier changes are included when the screen opens."""

    _parts: tuple[Widget, ...] = ()

    def on_mount(self) -> None:
        if not (self.is_attached and self.session.app.is_running):
            return  # the app is closing: there may be no widgets
        self.opened = True
        self._parts = tuple(self.children)
        self.publish(self.session.model.all_changes(), self.session.now())
        self.begin()

    def begin(self) -> None:
        """Called once, after the screen has shown the whole model for the first time."""

    def on_unmount(self) -> None:
        self.opened = False

    @property
    def is_current(self) -> bool:
        """True if any part of the screen is visible.

        Textual also returns True for the screen below the top one even if that one is opaque, and
        would then draw the whole top screen for each change below.
        """
        if not super().is_current:
            return False
        stack = self.session.app.screen_stack
        above = stack[stack.index(self) + 1 :]
        return not any(screen.styles.background.a == 1 for screen in above)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The bindings of the screen, and those of the user's commands on keys that are free."""
        found = super().active_bindings
        for key, active in self.session.user_bindings().items():
            found.setdefault(key, active)
        return found

    @property
    def shown(self) -> bool:
        """True if all widgets exist: a screen that is being closed loses them one by one."""
        return self.opened and all(part in self.children for part in self._parts)

    @property
    def session(self) -> Session:
        return session_of(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not is_available(self.session.model.server.capabilities, action, parameters):
            return False
        return super().check_action(action, parameters)

    def has_target(self, action: str) -> bool:
        """Return True if the action has an object to act on.

        If not, hints and menu omit the key; pressing it still shows what is missing.
        """
        return True

    @property
    def menu_title(self) -> str:
        """The title of the menu: the object that its actions apply to."""
        return "Menu"

    async def on_click(self, event: events.Click) -> None:
        if event.button == RIGHT:
            await self.run_action("app.menu")

    def publish(self, changes: Changes, now: float) -> None:
        """Show changes; ``changes`` is empty if only the time advanced."""


class BackScreen(LiveScreen):
    """A screen that ``q`` and Esc close."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back", key_display="esc", id="screen.back"),
    ]
    DEFAULT_CSS = "BackScreen { layout: vertical; background: $background; }"

    def action_back(self) -> None:
        self.session.app.pop_screen()
