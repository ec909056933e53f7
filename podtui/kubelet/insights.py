"""What people ask about one pod beyond its record: how its probes stand, what it used."""

from __future__ import annotations

from collections.abc import Callable

from podtui.api.insight import PodInsight, ProbeRun
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.probing import Probes
from podtui.kubelet.usage_history import UsageHistory


class Insights:
    """Implements `podtui.server.insight.PodInsights`. ``find`` gives a pod by namespace and name.

    All raise `LookupError`, with a text for the user, where there is no such pod.
    """

    def __init__(
        self,
        *,
        find: Callable[[str, str], Pod | None],
        probes: Probes,
        history: UsageHistory,
        clock: Clock,
    ) -> None:
        self._find = find
        self._probes = probes
        self._history = history
        self._clock = clock

    async def insight(self, namespace: str, name: str) -> PodInsight:
        pod = self._pod(namespace, name)
        return PodInsight(
            time=self._clock.now().timestamp(),
            probes=self._probes.reports(pod),
            usage=self._history.series(pod.metadata.uid),
        )

    async def run_probe(self, namespace: str, name: str, container: str, probe: str) -> ProbeRun:
        """Run a probe now; the kubelet counts nothing of it."""
        pod = self._pod(namespace, name)
        return await self._probes.look(pod.metadata.uid, container, probe)

    def _pod(self, namespace: str, name: str) -> Pod:
        pod = self._find(namespace, name)
        if pod is None:
            raise LookupError(f'pods "{name}" not found')
        return pod
