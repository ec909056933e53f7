"""What a pod's containers use, as plots beside what they ask for and what they may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from podtui.api.insight import UsageSeries
from podtui.api.pods import is_sidecar
from podtui.api.times import short_duration
from podtui.api.v1 import Container, Pod
from podtui.tui.cells import Line, Span, line_width, sized, wrap
from podtui.tui.format import millicores, size
from podtui.tui.plot import Level, buckets, plot, top_of
from podtui.tui.sanitize import clean
from podtui.tui.usage import amount

_LABEL: Final = 7
_SIDE_BY_SIDE: Final = 72
_GAP: Final = 2
_LEAST: Final = 3
_MOST: Final = 14


@dataclass(frozen=True, slots=True)
class Chart:
    """One resource of one container; ``request`` and ``limit`` 0 where there is none."""

    title: str
    times: tuple[float, ...]
    values: tuple[float, ...]
    request: int
    limit: int
    shown: Callable[[int], str]
    binary: bool = False


def resource_lines(
    pod: Pod,
    usage: tuple[UsageSeries, ...],
    now: float,
    width: int,
    height: int,
    *,
    whole: bool = False,
) -> list[Line]:
    """Lines of at most ``width`` cells; all plots fit into ``height`` rows where that leaves them
    readable. ``whole``: up to requests and limits, however little is used of them."""
    known = {series.container: series for series in usage}
    containers = [
        c
        for c in (*pod.spec.initContainers, *pod.spec.containers)
        if c.name in known or not _ended_first(pod, c)
    ]
    if not any(known[c.name].times for c in containers if c.name in known):
        return [
            (Span(" Nothing is measured of this pod yet.", "soft"),),
            (Span(" Containers that run are looked at every ten seconds.", "muted"),),
        ]
    begin = min(s.times[0] for s in usage if s.times)
    end = max(now, max(s.times[-1] for s in usage if s.times))
    beside = width >= _SIDE_BY_SIDE
    each = (width - _GAP) // 2 if beside else width
    rows = _rows(len(containers), height, beside=beside)
    lines: list[Line] = []
    for container in containers:
        series = known.get(container.name)
        lines.append((Span(sized(clean(container.name), width).rstrip(), "name"),))
        if series is None or not series.times:
            lines += [(Span("   does not run", "muted"),), ()]
            continue
        cpu, memory = (
            _chart(c, begin, end, each, rows, whole=whole) for c in charts(container, series)
        )
        lines += _joined(cpu, memory, each) if beside else [*cpu, *memory]
    span = short_duration(end - begin)
    legend = (
        Span(f" the last {span}, now at the right", "muted"),
        Span("   ━ ", "error"), Span("limit  ", "muted"),
        Span("╌ ", "key"), Span("request  ", "muted"), Span("⌃ ", "soft"), Span("peak", "muted"),
        Span("   network, disk: not measured", "muted"),
    )  # fmt: skip
    return lines + wrap(legend, width, indent=1)


def _cpu(milli: int) -> str:
    """``250m``, and from ten cores on whole ones: ``32``."""
    return millicores(milli) if milli < 10_000 else f"{milli / 1000:.0f}"


def _ended_first(pod: Pod, container: Container) -> bool:
    """Init containers are shown while they run only."""
    return container in pod.spec.initContainers and not is_sidecar(container)


def _rows(containers: int, height: int, *, beside: bool) -> int:
    plots = containers * (1 if beside else 2)
    room = (height - 2 - containers) // max(1, plots) - 1
    return max(_LEAST, min(_MOST, room))


def charts(container: Container, series: UsageSeries) -> tuple[Chart, Chart]:
    """cpu and memory."""
    requests, limits = container.resources.requests, container.resources.limits
    cpu, memory = (
        [amount(resource, of.get(resource, "0")) for of in (requests, limits)]
        for resource in ("cpu", "memory")
    )
    return (
        Chart("cpu", series.times, series.cpu, *cpu, shown=_cpu),
        Chart("mem", series.times, tuple(map(float, series.memory)), *memory, shown=size,
              binary=True),
    )  # fmt: skip


def _chart(
    chart: Chart, begin: float, end: float, width: int, height: int, *, whole: bool
) -> list[Line]:
    levels = [
        Level(value, mark, tone)
        for value, mark, tone in ((chart.request, "╌", "key"), (chart.limit, "━", "error"))
        if value
    ]
    least = 64 * 1024.0 if chart.binary else 1.0
    top = top_of(max(chart.values), levels, least=least, whole=whole, binary=chart.binary)
    columns = buckets(chart.times, chart.values, max(8, width - _LABEL - 1), begin, end)
    near = bool(chart.limit) and chart.values[-1] >= 0.9 * chart.limit
    rows = plot(columns, height, top, levels, "bar-two" if chart.binary else "bar-one")
    labels = {0: chart.shown(round(top)), height - 1: "0"}
    drawn: list[Line] = [
        (Span(f"{labels.get(row, ''):>{_LABEL}}┤", "muted"), *line) for row, line in enumerate(rows)
    ]
    return [_heading(chart, top, width, near=near), *drawn]


def _heading(chart: Chart, top: float, width: int, *, near: bool) -> Line:
    now, peak = chart.shown(round(chart.values[-1])), chart.shown(round(max(chart.values)))
    request, limit = (
        chart.shown(value) + ("↑" if value > top else "") if value else ""
        for value in (chart.request, chart.limit)
    )
    long = f"{now} now · {peak} peak"
    long += f" · request {request}" if request else " · no request"
    long += f" · limit {limit}" if limit else " · no limit"
    short = f"{now} ⌃{peak}"
    short += (f" req {request}" if request else "") + (f" lim {limit}" if limit else "")
    alarm = " ▲" if near else ""
    name = f"{chart.title} "
    room = max(0, width - len(name) - len(alarm))
    text = long if len(long) <= room else short
    return (
        Span(name, "key"),
        Span(sized(text, room).rstrip() + alarm, "warning" if near else "soft"),
    )


def _joined(left: list[Line], right: list[Line], width: int) -> list[Line]:
    return [
        (*a, Span(" " * (width - line_width(a) + _GAP)), *b)
        for a, b in zip(left, right, strict=True)
    ]
