"""Where the prober plugs in (reference §8)."""

from __future__ import annotations

from typing import Protocol

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.kubelet.base.types import ObservedPod, ProbeResult, ProbeView
from podtui.runtime.protocol import ContainerState


class Probes(Protocol):
    """Probes of every pod. A prober wakes the pod's worker when a result turns."""

    def view(self, pod: Pod, observed: ObservedPod) -> ProbeView:
        """The latest results of the pod's containers."""
        ...

    async def run(self) -> None:
        """What has to run beside the kubelet's own tasks, if anything."""
        ...

    def start(self, pod: Pod) -> None:
        """The pod is being run; called at each pass, so it must be cheap to repeat."""
        ...

    def stop(self, uid: str, *, readiness: bool) -> None:
        """End liveness and startup probes, with ``readiness`` all of them."""
        ...

    def reports(self, pod: Pod) -> tuple[ProbeReport, ...]:
        """Where each probe of the pod stands, for people to look at."""
        ...

    async def look(self, uid: str, container: str, probe: str) -> ProbeRun:
        """Run a probe once without counting it. Raises `LookupError`."""
        ...


class NoProbes:
    """Runs none, and takes every running container for healthy so that no pod waits for ever;
    `podtui.kubelet.containers.unsupported` says so."""

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
