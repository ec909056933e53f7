"""Base classes of screens that show the model: all of it when opened, then its changes."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import ActiveBinding, Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from podtui.text.terminal_text import plural
from podtui.tui.commands.availability import is_available
from podtui.tui.commands.session import Session, session_of
from podtui.tui.model.model import Changes
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.filters import FilterError, complete_filter, parse_filter
from podtui.tui.widgets.prompt import Prompt, Purpose
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.text_view import TextView
from podtui.tui.widgets.tones import LinesView

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
        bindings = super().active_bindings
        for key, active in self.session.user_bindings().items():
            bindings.setdefault(key, active)
        return bindings

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
        """Show changes; ``changes`` is empty if only the time advanced.

        The app calls this while the screen is `opened`.
        """


class FindingScreen(LiveScreen):
    """A screen whose tables are filtered, and whose texts are searched, in a `Prompt`. Subclasses
    compose the prompt and a `Hints`, and may have a header.
    """

    @property
    def find_target(self) -> Table | LinesView | TextView | None:
        """The widget that ``/`` filters or searches: by default the focused one."""
        focused = self.focused
        return focused if isinstance(focused, (Table, LinesView, TextView)) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "find":
            return self.opened and bool(self.query(Prompt)) and self.find_target is not None
        return super().check_action(action, parameters)

    def action_find(self) -> None:
        target = self._prompt_target = self.find_target
        prompt = self.query_one(Prompt)
        if isinstance(target, Table):
            ask_filter(prompt, target)
        elif target is not None:
            prompt.ask(Purpose.SEARCH)
        else:
            return
        self.query_one(Hints).display = False

    _prompt_target: Table | LinesView | TextView | None = None
    """The widget for which the prompt was opened."""

    def on_prompt_changed(self, message: Prompt.Changed) -> None:
        target = self._prompt_target
        if isinstance(target, Table) and filter_error(message.text, target) is None:
            self._narrow(target, message.text)

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        target = self._prompt_target
        self._close_prompt()
        if target is not None and isinstance(target, Table):
            self._narrow(target, message.text)
        elif target is not None:
            # Without a text, the search goes on.
            if message.text:
                self._narrow(target, message.text)
            target.next_match()

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        target = self._prompt_target
        self._close_prompt()
        if target is not None:
            self._narrow(target, "")

    def _close_prompt(self) -> None:
        self.query_one(Hints).display = True
        self.set_focus(self._prompt_target)

    def _narrow(self, target: Table | LinesView | TextView, text: str) -> None:
        if isinstance(target, Table):
            target.filter_by(parse_filter(text, target.columns))
        else:
            target.search(text)
        self.show_narrowing()

    def show_narrowing(self) -> None:
        """Show the filter or the search of the focused widget in the header."""
        target = self.find_target
        line: Line = ()
        if isinstance(target, Table) and target.set.filter.text:
            rows = f" {len(target.set):,} of {len(target.set.rows):,}"
            line = (Span(f"  /{clean(target.set.filter.text)}", "key"), Span(rows, "muted"))
        elif target is not None and not isinstance(target, Table) and target.pattern:
            count = len(target.matches)
            line = (Span(f"  /{clean(target.pattern)}", "key"),
                    Span(f" {plural(count, 'match', 'matches')}", "muted"))  # fmt: skip
        for header in self.query("#header").results(Bar):
            header.show_narrowing((*line, Span(" · esc", "muted")) if line else ())

    def end_find(self) -> bool:
        """Remove the filter or the search of the focused widget; return whether there was one."""
        target = self.find_target
        if target is None:
            return False
        if not (target.set.filter.text if isinstance(target, Table) else target.pattern):
            return False
        self._narrow(target, "")
        return True


def ask_filter(prompt: Prompt, table: Table) -> None:
    """Ask for the filter of a table."""
    rows = table.set
    prompt.ask(
        Purpose.FILTER,
        rows.filter.text,
        complete=lambda text: complete_filter(
            text, rows.columns, lambda n: (row.values[n] for row in rows.rows.values())
        ),
        check=lambda text: filter_error(text, table),
    )


def filter_error(text: str, table: Table) -> FilterError | None:
    """Return the error in a filter for a table; None if it is valid."""
    try:
        parse_filter(text, table.columns)
    except FilterError as error:
        return error
    return None


class BackScreen(FindingScreen):
    """A screen that ``q`` and Esc close."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "Back", key_display="esc", id="screen.back"),
        Binding("slash", "find", "Find", id="screen.find",
                tooltip="Filter the table, or search the text; without a text, go to the next"
                        " match"),
    ]  # fmt: skip
    DEFAULT_CSS = "BackScreen { layout: vertical; background: $background; }"

    def action_back(self) -> None:
        if not self.end_find():
            self.session.app.pop_screen()
