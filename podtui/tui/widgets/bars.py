"""The bars around the panes (header, key hints, status). Each draws one row of spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct
from textual import events
from textual.app import App
from textual.screen import ModalScreen, Screen
from textual.signal import Signal
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from podtui.tui.widgets.cells import Line, Span, line_width
from podtui.tui.widgets.key_names import UNBOUND
from podtui.tui.widgets.tones import Toned

FREE_HEIGHT: Final = 21
"""Rows of a terminal from which no dialog reaches the keys; it takes 90 % at most."""
ALWAYS: Final = frozenset(
    {"app.help", "help", "app.quit", "quit", "app.command", "command", "back", "menu"}
)
"""Actions whose keys are shown at the right end, independent of the focus."""


class Bar(Toned):
    """One row with a left-aligned and a right-aligned part; ``right`` is omitted if both do not
    fit."""

    DEFAULT_CSS = "Bar { height: 1; width: 1fr; background: $surface; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.left: Line = ()
        self.right: Line = ()
        self.notice: Line = ()
        self.narrowing: Line = ()

    def show_narrowing(self, narrowing: Line) -> None:
        """Show what narrows the table or text below, after ``left``; empty removes it."""
        if narrowing != self.narrowing:
            self.narrowing = narrowing
            self.refresh()

    def warn(self, notice: Line) -> None:
        """Show ``notice`` at the right end instead of ``right``; empty removes it."""
        if notice != self.notice:
            self.notice = notice
            self.refresh()

    def show(self, left: Line, right: Line = ()) -> None:
        """Show these lines; redraw only if they changed."""
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.base
        narrowing = Strip(self.segments(self.narrowing, base))
        left = Strip(self.segments(self.left, base)).crop(0, max(0, width - narrowing.cell_length))
        left = Strip.join((left, narrowing))
        right = Strip(self.segments(self.right, base))
        room = width - left.cell_length
        if self.notice:
            notice = Strip(self.segments(self.notice, base))
            room = max(0, width - notice.cell_length)
            return Strip.join([left.crop_extend(0, room, base), notice]).crop_extend(0, width, base)
        if right.cell_length > room:
            return left.crop_extend(0, width, base)
        return Strip.join([left.extend_cell_length(width - right.cell_length, base), right])


class Hints(Bar):
    """Shows the keys that are active now; a click on a hint presses its key."""

    def __init__(self, *, id: str = "hints") -> None:
        super().__init__(id=id)
        self._keys: list[tuple[int, int, str]] = []

    def on_mount(self) -> None:
        updated = cast("Signal[Screen[Any]]", cast("Any", self.screen).bindings_updated_signal)
        updated.subscribe(self, self._changed)
        # On a low terminal, a dialog would leave fragments of the keys beside it.
        screens = cast("Signal[Screen[Any]]", cast("Any", self).app.screen_change_signal)
        screens.subscribe(self, lambda _: self._changed(self.screen))
        self._changed(self.screen)

    def on_resize(self) -> None:
        self._changed(self.screen)

    def _changed(self, screen: Screen[Any]) -> None:
        if not self.is_mounted:
            return
        here: list[KeyHint] = []
        always: list[KeyHint] = []
        for hint in () if _is_below_dialog(self) else key_hints(screen):
            (always if hint.action in ALWAYS else here).append(hint)
        room = self.size.width - sum(line_width(hint.spans) for hint in always)
        spans: list[Span] = []
        self._keys = []
        used = 0
        for hint in here:
            wide = line_width(hint.spans)
            if used + wide > room:
                break
            self._keys.append((used, used + wide, hint.key))
            spans += hint.spans
            used += wide
        right: list[Span] = []
        used = room
        for hint in always:
            wide = line_width(hint.spans)
            self._keys.append((used, used + wide, hint.key))
            right += hint.spans
            used += wide
        self.show(tuple(spans), tuple(right))

    def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        for left, right, key in self._keys:
            if left <= event.x < right:
                self.app.simulate_key(key)  # pyright: ignore[reportUnknownMemberType]
                return


def _is_below_dialog(widget: Widget) -> bool:
    """Return whether a dialog may cover a part of the widget."""
    app = cast("App[Any]", cast("Any", widget).app)
    top = app.screen_stack[-1]
    is_below = isinstance(top, ModalScreen) and top is not cast("Any", widget).screen
    return is_below and app.size.height < FREE_HEIGHT


class KeyHint(Struct, frozen=True):
    key: str
    shown: str
    label: str
    action: str
    id: str

    @property
    def spans(self) -> Line:
        return (Span(f" {self.shown}", "hint-key"), Span(f" {self.label} ", "muted"))


def key_hints(screen: Screen[Any]) -> list[KeyHint]:
    """Return the hints of all visible bindings: first the screen's `FIRST_HINTS`, then the others,
    those nearest to the focus first."""
    seen: set[str] = set()
    hints: list[KeyHint] = []
    app = cast("App[Any]", cast("Any", screen).app)
    hidden: frozenset[str] = getattr(screen, "NO_HINTS", frozenset())
    has_target: Callable[[str], bool] = getattr(screen, "has_target", lambda _: True)
    typing = isinstance(screen.focused, Input)
    for active in screen.active_bindings.values():
        binding = active.binding
        shown = app.get_key_display(binding)
        if typing and (shown == "tab" or (len(shown) == 1 and shown.isascii())):
            # The key is text for the input.
            continue
        usable = binding.show and active.enabled and binding.key != UNBOUND
        usable = usable and binding.id not in hidden
        if usable and binding.action not in seen and has_target(binding.action):
            seen.add(binding.action)
            hints.append(
                KeyHint(
                    binding.key,
                    shown,
                    binding.description,
                    binding.action,
                    binding.id or "",
                )
            )
    first: frozenset[str] = getattr(screen, "FIRST_HINTS", frozenset())
    return sorted(hints, key=lambda hint: hint.id not in first)
