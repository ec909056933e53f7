"""Build the content of each row of a log view from the lines and the view options."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from podtui.tui.screens.logs.log_paint import LogRow, Look, shown_spans
from podtui.tui.views.logs.filters import spans_of
from podtui.tui.views.logs.json_rows import pretty
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.log_tags import GAP, RULE
from podtui.tui.views.logs.times import Times, shown_time
from podtui.tui.widgets.cells import Span, width_of, wrap

EMPTY_MARGIN: Final = 3


def log_row(
    lines: LogLines, sequence: int, inside: int, look: Look, *, now: float, match: int | None
) -> LogRow:
    """Return row ``inside`` of a line; ``match`` is the line of the current match.

    Raises IndexError for a line that is not kept.
    """
    buffer = lines.buffer
    text, tag = buffer[sequence], buffer.tag(sequence)
    rows = look.rows_of(text, tag)
    if inside >= rows:
        folded = pretty(text)
        below = folded[inside - rows] if inside - rows < len(folded) else ()
        return LogRow(text, tag, json=below)
    spans, searched = marked_spans(lines, text, tag)
    index = bisect_left(lines.marks, sequence)
    return LogRow(
        text,
        tag,
        _time(lines, sequence, look.times, now),
        lines.level(sequence),
        inside,
        index < len(lines.marks) and lines.marks[index] == sequence,
        lines.is_context(sequence),
        spans,
        searched and sequence == match,
    )


def _time(lines: LogLines, sequence: int, times: Times, now: float) -> str:
    above = 0
    if times is Times.BETWEEN:
        before = lines.before(sequence)
        above = lines.buffer.stamp(before) if before is not None else 0
    return shown_time(times, lines.buffer.stamp(sequence), above, now)


Spans = tuple[tuple[int, int], ...]
"""Character ranges."""


def marked_spans(lines: LogLines, text: bytes, tag: int) -> tuple[Spans, bool]:
    """Return the ranges of a line to highlight, and True if they are matches of the search.

    Without a search match, the ranges are those of the filter.
    """
    if tag in (GAP, RULE):
        return (), False
    pattern = lines.pattern
    if pattern is not None:
        spans = shown_spans(text, lambda raw: spans_of(pattern, raw))
        if spans:
            return spans, True
    wanted = lines.query.filter
    return (shown_spans(text, wanted.spans) if wanted.pattern is not None else ()), False


def centred(said: str, width: int) -> list[str]:
    """Wrap a text into lines that are centred in ``width`` cells."""
    room = min(width, max(20, width - 2 * EMPTY_MARGIN))
    lines = [
        "".join(span.text for span in row).rstrip()
        for line in said.split("\n")
        for row in wrap([Span(line)], room)
    ]
    return [text.center(width - width_of(text) + len(text)) for text in lines]
