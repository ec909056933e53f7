"""A chart of one metric over time: a heading, a plot below it, and labelled horizontal lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from podtui.tui.widgets.cells import Line, Span, line_width, sized, wrap
from podtui.tui.widgets.format import size

_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"

_STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A horizontal line; ``mark`` is its character, which distinguishes lines without colour."""

    value: float
    mark: str
    tone: str


def axis_top(
    peak: float, levels: Sequence[ReferenceLine], *, least: float, whole: bool, binary: bool = False
) -> float:
    """Return a round upper end of the axis, not less than ``least``.

    It is above the peak and above the levels up to five times the peak, since higher ones would
    flatten the plot; with ``whole`` above all levels. ``binary``: round to multiples of powers of
    1024.
    """
    within = [level.value for level in levels if whole or level.value <= 5 * peak]
    reach = max([peak, least, *within])
    unit = 1024.0 ** math.floor(math.log(reach, 1024)) if binary and reach >= 1024 else 1.0
    magnitude = 10.0 ** math.floor(math.log10(reach / unit))
    return next(
        (step * magnitude * unit for step in _STEPS if step * magnitude * unit >= reach * 1.02),
        20 * magnitude * unit,
    )


def buckets(
    times: Sequence[float],
    values: Sequence[float | None],
    width: int,
    begin: float,
    end: float,
) -> list[float | None]:
    """Return the largest value in each of ``width`` equal time intervals.

    An interval without a value repeats the value before it, as long as the distance to the next
    value is at most twice that of the neighbouring values. In longer gaps, and after a value of
    None until the next value, the result is None.
    """
    largest: list[float | None] = [None] * width
    span = max(end - begin, 1e-9)
    places = [min(width - 1, int((at - begin) / span * width)) for at in times]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    for index, (column, value) in enumerate(zip(places, values, strict=True)):
        if column < 0 or value is None:
            continue
        before = largest[column]
        largest[column] = value if before is None else max(before, value)
        for empty in range(column + 1, _reach(index, places, gaps, span, width)):
            largest[empty] = value
    return largest


def _reach(
    index: int, places: Sequence[int], gaps: Sequence[float], span: float, width: int
) -> int:
    """Return the column before which a point's value is repeated."""
    around = [gaps[i] for i in (index - 1, index + 1) if 0 <= i < len(gaps)]
    usual = 2 * max(around, default=0.0)
    if index < len(gaps):
        return places[index + 1] if gaps[index] <= usual or not around else places[index] + 1
    return min(width, places[index] + 1 + math.ceil(usual / span * width))


def plot(
    columns: Sequence[float | None],
    height: int,
    top: float,
    levels: Sequence[ReferenceLine],
    tone: str,
) -> list[Line]:
    """Return ``height`` rows with one cell per column."""
    lines: list[Line] = []
    at = {row_of(level.value, height, top): level for level in levels if level.value <= top}
    for row in range(height):
        floor = height - 1 - row
        level = at.get(row)
        spans: list[Span] = []
        for value in columns:
            filled = 0.0 if value is None else min(value / top, 1.0) * height - floor
            if value and floor == 0:
                filled = max(filled, 0.125)
            cell = _EIGHTHS[max(0, min(8, round(filled * 8)))]
            # In the lowest row, a level line would hide small values completely.
            if level is not None and cell != "█" and not (value and floor == 0):
                _append(spans, level.mark, level.tone)
            else:
                _append(spans, cell, tone)
        lines.append(tuple(spans))
    return lines


def row_of(value: float, height: int, top: float) -> int:
    """Return the row, counted from the top, in which a value ends."""
    return max(0, min(height - 1, height - 1 - int(value / top * height - 1e-9)))


def _append(spans: list[Span], cell: str, tone: str) -> None:
    if spans and spans[-1].tone == tone:
        spans[-1] = Span(spans[-1].text + cell, tone)
    else:
        spans.append(Span(cell, tone))


LABEL: Final = 7
"""Width of the axis labels at the left of a plot."""
GAP: Final = 2
NARROWEST: Final = 34
_NEAR: Final = 0.9
NO_FIGURE_YET: Final = "the first measurement comes in ten seconds"


def rate(count: int) -> str:
    """Format bytes per second: ``0B/s``, ``12KiB/s``, ``3.4MiB/s``."""
    return f"{size(count).removesuffix('B')}B/s"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: ``values`` at ``times`` (Unix seconds), None where nothing was measured.

    ``request`` and ``limit`` are 0 if not set. ``shown`` formats a value, ``label`` formats it in
    at most `LABEL` cells. ``why`` is the reason for missing values, if known.
    ``has_requests``: requests and limits exist for this resource.
    """

    title: str
    times: Sequence[float]
    values: Sequence[float | None]
    shown: Callable[[int], str]
    label: Callable[[int], str]
    tone: str
    request: int = 0
    limit: int = 0
    binary: bool = False
    has_requests: bool = False
    why: str = ""

    @property
    def measured(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def is_zero(self) -> bool:
        """True if there are values and all of them are 0."""
        return bool(self.measured) and not any(self.measured)

    @property
    def now(self) -> float | None:
        """The last value; None if the last sample has none."""
        return self.values[-1] if self.values else None


@dataclass(frozen=True, slots=True)
class Frame:
    """The properties shared by all charts of a page: the time range (Unix seconds) and the plot
    height in rows. With ``whole``, plots always extend up to the request and the limit."""

    begin: float
    end: float
    rows: int
    whole: bool = False


def chart_lines(chart: Chart, width: int, frame: Frame) -> list[Line]:
    """Return a heading and ``frame.rows`` rows, each at most ``width`` cells wide."""
    measured = chart.measured
    if not measured:
        return _empty(chart, width, frame.rows)
    levels = [
        ReferenceLine(value, mark, tone)
        for value, mark, tone in ((chart.request, "╌", "key"), (chart.limit, "━", "error"))
        if value
    ]
    least = 1024.0 if chart.binary else 1.0
    top = axis_top(max(measured), levels, least=least, whole=frame.whole, binary=chart.binary)
    columns = buckets(chart.times, chart.values, max(8, width - LABEL - 1), frame.begin, frame.end)
    labels: dict[int, tuple[str, str]] = {
        0: (chart.label(round(top)), "muted"),
        frame.rows - 1: ("0", "muted"),
    }
    for level in levels:
        if level.value <= top:
            at = row_of(level.value, frame.rows, top)
            labels[at] = (chart.label(round(level.value)), level.tone)
    drawn: list[Line] = []
    for row, line in enumerate(plot(columns, frame.rows, top, levels, chart.tone)):
        text, tone = labels.get(row, ("", "muted"))
        drawn.append((Span(f"{text:>{LABEL}}", tone), Span("┤", "muted"), *line))
    return [_heading(chart, top, width), *drawn]


def _empty(chart: Chart, width: int, rows: int) -> list[Line]:
    reason = f"not measured: {chart.why}" if chart.why else NO_FIGURE_YET
    lines = wrap((Span(f"{chart.title} ", "key"), Span(reason, "muted")), width, indent=1)
    return [*lines, *([()] * rows)][: rows + 1]


def _heading(chart: Chart, top: float, width: int) -> Line:
    peak = chart.shown(round(max(chart.measured)))
    now = "?" if chart.now is None else chart.shown(round(chart.now))
    near = bool(chart.limit) and chart.now is not None and chart.now >= _NEAR * chart.limit
    requested = [
        (word, chart.shown(value) + ("↑" if value > top else "") if value else "")
        for word, value in (("request", chart.request), ("limit", chart.limit))
    ]
    longest = f"{now} now · {peak} peak"
    middle, short = longest, f"{now} ⌃{peak}"
    for word, text in requested:
        longest += f" · {word} {text}" if text else f" · no {word}" if chart.has_requests else ""
        middle += f" · {word} {text}" if text else ""
        short += f" {word[:3]} {text}" if text else ""
    mark = " ▲" if near else ""
    name = f"{chart.title} "
    room = max(0, width - len(name) - len(mark))
    text = next(
        (candidate for candidate in (longest, middle, short) if len(candidate) <= room), short
    )
    return (
        Span(name, "key"),
        Span(sized(text, room).rstrip() + mark, "warning" if near else "soft"),
    )


def columns_for(width: int, most: int) -> int:
    """Return the number of charts of a readable width that fit side by side, at most ``most``."""
    return max(1, min(most, (width + GAP) // (NARROWEST + GAP)))


def grid(charts: Sequence[Chart], width: int, columns: int, frame: Frame) -> list[Line]:
    """Lay out charts side by side, ``columns`` in a row."""
    each = (width - GAP * (columns - 1)) // columns
    lines: list[Line] = []
    for begin in range(0, len(charts), columns):
        drawn = [chart_lines(chart, each, frame) for chart in charts[begin : begin + columns]]
        for pieces in zip(*drawn, strict=True):
            line: list[Span] = []
            for piece in pieces:
                if line:
                    used = line_width(line)
                    stop = (used + GAP + each) // (each + GAP) * (each + GAP)
                    line.append(Span(" " * (stop - used)))
                line += piece or (Span(" "),)
            lines.append(tuple(line))
    return lines


SPANS: Final = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0, "7d": 604800.0}
"""Seconds by name, shortest first."""

USUAL: Final = "1h"


def next_span(name: str, step: int) -> str:
    """Return the name of the span ``step`` places further, limited to the first and last span."""
    names = list(SPANS)
    return names[max(0, min(len(names) - 1, names.index(name) + step))]
