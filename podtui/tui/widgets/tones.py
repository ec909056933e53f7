"""The style of each tone: theme variables plus a text style.

Widgets that draw by the line get styles from `Toned.tone`, which caches them until the theme
changes. Component classes of the style sheet would serve the same purpose, but Textual recomputes
all of them for each widget whenever its classes, the focus or the screen change: three hundred
before the first frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, cast

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.scrolled_text import characters, restyle
from podtui.tui.widgets.search import compile_search, spans_of


class ToneStyle(Struct, frozen=True):
    """The definition of a tone.

    ``color`` and ``background`` are theme variables, ``text`` is a Rich style. Empty values keep
    the style on which the tone is drawn.
    """

    color: str = ""
    background: str = ""
    text: str = ""


TONE_STYLES: Final = {
    "running": ToneStyle("phase-running"),
    "unready": ToneStyle("phase-unready"),
    "pending": ToneStyle("phase-pending"),
    "init": ToneStyle("phase-init"),
    "error": ToneStyle("phase-error"),
    "terminating": ToneStyle("phase-terminating"),
    "completed": ToneStyle("phase-completed"),
    "name": ToneStyle("foreground", text="bold"),
    "soft": ToneStyle("tone-soft"),
    "muted": ToneStyle("tone-muted"),
    "key": ToneStyle("tone-key"),
    "reason": ToneStyle("tone-reason"),
    "heading": ToneStyle("tone-heading", text="bold"),
    "sorted": ToneStyle("primary", text="bold"),
    "good": ToneStyle("success"),
    "warning": ToneStyle("warning"),
    "bar-one": ToneStyle("bar-one"),
    "bar-two": ToneStyle("bar-two"),
    "bar-chosen": ToneStyle("bar-chosen"),
    "bar-used": ToneStyle("bar-used", text="bold"),
    "bar-free": ToneStyle("bar-free"),
    "brand": ToneStyle("background", "primary", "bold"),
    "simulated": ToneStyle("simulated-foreground", "simulated-background", "bold"),
    "tab": ToneStyle("tone-muted"),
    "tab-active": ToneStyle("background", "primary", "bold"),
    "hint-key": ToneStyle("primary", text="bold"),
    "cursor": ToneStyle(background="cursor-background"),
    "cursor-blurred": ToneStyle(background="cursor-blurred"),
    "match": ToneStyle("background", "warning", "bold"),
}
# With few or no colours, bold and reverse text replace the colours that carry meaning.
_FEW_COLORS: Final = {
    "cursor": ToneStyle(background="cursor-background", text="reverse"),
    "cursor-blurred": ToneStyle(background="cursor-blurred", text="underline"),
    "brand": ToneStyle("foreground", "background", "bold reverse"),
    "tab-active": ToneStyle("foreground", "background", "bold reverse"),
    "match": ToneStyle("foreground", "background", "bold reverse"),
}
_NO_COLORS: Final = {
    "simulated": ToneStyle("simulated-foreground", "simulated-background", "bold reverse"),
    "error": ToneStyle("phase-error", text="bold"),
    "warning": ToneStyle("warning", text="bold"),
}


def tone_style(tone: str, variables: Mapping[str, str], *, few: bool, none: bool) -> Style:
    """Return the style of a tone with the variables of a theme.

    ``few``: use the terminal's own sixteen colours; ``none``: no colours. Raises KeyError for an
    unknown tone or variable.
    """
    definition = TONE_STYLES[tone]
    if few:
        definition = _FEW_COLORS.get(tone, definition)
    if none:
        definition = _NO_COLORS.get(tone, definition)

    def color(name: str) -> Color | None:
        parsed = Color.parse(variables[name]) if name else None
        return parsed if parsed is not None and parsed.a > 0 else None

    front, back = color(definition.color), color(definition.background)
    return Style(
        color=front.rich_color if front is not None else None,
        bgcolor=back.rich_color if back is not None else None,
    ) + Style.parse(definition.text)


def content_style(tone: str) -> str:
    """Return a tone as a style of Textual's `Content`, for titles of borders."""
    definition = TONE_STYLES[tone] if tone else ToneStyle()
    return f"{definition.text} ${definition.color}".strip() if definition.color else definition.text


class Toned(Widget):
    """Mixin for widgets that draw spans."""

    _styles_by_tone: dict[str, Style] | None = None
    _variables: Mapping[str, str] | None = None
    """The theme variables from which the cached styles were made."""

    @property
    def _theme_variables(self) -> Mapping[str, str]:
        return cast("Any", self).app.theme_variables

    def tone(self, name: str) -> Style:
        """Return the style of a tone; it has a background only if the tone defines one."""
        cache = self._styles_by_tone
        if cache is None:
            cache = self._styles_by_tone = {"": Style.null()}
            self._variables = self._theme_variables
        style = cache.get(name)
        if style is None:
            app = cast("Any", self).app
            style = cache[name] = tone_style(
                name, self._theme_variables, few=app.native_ansi_color, none=app.no_color
            )
        return style

    def notify_style_update(self) -> None:
        if self._styles_by_tone is not None and self._variables is not self._theme_variables:
            self.forget_tones()
            self.refresh()
        super().notify_style_update()

    def forget_tones(self) -> None:
        """Drop the cached styles, after a change of theme."""
        self._styles_by_tone = None

    @property
    def base(self) -> Style:
        """The background style.

        Textual computes `rich_style` from all ancestors on each access, that is for each line;
        `visual_style` is cached until the widget's style changes.
        """
        return self.visual_style.rich_style

    def segments(self, spans: Iterable[Span], base: Style) -> list[Segment]:
        return [Segment(span.text, base + self.tone(span.tone)) for span in spans if span.text]


class LinesView(Toned, ScrollView, can_focus=True):
    """Read-only lines of spans, scrolled up and down, and searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="lines.down", tooltip="A line down"),
        Binding("k", "scroll_up", "Up", show=False, id="lines.up", tooltip="A line up"),
        Binding("g", "scroll_home", "First", show=False, id="lines.first",
                tooltip="To the first line"),
        Binding("G", "scroll_end", "Last", show=False, id="lines.last", tooltip="To the last line"),
        Binding("ctrl+f,space", "page_down", "Page down", show=False, id="lines.page-down",
                tooltip="A page down"),
        Binding("ctrl+b", "page_up", "Page up", show=False, id="lines.page-up",
                tooltip="A page up"),
    ]  # fmt: skip

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: list[tuple[Span, ...]] = []
        self.pattern = ""
        """The text that is searched; empty for none."""
        self._compiled: re.Pattern[bytes] | None = None
        self._match: int | None = None
        """The line of the current match."""

    def show(self, lines: list[tuple[Span, ...]]) -> None:
        """Replace the lines, keeping the scroll position; redraw only changed lines."""
        if lines == self.lines:
            return
        before, self.lines = self.lines, lines
        size = self.size.with_height(len(lines))
        if size != self.virtual_size:
            self.virtual_size = size
        if len(before) != len(lines):
            self.refresh()
            return
        for number, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh_line(number)

    # --- search

    def search(self, pattern: str) -> None:
        """Highlight all matches; an empty pattern ends the search."""
        self.pattern, self._match = pattern, None
        self._compiled = compile_search(pattern) if pattern else None
        self.refresh()

    @property
    def matches(self) -> list[int]:
        """The numbers of the lines that match."""
        pattern = self._compiled
        if pattern is None:
            return []
        return [n for n, line in enumerate(self.lines) if pattern.search(_bytes_of(line))]

    def next_match(self) -> None:
        self._go(1)

    def previous_match(self) -> None:
        self._go(-1)

    def _go(self, step: int) -> None:
        """Go to the next line that matches, from the last one on to the first."""
        matches = self.matches
        if not matches:
            return
        here = round(self.scroll_y) - 1 if self._match is None else self._match
        if step > 0:
            self._match = next((line for line in matches if line > here), matches[0])
        else:
            self._match = next((line for line in reversed(matches) if line < here), matches[-1])
        self.scroll_to(y=max(0, self._match - self.size.height // 3), animate=False)
        self.refresh()

    def on_resize(self) -> None:
        self.virtual_size = self.size.with_height(len(self.lines))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.base
        number = round(self.scroll_y) + y
        if not 0 <= number < len(self.lines):
            return Strip.blank(width, base)
        line = self.lines[number]
        segments = self.segments(line, base)
        if self._compiled is not None:
            raw = _bytes_of(line)
            style = self.tone("match") + Style(underline=number == self._match or None)
            spans = characters(raw, spans_of(self._compiled, raw))
            segments = restyle(segments, spans, style)
        return Strip(segments).crop_extend(0, width, base)


def _bytes_of(line: Iterable[Span]) -> bytes:
    return "".join(span.text for span in line).encode()
