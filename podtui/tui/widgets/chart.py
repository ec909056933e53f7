"""A chart of one metric over time: a heading, a plot below it, and labelled horizontal lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from podtui.tui.widgets.cells import Line, Span, line_width, sized, wrap
from podtui.tui.widgets.format import size
from podtui.tui.widgets.plot import Level, buckets, plot, row_of, top_of

LABEL: Final = 7
"""Width of the axis labels at the left of a plot."""
GAP: Final = 2
NARROWEST: Final = 34
_NEAR: Final = 0.9
NO_FIGURE_YET: Final = "the first figure comes in ten seconds"


def rate(count: int) -> str:
    """Format bytes per second: ``0B/s``, ``12KiB/s``, ``3.4MiB/s``."""
    return f"{size(count)}B/s"


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: ``values`` at ``times`` (Unix seconds), None where nothing was measured.

    ``request`` and ``limit`` are 0 if not set. ``shown`` formats a value, ``label`` formats it in
    at most `LABEL` cells. ``why`` is the reason for missing values, if known. ``asks``: this
    resource can have requests and limits.
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
    asks: bool = False
    why: str = ""

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def still(self) -> bool:
        """True if there are values and all of them are 0."""
        return bool(self.known) and not any(self.known)

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
    known = chart.known
    if not known:
        return _empty(chart, width, frame.rows)
    levels = [
        Level(value, mark, tone)
        for value, mark, tone in ((chart.request, "╌", "key"), (chart.limit, "━", "error"))
        if value
    ]
    least = 1024.0 if chart.binary else 1.0
    top = top_of(max(known), levels, least=least, whole=frame.whole, binary=chart.binary)
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
    words = f"not measured: {chart.why}" if chart.why else NO_FIGURE_YET
    lines = wrap((Span(f"{chart.title} ", "key"), Span(words, "muted")), width, indent=1)
    return [*lines, *([()] * rows)][: rows + 1]


def _heading(chart: Chart, top: float, width: int) -> Line:
    peak = chart.shown(round(max(chart.known)))
    now = "?" if chart.now is None else chart.shown(round(chart.now))
    near = bool(chart.limit) and chart.now is not None and chart.now >= _NEAR * chart.limit
    asked = [
        (word, chart.shown(value) + ("↑" if value > top else "") if value else "")
        for word, value in (("request", chart.request), ("limit", chart.limit))
    ]
    longest = f"{now} now · {peak} peak"
    middle, short = longest, f"{now} ⌃{peak}"
    for word, text in asked:
        longest += f" · {word} {text}" if text else f" · no {word}" if chart.asks else ""
        middle += f" · {word} {text}" if text else ""
        short += f" {word[:3]} {text}" if text else ""
    alarm = " ▲" if near else ""
    name = f"{chart.title} "
    room = max(0, width - len(name) - len(alarm))
    text = next((one for one in (longest, middle, short) if len(one) <= room), short)
    return (
        Span(name, "key"),
        Span(sized(text, room).rstrip() + alarm, "warning" if near else "soft"),
    )


def columns_for(width: int, most: int) -> int:
    """Return the number of charts of a readable width that fit side by side, at most ``most``."""
    return max(1, min(most, (width + GAP) // (NARROWEST + GAP)))


def grid(charts: Sequence[Chart], width: int, columns: int, frame: Frame) -> list[Line]:
    """Lay out charts side by side, ``columns`` in a row."""
    each = (width - GAP * (columns - 1)) // columns
    lines: list[Line] = []
    for begin in range(0, len(charts), columns):
        drawn = [chart_lines(one, each, frame) for one in charts[begin : begin + columns]]
        for pieces in zip(*drawn, strict=True):
            line: list[Span] = []
            for piece in pieces:
                if line:
                    used = line_width(line)
                    place = (used + GAP + each) // (each + GAP) * (each + GAP)
                    line.append(Span(" " * (place - used)))
                line += piece or (Span(" "),)
            lines.append(tuple(line))
    return lines
