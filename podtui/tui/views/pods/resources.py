"""Plots of a pod's resource usage, with its requests and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podtui.api.insight import NetworkSeries, UsageSeries
from podtui.api.pods import container_statuses, is_sidecar
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Container, ContainerStateTerminated, Pod
from podtui.tui.model.usage import amount
from podtui.tui.widgets.cells import Line, Span, sized, wrap
from podtui.tui.widgets.chart import SPANS, Chart, Frame, columns_for, grid, rate
from podtui.tui.widgets.format import millicores, size
from podtui.tui.widgets.sanitize import clean

_LEAST: Final = 2
_MOST: Final = 14
NO_NETWORK: Final = NetworkSeries()
_SPACING: Final = 10.0
"""Seconds between the agent's measurements."""


@dataclass(frozen=True, slots=True)
class Used:
    """A pod, and its usage as reported by the agent. ``unmeasured`` maps ``network``, ``disk`` and
    ``storage`` to the reason why it is not measured.
    """

    pod: Pod
    usage: tuple[UsageSeries, ...] = ()
    network: NetworkSeries = NO_NETWORK
    unmeasured: dict[str, str] | None = None

    def why(self, what: str) -> str:
        return clean((self.unmeasured or {}).get(what, ""))


def resource_lines(
    used: Used, now: float, span: str, width: int, height: int, *, whole: bool = False
) -> list[Line]:
    """Return lines of at most ``width`` cells.

    All plots fit into ``height`` rows if they stay readable. ``span``, one of `SPANS`, is the
    maximum time span. With ``whole``, the scales extend to requests and limits even if the usage is
    low.
    """
    pod, by_container = used.pod, {series.container: series for series in used.usage}
    containers = [
        c
        for c in (*pod.spec.initContainers, *pod.spec.containers)
        if c.name in by_container or not _is_init_container(pod, c)
    ]
    times = [series.times for series in (*used.usage, used.network) if series.times]
    if not times:
        return _no_usage_lines(used.pod, containers, now, span)
    begin = max(now - SPANS[span], min(every[0] for every in times))
    end = max(now, *(every[-1] for every in times), begin + _SPACING)
    sections = [
        (_title(pod, c, now), _charts(used, c, by_container.get(c.name))) for c in containers
    ]
    sections.append(("the pod's network", _network(used)))
    most = max(sum(map(_is_plotted, charts)) for _, charts in sections)
    columns = columns_for(width, max(1, most))
    frame = Frame(begin, end, _rows(sections, height, columns), whole)
    lines: list[Line] = []
    for title, charts in sections:
        lines.append((Span(sized(title, width).rstrip(), "name"),))
        lines += _section(charts, width, columns, frame)
    return lines + wrap(_legend(end - begin, span), width, indent=1)


def _title(pod: Pod, container: Container, now: float) -> str:
    """Return the container's name, with its state if it does not run."""
    state = idle_text(pod, container.name, now)
    return f"{clean(container.name)} · {state}" if state else clean(container.name)


def idle_text(pod: Pod, container: str, now: float) -> str:
    """Return why a container does not run; empty if it runs."""
    status = next((s for s in container_statuses(pod) if s.name == container), None)
    if status is None:
        reason = clean(pod.status.reason)
        return f"has not started: {reason}" if reason else "has not started yet"
    if status.state.running is not None:
        return ""
    ended = status.state.terminated
    if ended is not None:
        return _ended_text(ended, now)
    waiting = status.state.waiting
    reason = clean(waiting.reason) if waiting is not None and waiting.reason else "waiting"
    last = status.lastState.terminated
    return f"not running: {reason}" + (f", {_ended_text(last, now)}" if last is not None else "")


def _ended_text(ended: ContainerStateTerminated, now: float) -> str:
    when = epoch(ended.finishedAt)
    ago = f" {short_duration(now - when)} ago" if when is not None else ""
    return f"exited with code {ended.exitCode}{ago}"


def _no_usage_lines(pod: Pod, containers: Sequence[Container], now: float, span: str) -> list[Line]:
    lines: list[Line] = [(Span(f" No measurements of this pod in the last {span}.", "soft"),), ()]
    idle = [(c, idle_text(pod, c.name, now)) for c in containers]
    lines += [
        (Span(f" {clean(c.name)} ", "name"), Span(state, "soft")) for c, state in idle if state
    ]
    if len(idle) > sum(bool(state) for _, state in idle):
        text = "The first ones are taken ten seconds after a container starts,"
        lines += [
            (Span(f" {text}", "muted"),),
            (Span(" those of disk and network ten seconds later.", "muted"),),
        ]
    return lines


def _section(charts: list[Chart], width: int, columns: int, frame: Frame) -> list[Line]:
    """Return the plots of a section, then lines of text for constant and unmeasured resources.
    Resources with the same reason share a line.
    """
    if not charts:
        return [(Span("   no measurements", "muted"),)]
    lines = grid([c for c in charts if _is_plotted(c)], width, columns, frame)
    if still := [chart for chart in charts if chart.is_zero and not _is_plotted(chart)]:
        text = f"{still[0].shown(0)} constantly"
        titles = ", ".join(chart.title for chart in still)
        lines += wrap((Span(f"{titles} ", "key"), Span(text, "muted")), width, indent=1)
    reasons: dict[str, list[str]] = {}
    for chart in charts:
        if chart.why and not chart.measured:
            reasons.setdefault(chart.why, []).append(chart.title)
    for why, titles in reasons.items():
        spans = (Span(f"{', '.join(titles)} ", "key"), Span(f"not measured: {why}", "muted"))
        lines += wrap(spans, width, indent=1)
    return lines


def _is_plotted(chart: Chart) -> bool:
    """Return whether a chart is drawn. Constant zero usage and unmeasured resources are reported as
    text instead.
    """
    return not chart.is_zero or chart.has_requests if chart.measured else not chart.why


def _legend(seconds: float, span: str) -> Line:
    return (
        Span(f" the last {short_duration(seconds)} (", "muted"),
        Span("[/]", "hint-key"), Span(f" up to {span}), now at the right", "muted"),
        Span("   ━ ", "error"), Span("limit  ", "muted"),
        Span("╌ ", "key"), Span("request  ", "muted"), Span("⌃ ", "soft"), Span("peak", "muted"),
    )  # fmt: skip


def _cpu(milli: int) -> str:
    """Return ``250m``; from ten cores on whole cores, such as ``32``."""
    return millicores(milli) if milli < 10_000 else f"{milli / 1000:.0f}"


def _is_init_container(pod: Pod, container: Container) -> bool:
    """Return whether the container is an init container, which is shown only while it runs."""
    return container in pod.spec.initContainers and not is_sidecar(container)


def _rows(sections: list[tuple[str, list[Chart]]], height: int, columns: int) -> int:
    """Return the height of a plot so that all are visible at once."""
    drawn = [sum(1 for chart in charts if _is_plotted(chart)) for _, charts in sections]
    bands = sum(-(-count // columns) for count in drawn)
    note = len(sections) + 1
    note += sum(1 for _, charts in sections if not all(map(_is_plotted, charts)) or not charts)
    return max(_LEAST, min(_MOST, (height - note) // max(1, bands) - 1))


def _charts(used: Used, container: Container, series: UsageSeries | None) -> list[Chart]:
    """Return the charts of one container; empty if it is not running."""
    if series is None or not series.times:
        return []
    requests, limits = container.resources.requests, container.resources.limits
    (cpu, cpu_limit), (memory, memory_limit), (kept, kept_limit) = (
        (amount(name, requests.get(name, "0")), amount(name, limits.get(name, "0")))
        for name in ("cpu", "memory", "ephemeral-storage")
    )
    times, disk = series.times, used.why("disk")
    return [
        Chart("cpu", times, series.cpu, _cpu, _cpu, "bar-one", cpu, cpu_limit, has_requests=True),
        Chart("mem", times, series.memory, size, size, "bar-two", memory, memory_limit,
              binary=True, has_requests=True),
        Chart("read", times, series.read, rate, size, "bar-one", binary=True, why=disk),
        Chart("write", times, series.written, rate, size, "bar-two", binary=True, why=disk),
        Chart("disk", times, series.storage, size, size, "bar-one", kept, kept_limit,
              binary=True, why=used.why("storage")),
    ]  # fmt: skip


def _network(used: Used) -> list[Chart]:
    times, why = used.network.times, used.why("network")
    return [
        Chart("in", times, used.network.received, rate, size, "bar-one", binary=True, why=why),
        Chart("out", times, used.network.sent, rate, size, "bar-two", binary=True, why=why),
    ]
