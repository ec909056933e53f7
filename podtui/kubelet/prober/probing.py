"""The interface between the kubelet and the prober (reference §8)."""

from __future__ import annotations

from typing import Protocol

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.kubelet.base.types import ObservedPod, ProbeResult, ProbeView
from podtui.runtime.protocol import ContainerState


class Probes(Protocol):
    """The probes of every pod. The implementation wakes the pod's worker when a result changes."""

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        """Return the latest results of the pod's containers."""
        ...

    async def run(self) -> None:
        """Run background tasks beside the kubelet's own, if any."""
        ...

    def start(self, pod: Pod) -> None:
        """Start the probes of a running pod. Called in every sync, so repeated calls must be
        cheap."""
        ...

    def stop(self, uid: str, *, readiness: bool) -> None:
        """Stop liveness and startup probes; with ``readiness``, all of them."""
        ...

    def reports(self, pod: Pod) -> tuple[ProbeReport, ...]:
        """Return a user-facing report of each probe of the pod."""
        ...

    async def look(self, uid: str, container: str, probe: str) -> ProbeRun:
        """Run a probe once without counting it. Raises `LookupError`."""
        ...


class NoProbes:
    """Runs no probes and reports every running container as healthy, so that no pod waits forever.
    `podtui.kubelet.pods.sync` warns about it."""

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        probed = {
            container.name
            for _, container in all_containers(pod)
            if container.startupProbe or container.livenessProbe or container.readinessProbe
        }
        if not probed:
            return ProbeView()
        healthy = {
            container.id: ProbeResult.SUCCESS
            for container in observed.containers
            if container.name in probed and container.state is ContainerState.RUNNING
        }
        return ProbeView(startup=healthy, liveness=healthy, readiness=healthy)

    async def run(self) -> None:
        return None

    def start(self, pod: Pod) -> None:
        return None

    def stop(self, uid: str, *, readiness: bool) -> None:
        return None

    def reports(self, pod: Pod) -> tuple[ProbeReport, ...]:
        return ()

    async def look(self, uid: str, container: str, probe: str) -> ProbeRun:
        raise LookupError("no probes are run here")
