"""Details about one pod or the node beyond their records: pod starts, probe states, usage. Supports
long polling: a query can wait until there is something new."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from podtui.api.insight import (
    AT_ONCE,
    InsightPart,
    InsightQuery,
    NetworkSeries,
    NodeInsight,
    PodInsight,
    PodStart,
    ProbeReport,
    ProbeRun,
    UsageSeries,
)
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.prober.state import Probes
from podtui.kubelet.stats.metrics import Metrics
from podtui.kubelet.stats.usage_history import UsageHistory

PROBE_POLL_PERIOD: Final = 0.5
"""Seconds between two checks of the probes for a waiting client."""
LONGEST_WAIT: Final = 60.0
OF_HOST: Final = "the pod uses the node's network, so its own traffic is not measured"
UNREPORTED_NETWORK: Final = "the engine does not report this pod's network traffic"
UNREPORTED_DISK: Final = "neither the engine nor the kernel measures it"
UNREPORTED_STORAGE: Final = "the engine's storage driver does not report the size of containers"


class Insights:
    """Implements `podtui.server.kubelet_api.insight.PodInsights`.

    ``find`` returns a pod by namespace and name. All methods about a pod raise `LookupError`, with
    a message for the user, if there is no such pod.
    """

    def __init__(
        self,
        *,
        find: Callable[[str, str], Pod | None],
        probes: Probes,
        metrics: Metrics,
        timelines: Timelines,
        clock: Clock,
    ) -> None:
        self._find = find
        self._probes = probes
        self._metrics = metrics
        self._history = metrics.history
        self._timelines = timelines
        self._clock = clock

    async def insight(
        self, namespace: str, name: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        """Return the requested details; None if nothing changed within the query's wait time."""
        until = self._clock.monotonic() + min(query.wait, LONGEST_WAIT)
        while True:
            version = self._version(namespace, name, query.part)
            if version != query.seen:
                return self._answer(namespace, name, query, version)
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            await self._wait_for_change(query.part, left)

    async def node(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        """Return the details of the node; None if nothing changed within the query's wait time."""
        until = self._clock.monotonic() + min(query.wait, LONGEST_WAIT)
        while (version := str(self._history.changed.count)) == query.seen:
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            await self._history.changed.wait(left)
        now = self._clock.now().timestamp()
        points = self._history.points((), now - query.span, query.span)
        cpu, memory, pods, storage = points.columns
        return NodeInsight(
            time=now,
            version=version,
            times=points.times,
            cpu=_rounded(cpu),
            memory=tuple(map(int, memory)),
            pods=tuple(map(int, pods)),
            storage=_known(storage),
        )

    async def run_probe(self, namespace: str, name: str, container: str, probe: str) -> ProbeRun:
        """Run a probe now; its result is not counted."""
        pod = self._pod(namespace, name)
        return await self._probes.run_once(pod.metadata.uid, container, probe)

    def _pod(self, namespace: str, name: str) -> Pod:
        pod = self._find(namespace, name)
        if pod is None:
            raise LookupError(f'pods "{name}" not found')
        return pod

    # --- changes

    def _version(self, namespace: str, name: str, part: InsightPart) -> str:
        """Return a version string that changes whenever the answer changes."""
        if part is InsightPart.STARTS:
            return _sum(self._starts(namespace, name))
        uid = self._pod(namespace, name).metadata.uid
        usage = f"{uid}.{self._history.changed.count}"
        if part is InsightPart.USAGE:
            return usage
        reports = (msgspec.structs.replace(r, nextIn=None) for r in self._reports(namespace, name))
        probes = _sum(tuple(reports))
        if part is InsightPart.PROBES:
            return f"{uid}.{probes}"
        return f"{usage}.{probes}.{_sum(self._starts(namespace, name))}"

    async def _wait_for_change(self, part: InsightPart, seconds: float) -> None:
        """Wait for a possible change, for at most ``seconds``."""
        if part is InsightPart.STARTS:
            await self._timelines.changed.wait(seconds)
        elif part is InsightPart.USAGE:
            await self._history.changed.wait(seconds)
        else:
            # Probes run so often that polling costs less than notifications.
            await self._clock.sleep(min(seconds, PROBE_POLL_PERIOD))

    # --- answers

    def _answer(self, namespace: str, name: str, query: InsightQuery, version: str) -> PodInsight:
        part, now = query.part, self._clock.now().timestamp()
        every = part is InsightPart.ALL
        details = PodInsight(time=now, version=version)
        if every or part is InsightPart.STARTS:
            starts = self._starts(namespace, name)
            details = msgspec.structs.replace(details, starts=starts)
        if every or part is InsightPart.PROBES:
            details = msgspec.structs.replace(details, probes=self._reports(namespace, name))
        if every or part is InsightPart.USAGE:
            details = msgspec.structs.replace(
                details,
                usage=_usage(self._history, namespace, name, now - query.span, query.span),
                network=_network(self._history, namespace, name, now - query.span, query.span),
                unmeasured=self._unmeasured(self._pod(namespace, name)),
            )
        return details

    def _starts(self, namespace: str, name: str) -> tuple[PodStart, ...]:
        """Return the starts, also of a removed pod. Raises `LookupError` if the pod never
        existed."""
        starts = self._timelines.starts(namespace, name)
        return starts if starts or self._pod(namespace, name) else ()

    def _reports(self, namespace: str, name: str) -> tuple[ProbeReport, ...]:
        return self._probes.reports(self._pod(namespace, name))

    def _unmeasured(self, pod: Pod) -> dict[str, str]:
        """Return the reason for each kind of usage that is not measured."""
        reasons: dict[str, str] = {}
        uid, sizes = pod.metadata.uid, self._metrics.sizes
        network = self._metrics.networks.get(uid)
        if pod.spec.hostNetwork:
            reasons["network"] = OF_HOST
        elif network is not None and network.stats.interfaces is None:
            reasons["network"] = UNREPORTED_NETWORK
        running = [sample for sample in self._metrics.containers if sample.pod.uid == uid]
        if running and all(sample.stats.read is None for sample in running):
            reasons["disk"] = UNREPORTED_DISK
        if (
            running
            and sizes.measured
            and all(sizes.of(sample.container.id).layer is None for sample in running)
        ):
            reasons["storage"] = UNREPORTED_STORAGE
        return reasons


def _usage(
    history: UsageHistory, namespace: str, name: str, since: float, span: float
) -> tuple[UsageSeries, ...]:
    series: list[UsageSeries] = []
    for container in history.containers(namespace, name):
        points = history.points((namespace, name, container), since, span)
        cpu, memory, read, written, storage = points.columns
        series.append(
            UsageSeries(
                container=container,
                times=points.times,
                cpu=_rounded(cpu),
                memory=tuple(map(int, memory)),
                read=_known(read),
                written=_known(written),
                storage=_known(storage),
            )
        )
    return tuple(series)


def _network(
    history: UsageHistory, namespace: str, name: str, since: float, span: float
) -> NetworkSeries:
    points = history.points((namespace, name), since, span)
    received, sent = points.columns
    return NetworkSeries(times=points.times, received=_known(received), sent=_known(sent))


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(value, 3) for value in values)


def _known(values: Iterable[float]) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else round(value, 3) for value in values)


def _sum(value: object) -> str:
    return f"{zlib.crc32(msgspec.json.encode(value)):08x}"
