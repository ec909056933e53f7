"""How each tone looks: component classes that the style sheet fills from the theme.

A widget that draws by the line asks `Toned.tone` for a style; styles are kept until the theme
changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from podtui.tui.cells import Span

# Tones whose colour is a variable of the theme, and what it is where the theme says nothing.
VARIABLES: Final = {
    "running": "$success",
    "unready": "$warning",
    "pending": "$warning",
    "init": "$accent",
    "error": "$error",
    "terminating": "$secondary",
    "completed": "$text-muted",
}
TONES: Final = (
    *VARIABLES,
    "name",
    "soft",
    "muted",
    "key",
    "reason",
    "heading",
    "good",
    "warning",
    "bar-one",
    "bar-two",
    "bar-chosen",
    "bar-used",
    "bar-free",
    "brand",
    "simulated",
    "tab",
    "tab-active",
    "hint-key",
    "sorted",
    "cursor",
    "cursor-blurred",
)
COMPONENTS: Final = frozenset(f"tone--{tone}" for tone in TONES)


class Toned(Widget):
    """Mixed into widgets that draw spans."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)

    _styles_by_tone: dict[str, Style] | None = None

    def tone(self, name: str) -> Style:
        """The style of a tone, without background unless the tone has one of its own."""
        cache = self._styles_by_tone
        if cache is None:
            cache = self._styles_by_tone = {}
        found = cache.get(name)
        if found is None:
            found = (
                self.get_component_rich_style(f"tone--{name}", partial=True)
                if name
                else Style.null()
            )
            cache[name] = found
        return found

    def notify_style_update(self) -> None:
        self._styles_by_tone = None
        super().notify_style_update()

    def segments(self, spans: Iterable[Span], base: Style) -> list[Segment]:
        return [Segment(span.text, base + self.tone(span.tone)) for span in spans if span.text]


class LinesView(Toned, ScrollView, can_focus=True):
    """Read-only lines of spans, scrolled up and down."""

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
    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: list[tuple[Span, ...]] = []

    def show(self, lines: list[tuple[Span, ...]]) -> None:
        """Draw these lines instead; the place of reading stays. Equal lines cost nothing."""
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

    def on_resize(self) -> None:
        self.virtual_size = self.size.with_height(len(self.lines))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        number = round(self.scroll_y) + y
        if not 0 <= number < len(self.lines):
            return Strip.blank(width, base)
        return Strip(self.segments(self.lines[number], base)).crop_extend(0, width, base)
