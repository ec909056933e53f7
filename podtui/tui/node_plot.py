"""What the node used over the last minutes, as plots of all that it has to give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtui.api.times import short_duration
from podtui.tui.cells import Line, Span, line_width, sized, wrap
from podtui.tui.format import percent
from podtui.tui.node_gauges import TITLES, Gauge
from podtui.tui.node_history import Sample
from podtui.tui.plot import Level, buckets, plot

MEASURED: Final = ("cpu", "memory")
SIDE_BY_SIDE: Final = 110
_LABEL: Final = 7
_GAP: Final = 3
_LEAST: Final = 3
_SPANS: Final = (120.0, 300.0, 900.0, 1800.0, 3600.0)
"""Seconds that a plot may show: the shortest that holds all there is."""


def history_lines(
    gauges: Sequence[Gauge], samples: Sequence[Sample], now: float, width: int, height: int
) -> list[Line]:
    """cpu and memory beside or below each other, within ``width`` by ``height`` cells where that
    leaves the plots readable."""
    shown = [gauge for gauge in gauges if gauge.resource in MEASURED]
    if not samples or not shown:
        return [
            (Span(" Nothing is measured of this node yet.", "soft"),),
            (Span(" It is looked at every three seconds while podtui is open.", "muted"),),
        ]
    beside = width >= SIDE_BY_SIDE
    each = (width - _GAP) // 2 if beside else width
    plots = 1 if beside else len(shown)
    rows = max(_LEAST, (height - 1) // plots - 2)
    span = span_of(samples, now)
    drawn = [_plot(gauge, samples, now, span, each, rows) for gauge in shown]
    lines: list[Line] = []
    if beside and len(drawn) == 2:
        for left, right in zip(*drawn, strict=True):
            pad = Span(" " * (each - line_width(left) + _GAP))
            lines.append((*left, pad, *right))
    else:
        lines += [line for one in drawn for line in one]
    legend = (
        Span(f" the last {short_duration(span)}, now at the right   ", "muted"),
        Span("━ ", "error"),
        Span("what pods may have of it", "muted"),
    )
    return lines + wrap(legend, width, indent=1)


def span_of(samples: Sequence[Sample], now: float) -> float:
    """How many seconds to show."""
    since = now - samples[0].at if samples else 0.0
    return next((span for span in _SPANS if since <= span), _SPANS[-1])


def _plot(
    gauge: Gauge, samples: Sequence[Sample], now: float, span: float, width: int, height: int
) -> list[Line]:
    inside = [sample for sample in samples if sample.at > now - span]
    values = [s.cpu if gauge.resource == "cpu" else s.memory for s in inside]
    times = [sample.at for sample in inside]
    columns = buckets(times, values, max(8, width - _LABEL - 1), now - span, now)
    levels = [Level(gauge.allocatable, "━", "error")]
    tone = "bar-one" if gauge.resource == "cpu" else "bar-two"
    rows = plot(columns, height, max(1, gauge.capacity), levels, tone)
    labels = {0: gauge.text(gauge.capacity), height - 1: "0"}
    if height >= 7:
        labels[height // 2] = gauge.text(gauge.capacity // 2)
    drawn: list[Line] = [
        (Span(f"{labels.get(row, ''):>{_LABEL}}┤", "muted"), *line) for row, line in enumerate(rows)
    ]
    return [_heading(gauge, values, width), *drawn, ()]


def _heading(gauge: Gauge, values: Sequence[int], width: int) -> Line:
    title = f"{TITLES[gauge.resource]} "
    if not values:
        return (Span(title, "heading"), Span("not measured lately", "muted"))
    share = values[-1] / max(1, gauge.allocatable)
    tone, mark = (
        ("soft", "") if share < 0.7 else ("warning", " ▲") if share < 0.9 else ("error", " ✖")
    )
    text = (
        f"{gauge.text(values[-1])} now ({percent(values[-1], gauge.allocatable)})"
        f" · {gauge.text(max(values))} highest{mark}"
    )
    return (Span(title, "heading"), Span(sized(text, max(0, width - len(title))).rstrip(), tone))
