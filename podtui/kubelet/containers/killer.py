"""Stop containers and pods (kubelet.md §9): concurrently, sidecars last, each with 2 s or more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from podtui.api.kills import Kill, KillReason
from podtui.api.pods import all_containers, is_sidecar
from podtui.api.v1 import Container, Pod
from podtui.clock import Clock
from podtui.kubelet.events.recorder import NORMAL, EventRecorder, field_path
from podtui.kubelet.ports import PodNetwork
from podtui.kubelet.tasks import gather_all
from podtui.kubelet.types import ContainerToKill, ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState, Runtime, SandboxState

MIN_STOP_SECONDS: Final = 2.0
"""Seconds that a process always gets after its stop signal, even with its grace used up."""
MIN_GRACE_SECONDS: Final = 1
ROUNDING: Final = 0.001
KILL_PATIENCE: Final = 10.0
EXCEEDED_GRACE: Final = "Container runtime did not kill the pod within specified grace period."
ALIVE: Final = (ContainerState.RUNNING, ContainerState.UNKNOWN)
"""States of containers that may still have to be stopped."""


def container_spec(pod: Pod, name: str) -> Container | None:
    return next((container for _, container in all_containers(pod) if container.name == name), None)


def effective_grace(pod: Pod, override: int | None = None) -> int:
    """Return the grace period in seconds, at least 1."""
    grace = pod.metadata.deletionGracePeriodSeconds
    if grace is None:
        grace = override
    if grace is None:
        grace = pod.spec.terminationGracePeriodSeconds
    return max(MIN_GRACE_SECONDS, 30 if grace is None else grace)


def stop_order(pod: Pod) -> dict[str, frozenset[str]]:
    """Return, by sidecar, the names of the containers that must exit before it is stopped.

    These are every regular container and every later sidecar. Plain init containers do not wait,
    and no container waits for them.
    """
    predecessors: dict[str, frozenset[str]] = {}
    before = frozenset(container.name for container in pod.spec.containers)
    for container in reversed(pod.spec.initContainers):
        if is_sidecar(container):
            predecessors[container.name] = before
            before |= {container.name}
    return predecessors


async def ends_in_time(stopped: asyncio.Event, grace: int) -> bool:
    """Wait until a killed pod has stopped; return False if it takes much longer than ``grace``."""
    try:
        async with asyncio.timeout(max(KILL_PATIENCE, 1.5 * grace)):
            await stopped.wait()
    except TimeoutError:
        return False
    return True


class Killer:
    """Stops containers.

    ``record`` is called before each stop, with the pod UID, the container's name and the kill.
    Sandboxes are detached from ``network`` before they stop.
    """

    def __init__(
        self,
        runtime: Runtime,
        events: EventRecorder,
        hooks: Hooks,
        clock: Clock,
        record: Callable[[str, str, Kill], None],
        network: PodNetwork | None = None,
    ) -> None:
        self._runtime = runtime
        self._events = events
        self._hooks = hooks
        self._clock = clock
        self._record = record
        self._network = network

    async def kill_container(
        self,
        pod: Pod,
        container_id: str,
        name: str,
        *,
        reason: KillReason,
        output: str = "",
        message: str = "",
        grace: float | None = None,
        after: Sequence[asyncio.Event] = (),
    ) -> None:
        """Stop one container.

        ``output`` is the output of a failed probe. ``grace``, in seconds, overrides the pod's own.
        ``after`` are exits to wait for while the grace lasts. Raises `EngineError`.
        """
        if grace is None:
            given = pod.spec.terminationGracePeriodSeconds
            grace = 30.0 if given is None else float(given)
        kill = Kill(id=container_id, reason=reason, message=output)
        self._record(pod.metadata.uid, name, kill)
        self._events.pod(
            pod,
            NORMAL,
            "Killing",
            message or f"Stopping container {name}",
            field_path(pod, name),
        )
        spec = container_spec(pod, name)
        if spec is not None and grace > 0:
            begun = self._clock.monotonic()
            await self._hooks.pre_stop(pod, spec, container_id, grace)
            grace -= self._whole_seconds(begun)
        if grace > 0 and after:
            begun = self._clock.monotonic()
            await self._wait_for_others(after, grace)
            grace -= self._whole_seconds(begun)
        await self._runtime.stop_container(container_id, max(MIN_STOP_SECONDS, grace))

    def _whole_seconds(self, since: float) -> int:
        # Rounded sums of floats may fall short of a whole second.
        return int(self._clock.monotonic() - since + ROUNDING)

    async def _wait_for_others(self, after: Iterable[asyncio.Event], limit: float) -> None:
        """Wait for the exits of other containers, for at most ``limit`` seconds."""
        try:
            async with asyncio.timeout(limit):
                for exited in after:
                    await exited.wait()
        except TimeoutError:
            return

    async def kill_unwanted(
        self, pod: Pod, unwanted: Iterable[ContainerToKill], outputs: Mapping[str, str]
    ) -> None:
        """Stop the containers of `PodActions.kill`.

        ``outputs`` holds the output of failed probes by container id. Raises the first
        `EngineError`.
        """
        await gather_all(
            partial(
                self.kill_container,
                pod,
                container.id,
                container.name,
                reason=container.reason,
                output=outputs.get(container.id, ""),
                message=container.message,
                grace=_probe_grace(pod, container),
            )
            for container in unwanted
        )

    async def kill_containers(
        self, pod: Pod, observed: ObservedPod | None, grace: float | None, reason: KillReason
    ) -> None:
        """Stop all running containers. Raises the first `EngineError`, after all were tried."""
        alive = () if observed is None else observed.containers
        running = [container for container in alive if container.state in ALIVE]
        exits = {container.id: asyncio.Event() for container in running}
        waits_for = stop_order(pod)

        async def stop(container: ObservedContainer) -> None:
            before = waits_for.get(container.name, frozenset())
            after = [exits[other.id] for other in running if other.name in before]
            try:
                await self.kill_container(
                    pod, container.id, container.name, reason=reason, grace=grace, after=after
                )
            finally:
                exits[container.id].set()

        await gather_all(partial(stop, container) for container in running)

    async def stop_sandboxes(self, observed: ObservedPod | None) -> None:
        """Stop the sandboxes that are ready. Raises the first `EngineError`."""
        boxes = () if observed is None else observed.sandboxes
        await self._detach(sandbox.id for sandbox in boxes)
        await gather_all(
            partial(self._runtime.stop_sandbox, sandbox.id)
            for sandbox in boxes
            if sandbox.state is SandboxState.READY
        )

    async def remove_sandboxes(self, observed: ObservedPod | None) -> None:
        """Remove all sandboxes and containers of a pod. Raises the first `EngineError`."""
        if observed is None:
            return
        boxes = {sandbox.id for sandbox in observed.sandboxes}
        await self._detach(boxes)
        await gather_all(
            partial(self._runtime.remove_container, container.id)
            for container in observed.containers
            if container.sandbox_id not in boxes
        )
        await gather_all(partial(self._runtime.remove_sandbox, sandbox) for sandbox in boxes)

    async def _detach(self, sandboxes: Iterable[str]) -> None:
        if self._network is not None:
            for sandbox_id in sandboxes:
                await self._network.detach(sandbox_id)


def _probe_grace(pod: Pod, unwanted: ContainerToKill) -> float | None:
    spec = container_spec(pod, unwanted.name)
    if spec is None:
        return None
    probe = None
    if unwanted.reason is KillReason.LIVENESS_PROBE:
        probe = spec.livenessProbe
    elif unwanted.reason is KillReason.STARTUP_PROBE:
        probe = spec.startupProbe
    if probe is None or probe.terminationGracePeriodSeconds is None:
        return None
    return float(probe.terminationGracePeriodSeconds)


class Hooks(Protocol):
    """Runs postStart and preStop handlers. Both emit their own failure events."""

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        """Run the handler to its end; return an error message, empty on success."""
        ...

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        """Run the handler for at most ``grace`` seconds."""
        ...
