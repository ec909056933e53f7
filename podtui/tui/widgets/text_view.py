"""A read-only text view with colours, search and inline remarks: YAML, details, manifests.

The text is split into rows when it is loaded or the width changes; visible rows are coloured when
they are drawn.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.geometry import Size
from textual.strip import Strip

from podtui.text.terminal_text import LONGEST
from podtui.tui.widgets.cells import Span, width_of, wrap
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.scrolled_text import ScrolledText, characters, restyle
from podtui.tui.widgets.search import compile_search, spans_of

LEAST: Final = 20
"""Minimum width of a remark."""
_KEY: Final = re.compile(r"^(\s*(?:- )*)([\w./$-]+|\"[^\"]*\"|'[^']*')(:)(?=\s|$)")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?$|true$|false$|null$|~$")
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Mark:
    """A remark below a line; ``line`` and ``column`` count from 1, ``severity`` is ``Error`` or
    ``Warning``."""

    line: int
    column: int
    text: str
    severity: str = "Error"


@dataclass(frozen=True, slots=True)
class TextRow:
    """A screen row: a line of the text (``number`` from 1) or a remark below it (number 0)."""

    number: int
    text: str
    kind: str


class TextView(ScrolledText):
    """Shows a text; ``load`` replaces it and keeps the scroll position."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "text-view--key",
        "text-view--string",
        "text-view--number",
        "text-view--comment",
        "text-view--gutter",
        "text-view--error",
        "text-view--warning",
        "text-view--match",
        "text-view--heading",
    }
    DEFAULT_CSS = """
    TextView {
        & > .text-view--key { color: $primary; }
        & > .text-view--string { color: $foreground; }
        & > .text-view--number { color: $secondary; }
        & > .text-view--comment { color: $text-muted; text-style: italic; }
        & > .text-view--gutter { color: $text-muted; }
        & > .text-view--error { color: $error; text-style: bold; }
        & > .text-view--warning { color: $warning; text-style: bold; }
        & > .text-view--match { background: $warning; color: $background; text-style: bold; }
        & > .text-view--heading { color: $accent; text-style: bold; }
    }
    """

    def __init__(
        self,
        *,
        line_numbers: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.line_numbers = line_numbers
        self.language = ""
        self.rows: list[TextRow] = []
        self._source: tuple[str, tuple[Mark, ...]] = ("", ())
        self._longest = 0
        self._shift = 0
        self.pattern = ""
        """The text that is searched; empty for none."""
        self._pattern: re.Pattern[bytes] | None = None
        self._matches: list[int] = []

    def load(self, text: str, *, language: str = "", marks: Sequence[Mark] = ()) -> None:
        """Show ``text``; ``language`` is ``yaml``, ``describe`` or empty."""
        self.language = language
        self._source = (text, tuple(marks))
        self._lay_out()
        self.refresh()

    def _lay_out(self) -> None:
        text, marks = self._source
        self.rows = layout(text, marks, width=self.size.width - self._gutter - 1)
        self._longest = max((len(row.text) for row in self.rows), default=0)
        self._find()
        self._resize()

    def show_line(self, number: int) -> None:
        """Scroll to a line of the text (from 1)."""
        row = next((i for i, row in enumerate(self.rows) if row.number == number), None)
        if row is not None:
            self.scroll_to(y=max(0, row - self.size.height // 3), animate=False)

    def search(self, pattern: str) -> None:
        """Highlight all matches; an empty pattern ends the search."""
        self.pattern = pattern
        self._pattern = compile_search(pattern) if pattern else None
        self.match_number = 0
        self._find()
        self.refresh()
        self.post_message(self.SearchChanged(self))

    @property
    def matches(self) -> list[int]:
        """The indexes of the rows that match."""
        return self._matches

    def next_match(self) -> None:
        self._go(forward=True)

    def previous_match(self) -> None:
        self._go(forward=False)

    def _go(self, *, forward: bool) -> None:
        if not self._matches:
            return
        if not self.match_number:
            index = bisect_left(self._matches, round(self.scroll_y)) if forward else -1
        else:
            here = self._matches[self.match_number - 1]
            after = bisect_right(self._matches, here)
            index = after if forward else bisect_left(self._matches, here) - 1
        index %= len(self._matches)
        self.match_number = index + 1
        self.scroll_to(y=max(0, self._matches[index] - self.size.height // 3), animate=False)
        self.refresh()
        self.post_message(self.SearchChanged(self))

    def _find(self) -> None:
        pattern = self._pattern
        self._matches = (
            []
            if pattern is None
            else [i for i, row in enumerate(self.rows) if pattern.search(row.text.encode())]
        )
        self.match_count = len(self._matches)
        self.match_number = min(self.match_number, self.match_count)

    def _resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.rows))

    def on_resize(self) -> None:
        self._lay_out()

    @property
    def _gutter(self) -> int:
        return len(str(len(self.rows))) + 2 if self.line_numbers else 0

    def render_line(self, y: int) -> Strip:
        width = self.shown_width
        base = self.rich_style
        index = round(self.scroll_y) + y
        if not 0 <= index < len(self.rows):
            return Strip.blank(width, base)
        row = self.rows[index]
        segments = self._segments(row, base)
        if self._pattern is not None and index in self._matches:
            raw = row.text.encode()
            spans = characters(raw, spans_of(self._pattern, raw))
            style = self.get_component_rich_style("text-view--match")
            if self.match_number and self._matches[self.match_number - 1] == index:
                style += Style(underline=True, reverse=True)
            segments = restyle(segments, spans, style)
        strip = Strip(segments).crop(self._shift, self._shift + width)
        if self.line_numbers:
            number = str(row.number) if row.number else "▲" if row.text.lstrip()[:1] == "^" else ""
            gutter = Segment(
                f"{number:>{self._gutter - 1}} ", self.get_component_rich_style("text-view--gutter")
            )
            strip = Strip.join([Strip([gutter]), strip])
        return strip.crop_extend(0, width, base)

    def _segments(self, row: TextRow, base: Style) -> list[Segment]:
        if row.kind in ("Error", "Warning"):
            return [Segment(row.text, self._style(row.kind.lower()))]
        if self.language == "yaml":
            return self._yaml(row.text, base)
        if self.language == "describe":
            return self._describe(row.text, base)
        return [Segment(row.text, base)]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"text-view--{name}")

    def _yaml(self, text: str, base: Style) -> list[Segment]:
        comment = _COMMENT.search(text)
        # A '#' inside quotes does not begin a comment.
        if comment and text[: comment.start()].count('"') % 2 == 0:
            head, tail = text[: comment.start()], text[comment.start() :]
        else:
            head, tail = text, ""
        segments: list[Segment] = []
        key = _KEY.match(head)
        if key:
            segments += [
                Segment(key.group(1), base),
                Segment(key.group(2), self._style("key")),
                Segment(key.group(3), base),
            ]
            head = head[key.end() :]
        kind = "number" if _NUMBER.match(head.strip()) else "string"
        segments += [Segment(head, self._style(kind)), Segment(tail, self._style("comment"))]
        return [segment for segment in segments if segment.text]

    def _describe(self, text: str, base: Style) -> list[Segment]:
        head, colon, tail = text.partition(":")
        if not colon or not head.strip():
            return [Segment(text, base)]
        name = "heading" if not tail.strip() and not head.startswith(" ") else "key"
        return [Segment(head + colon, self._style(name)), Segment(tail, base)]

    def action_pan(self, columns: int) -> None:
        """Scroll sideways."""
        limit = max(0, self._longest + self._gutter - self.shown_width)
        self._shift = max(0, min(self._shift + columns, limit))
        self.refresh()


def layout(text: str, marks: Sequence[Mark], *, width: int = 0) -> list[TextRow]:
    """Return the sanitized rows of a text and its remarks.

    Remarks are wrapped to ``width`` cells, but have at least `LEAST`; 0 disables wrapping.
    """
    by_line: dict[int, list[Mark]] = {}
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for mark in marks:
        by_line.setdefault(max(1, min(mark.line, len(lines) or 1)), []).append(mark)
    rows: list[TextRow] = []
    for number, line in enumerate(lines or [""], start=1):
        rows.append(TextRow(number, clean(line), ""))
        for mark in by_line.get(number, ()):
            rows += [TextRow(0, text, mark.severity) for text in _remark(mark, line, width)]
    return rows


def _remark(mark: Mark, line: str, width: int) -> list[str]:
    """Return the lines of a remark, placed below its column as far as there is enough width."""
    before = max(0, mark.column - 1)
    indent = width_of(clean(line[:before])) + max(0, before - len(line))
    indent = min(indent, max(0, width - LEAST - 2) if width > 0 else LONGEST)
    message = clean(mark.text)
    room = max(LEAST, width - indent - 2)
    parts = wrap((Span(message),), room) if width > 0 else [(Span(message),)]
    texts = ["".join(span.text for span in part).rstrip() for part in parts]
    return [f"{' ' * indent}{' ' if n else '^'} {text}" for n, text in enumerate(texts)]


class ManifestText(TextView):
    """A `TextView` whose keys move a cursor; the text scrolls with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"manifest-text--cursor"}
    DEFAULT_CSS = "ManifestText > .manifest-text--cursor { background: $cursor-background; }"

    cursor = 0
    """An index of ``rows``."""

    @property
    def line(self) -> int:
        """The line number (from 1) under the cursor; on a remark, the line that it is about."""
        for row in reversed(self.rows[: self.cursor + 1]):
            if row.number:
                return row.number
        return 1

    def move_to(self, row: int) -> None:
        """Move the cursor to a row and scroll it into view."""
        self.cursor = max(0, min(row, len(self.rows) - 1))
        top, high = round(self.scroll_y), max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + high:
            self.scroll_to(y=self.cursor - high + 1, animate=False)
        self.refresh()

    def _lay_out(self) -> None:
        line = self.line
        super()._lay_out()
        # Keep the cursor on its line: remarks are added and removed above it.
        places = (i for i, row in enumerate(self.rows) if row.number == line)
        self.cursor = next(places, max(0, min(self.cursor, len(self.rows) - 1)))

    def show_line(self, number: int) -> None:
        super().show_line(number)
        self.cursor = next((i for i, row in enumerate(self.rows) if row.number == number), 0)
        self.refresh()

    def _go(self, *, forward: bool) -> None:
        super()._go(forward=forward)
        if self.match_number:
            self.cursor = self._matches[self.match_number - 1]

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if round(self.scroll_y) + y != self.cursor:
            return strip
        background = self.get_component_rich_style("manifest-text--cursor").bgcolor
        app = cast("App[Any]", cast("Any", self).app)
        few = app.native_ansi_color or app.no_color
        under = Style(bgcolor=background, reverse=True if few else None)
        # Apply it on top of the text's own style, which has a background, too.
        return Strip(
            [Segment(text, (style or Style.null()) + under) for text, style, _ in strip],
            strip.cell_length,
        )

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and round(self.scroll_y) + offset.y < len(self.rows):
            self.move_to(round(self.scroll_y) + offset.y)

    def action_scroll_up(self) -> None:
        self.move_to(self.cursor - 1)

    def action_scroll_down(self) -> None:
        self.move_to(self.cursor + 1)

    def action_scroll_home(self) -> None:
        self.move_to(0)

    def action_scroll_end(self) -> None:
        self.move_to(len(self.rows) - 1)

    def action_page_up(self) -> None:
        self.move_to(self.cursor - max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        self.move_to(self.cursor + max(1, self.size.height - 1))
