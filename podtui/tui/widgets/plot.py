"""Plot values over time as columns of block characters, with horizontal lines at given levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podtui.tui.widgets.cells import Line, Span

_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line; ``mark`` is its character, which distinguishes lines without colour."""

    value: float
    mark: str
    tone: str


def top_of(
    peak: float, levels: Sequence[Level], *, least: float, whole: bool, binary: bool = False
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
    found: list[float | None] = [None] * width
    span = max(end - begin, 1e-9)
    places = [min(width - 1, int((at - begin) / span * width)) for at in times]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    for index, (place, value) in enumerate(zip(places, values, strict=True)):
        if place < 0 or value is None:
            continue
        before = found[place]
        found[place] = value if before is None else max(before, value)
        for empty in range(place + 1, _reach(index, places, gaps, span, width)):
            found[empty] = value
    return found


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
    columns: Sequence[float | None], height: int, top: float, levels: Sequence[Level], tone: str
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
