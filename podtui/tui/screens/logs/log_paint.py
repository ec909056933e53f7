"""Paint one row of a log view: mark, level, time, source, and the line itself with its colours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final

from msgspec import Struct
from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from podtui.tui.views.logs.ansi import MAX_SHOWN, is_plain, parse, plain_text
from podtui.tui.views.logs.json_rows import JsonRow, pretty
from podtui.tui.views.logs.levels import LETTERS, Level
from podtui.tui.views.logs.line_buffer import EVENT_WARNING, EVENTS, GAP, REMARKS, RULE
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.times import Times, event_time, shown_time
from podtui.tui.widgets.cells import Span, sized, width_of, wrap
from podtui.tui.widgets.scrolled_text import characters, restyle
from podtui.tui.widgets.search import spans_of

GUTTER: Final = 3
MARK: Final = "◆"
WIDEST_SOURCE: Final = 24
COLOURS: Final = 4
"""Number of styles for sources, used in rotation; the printed name identifies the source."""
PARTS: Final = (
    "timestamp", "match", "current", "gap", "rule", "event", "event-warning", "empty", "mark",
    "cursor", "context", "json-key", "json-string", "json-number", "json-word",
    *(f"source-{n}" for n in range(COLOURS)),
    *(f"level-{level.name.lower()}" for level in Level if level),
)  # fmt: skip
_COLOURED: Final = (Level.FATAL, Level.ERROR, Level.WARN, Level.TRACE, Level.DEBUG)
_CALM: Final = Style(bold=False, reverse=False)


class Prefix(Enum):
    """The position of the source name in a merged view; the value is its text in the border."""

    LOCKED = ""
    ALONG = "names scroll"
    OFF = "no names"

    @property
    def next(self) -> Prefix:
        order = list(Prefix)
        return order[(order.index(self) + 1) % len(order)]


class PaintOptions(Struct, frozen=True):
    """Options for drawing lines. ``width`` is the total width; ``shift`` cells of the text are
    scrolled out to the left."""

    width: int
    times: Times = Times.OFF
    wrap: bool = False
    prefix: Prefix = Prefix.LOCKED
    names: tuple[str, ...] = ()
    """Source names by tag; shown only if there are two or more."""
    shift: int = 0

    @property
    def source_width(self) -> int:
        """The width of a source name and its separator in cells; 0 if names are not shown."""
        if len(self.names) < 2 or self.prefix is Prefix.OFF:
            return 0
        return min(WIDEST_SOURCE, max(map(width_of, self.names)), max(8, self.width // 4)) + 3

    @property
    def text_width(self) -> int:
        """The width in cells that is available for the text of a line."""
        locked = self.source_width if self.prefix is Prefix.LOCKED else 0
        return max(1, self.width - GUTTER - self.times.width - locked)

    def breaks(self, text: bytes, tag: int) -> list[int]:
        """Return the cell offsets where the rows of a line begin, and where the last row ends.

        A wide character is never split.
        """
        width = self.text_width
        if tag in REMARKS:
            width, shown = self.width, rule_text(text)
        else:
            along = self.prefix is Prefix.ALONG and tag < GAP
            shown = " " * (self.source_width if along else 0) + plain_text(text)
        if not self.wrap or not shown:
            return [0, width_of(shown)]
        if shown.isascii():
            return [*range(0, len(shown), width), len(shown)]
        parts = [part for part in chop_cells(shown, width) if part]
        return list(accumulate(map(width_of, parts or [""]), initial=0))

    def rows_of(self, text: bytes, tag: int) -> int:
        """Return the number of rows of a line, without unfolded JSON."""
        if not self.wrap:
            return 1
        if tag < GAP and len(text) <= MAX_SHOWN and is_plain(text):
            cells = len(text) + (self.source_width if self.prefix is Prefix.ALONG else 0)
            return max(1, -(-cells // self.text_width))
        return len(self.breaks(text, tag)) - 1


class LogRow(Struct, frozen=True):
    """The content of row ``inside`` of a line; ``json`` is set for a row of unfolded JSON."""

    text: bytes
    tag: int = 0
    time: str = ""
    level: Level = Level.UNKNOWN
    inside: int = 0
    marked: bool = False
    context: bool = False
    spans: tuple[tuple[int, int], ...] = ()
    """Character ranges of the shown text to highlight."""
    current: bool = False
    """True if ``spans`` belong to the current match."""
    json: JsonRow | None = None


Styles = Callable[[str], Style]
"""Return the style of a part by its name in `PARTS`."""


def paint(row: LogRow, options: PaintOptions, part: Styles, base: Style) -> Strip:
    """Paint a row of exactly ``options.width`` cells; ``base`` provides the background."""

    def style(name: str) -> Style:
        return base + part(name)

    if row.tag in REMARKS:
        return _rule(row, options, style, base)
    head = [*_gutter(row, style, base), *_time(row, options, style)]
    if row.json is not None:
        body = Strip([_json(piece, style, base) for piece in row.json])
        room = options.text_width
        indent = " " * (options.source_width if options.prefix is Prefix.LOCKED else 0)
        strip = body.crop(options.shift, options.shift + room)
        return Strip([*head, Segment(indent, base), *strip]).crop_extend(0, options.width, base)
    source = _source(row, options, style, base)
    text = _text(row, style, base)
    if options.prefix is Prefix.LOCKED:
        head += source
    else:
        text = [*source, *text]
    return _filled([*head, *_cut(text, *_part(row, options))], options.width, base)


def _cut(segments: list[Segment], start: int, stop: int) -> Iterable[Segment]:
    """Crop a row to a cell range.

    Most rows are short enough already; creating a strip only to find that out would be most of the
    cost of a line.
    """
    if not start and _cells(segments) <= stop:
        return segments
    return Strip(segments).crop(start, stop)


def _filled(segments: list[Segment], width: int, base: Style) -> Strip:
    """Return a strip of exactly ``width`` cells."""
    rest = width - _cells(segments)
    if rest < 0:
        return Strip(segments).crop(0, width)
    if rest:
        segments.append(Segment(" " * rest, base))
    return Strip(segments, width)


def _cells(segments: Iterable[Segment]) -> int:
    return sum(width_of(segment.text) for segment in segments)


def rule_text(text: bytes) -> str:
    """Return the text of a separator row."""
    return f"── {plain_text(text)} "


def _rule(row: LogRow, options: PaintOptions, style: Styles, base: Style) -> Strip:
    part = style("rule" if row.tag == RULE else "gap")
    text = rule_text(row.text)
    start, stop = options.shift, options.shift + options.width
    if options.wrap:
        start, stop = _part(row, options)
    label = Strip([Segment(text, part)]).crop(start, stop)
    line = Segment("─" * (options.width - label.cell_length), part)
    return Strip([*label, line]).crop_extend(0, options.width, base)


def _part(row: LogRow, options: PaintOptions) -> tuple[int, int]:
    """Return the cell range of the line that this row shows."""
    if not options.wrap:
        return options.shift, options.shift + options.text_width
    starts = options.breaks(row.text, row.tag)
    inside = min(row.inside, len(starts) - 2)
    return starts[inside], starts[inside + 1]


def _gutter(row: LogRow, style: Styles, base: Style) -> list[Segment]:
    if row.inside or row.json is not None:
        return [Segment(" " * GUTTER, base)]
    mark = Segment(MARK, style("mark")) if row.marked else Segment(" ", base)
    if row.tag in EVENTS:
        glyph, part = ("▲", "event-warning") if row.tag == EVENT_WARNING else ("•", "event")
        return [mark, Segment(glyph, style(part)), Segment(" ", base)]
    letter = LETTERS[row.level]
    part_style = style(f"level-{row.level.name.lower()}") if row.level else base
    return [mark, Segment(letter, part_style), Segment(" ", base)]


def _time(row: LogRow, options: PaintOptions, style: Styles) -> list[Segment]:
    width = options.times.width
    if not width:
        return []
    text = row.time if not row.inside and row.json is None else ""
    align = "left" if options.times is Times.ABSOLUTE else "right"
    return [Segment(sized(text, width - 1, align) + " ", style("timestamp"))]


def _source(row: LogRow, options: PaintOptions, style: Styles, base: Style) -> list[Segment]:
    width = options.source_width
    if not width:
        return []
    if row.tag in EVENTS or row.tag >= len(options.names):
        return [Segment(" " * width, base)] if options.prefix is Prefix.LOCKED else []
    name = "" if row.inside and options.prefix is Prefix.LOCKED else options.names[row.tag]
    return [Segment(sized(name, width - 3) + " │ ", style(f"source-{row.tag % COLOURS}"))]


def _text(row: LogRow, style: Styles, base: Style) -> list[Segment]:
    if row.tag in EVENTS:
        part = style("event-warning" if row.tag == EVENT_WARNING else "event")
        segments = [Segment(plain_text(row.text), part)]
    else:
        line_style = base
        if row.level in _COLOURED:
            # Whole lines in bold or reverse are hard to read: only the level letter has them.
            line_style = base + style(f"level-{row.level.name.lower()}") + _CALM
        if row.context:
            line_style = line_style + style("context")
        segments = parse(row.text, line_style)
    if row.spans:
        segments = restyle(segments, row.spans, style("current" if row.current else "match"))
    return segments


def _json(piece: tuple[str, str], style: Styles, base: Style) -> Segment:
    text, kind = piece
    return Segment(
        plain_text(text.encode(errors="replace")), style(f"json-{kind}") if kind else base
    )


def shown_spans(
    text: bytes, spans_in: Callable[[bytes], Sequence[tuple[int, int]]]
) -> tuple[tuple[int, int], ...]:
    """Return the character ranges to highlight in the text of `parse`.

    ``spans_in`` returns byte ranges.
    """
    raw = plain_text(text).encode()
    return tuple(characters(raw, spans_in(raw)))


EMPTY_MARGIN: Final = 3


def log_row(
    lines: LogLines,
    sequence: int,
    inside: int,
    options: PaintOptions,
    *,
    now: float,
    match: int | None,
) -> LogRow:
    """Return row ``inside`` of a line; ``match`` is the line of the current match.

    Raises IndexError for a line that is not kept.
    """
    buffer = lines.buffer
    text, tag = buffer[sequence], buffer.tag(sequence)
    rows = options.rows_of(text, tag)
    if inside >= rows:
        folded = pretty(text)
        below = folded[inside - rows] if inside - rows < len(folded) else ()
        return LogRow(text, tag, json=below)
    spans, searched = marked_spans(lines, text, tag)
    index = bisect_left(lines.marks, sequence)
    return LogRow(
        text,
        tag,
        _time_shown(lines, sequence, options.times, now),
        lines.level(sequence),
        inside,
        index < len(lines.marks) and lines.marks[index] == sequence,
        lines.is_context(sequence),
        spans,
        searched and sequence == match,
    )


def _time_shown(lines: LogLines, sequence: int, times: Times, now: float) -> str:
    """Return the time of a line. No difference to an event is shown: its time is not exact."""
    buffer = lines.buffer
    if buffer.tag(sequence) in EVENTS:
        return event_time(times, buffer.stamp(sequence), now)
    above = 0
    if times is Times.BETWEEN:
        before = lines.before(sequence)
        while before is not None and buffer.tag(before) in EVENTS:
            before = lines.before(before)
        above = buffer.stamp(before) if before is not None else 0
    return shown_time(times, buffer.stamp(sequence), above, now)


Spans = tuple[tuple[int, int], ...]
"""Character ranges."""


def marked_spans(lines: LogLines, text: bytes, tag: int) -> tuple[Spans, bool]:
    """Return the ranges of a line to highlight, and True if they are matches of the search.

    Without a search match, the ranges are those of the filter.
    """
    if tag in REMARKS:
        return (), False
    pattern = lines.pattern
    if pattern is not None:
        spans = shown_spans(text, lambda raw: spans_of(pattern, raw))
        if spans:
            return spans, True
    wanted = lines.query.filter
    return (shown_spans(text, wanted.spans) if wanted.pattern is not None else ()), False


def centred(message_text: str, width: int) -> list[str]:
    """Wrap a text into lines that are centred in ``width`` cells."""
    room = min(width, max(20, width - 2 * EMPTY_MARGIN))
    lines = [
        "".join(span.text for span in row).rstrip()
        for line in message_text.split("\n")
        for row in wrap([Span(line)], room)
    ]
    return [text.center(width - width_of(text) + len(text)) for text in lines]
