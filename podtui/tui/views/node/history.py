"""The usage history of the node, as plots relative to its allocatable resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from podtui.api.insight import NodeInsight
from podtui.api.times import short_duration
from podtui.tui.model.usage import Sample
from podtui.tui.views.node.allocation import TITLES, Gauge, in_unit
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.chart import SPANS, Chart, Frame, grid

SIDE_BY_SIDE: Final = 76
_LEAST: Final = 2
_MOST: Final = 20
_FOUR: Final = 150
_SPACING: Final = 10.0
_RESOURCES: Final = {
    "cpu": "bar-one", "memory": "bar-two", "pods": "bar-one", "ephemeral-storage": "bar-two"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PastUsage:
    """Past usage at ``times`` (Unix seconds), by resource in millicores, bytes or pods; None where
    it was not measured."""

    times: tuple[float, ...] = ()
    values: tuple[tuple[str, tuple[float | None, ...]], ...] = ()


def recorded_usage(insight: NodeInsight) -> PastUsage:
    """Return the history recorded by the agent, which also measures while no screen is open."""
    return PastUsage(
        insight.times,
        (
            ("cpu", insight.cpu),
            ("memory", insight.memory),
            ("pods", insight.pods),
            ("ephemeral-storage", insight.storage),
        ),
    )


def observed_usage(samples: Sequence[Sample], now: float, span: str) -> PastUsage:
    """Return the last ``span`` of the samples that this screen recorded itself.

    Used if the server keeps no history.
    """
    kept = [sample for sample in samples if sample.at > now - SPANS[span]]
    return PastUsage(
        tuple(sample.at for sample in kept),
        (
            ("cpu", tuple(sample.cpu for sample in kept)),
            ("memory", tuple(sample.memory for sample in kept)),
        ),
    )


def history_lines(
    gauges: Sequence[Gauge],
    past: PastUsage,
    now: float,
    span: str,
    width: int,
    height: int,
    *,
    keys: bool = True,
) -> list[Line]:
    """Return a plot for each resource, within ``width`` by ``height`` cells if they stay readable.

    ``keys``: show the keys that change the span.
    """
    by_resource = {gauge.resource: gauge for gauge in gauges}
    charts = [
        _chart(by_resource[resource], past.times, values)
        for resource, values in past.values
        if resource in by_resource and any(value is not None for value in values)
    ]
    if not charts:
        return [
            (Span(f" No measurements of this node in the last {span}.", "soft"),),
            (Span(" The first ones are taken ten seconds after the agent starts.", "muted"),),
        ]
    columns = 1 if width < SIDE_BY_SIDE else 2 if width < _FOUR else min(4, len(charts))
    bands = -(-len(charts) // columns)
    begin = max(now - SPANS[span], past.times[0])
    end = max(now, past.times[-1], begin + _SPACING)
    legend = _legend(end - begin, span, width, keys=keys)
    rows = max(_LEAST, min(_MOST, (height - len(legend)) // bands - 1))
    return grid(charts, width, columns, Frame(begin, end, rows, whole=True)) + legend


def _legend(length: float, span: str, width: int, *, keys: bool) -> list[Line]:
    line = (
        Span(f" the last {short_duration(length)}", "muted"),
        *((Span(" (", "muted"), Span("[/]", "hint-key"), Span(f" up to {span})", "muted"))
          if keys else ()),
        Span(", now at the right   ", "muted"),
        Span("━ ", "error"), Span("allocatable", "muted"),
    )  # fmt: skip
    return wrap(line, width, indent=1)


def _chart(gauge: Gauge, times: Sequence[float], values: Sequence[float | None]) -> Chart:
    shown = partial(in_unit, gauge.resource)
    return Chart(
        TITLES[gauge.resource],
        times,
        values,
        shown,
        shown,
        _RESOURCES[gauge.resource],
        limit=gauge.allocatable,
        binary=gauge.resource in ("memory", "ephemeral-storage"),
    )
