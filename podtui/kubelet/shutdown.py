"""Graceful node shutdown (kubelet.md §14.7): pods end in steps, the most important ones last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from podtui.api.pod_resources import SYSTEM_CRITICAL_PRIORITY
from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.events.recorder import NORMAL, EventRecorder
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.status.pod_status import status_ended_by

_LOG = logging.getLogger(__name__)
REASON: Final = "Terminated"
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
Steps = Sequence[tuple[int, float]]
"""(priority, seconds) pairs, ascending."""


@dataclass(frozen=True, slots=True)
class ShutdownGroup:
    """Pods that end together, with their time limit in seconds."""

    seconds: float
    pods: tuple[Pod, ...]


def shutdown_steps(grace: float, critical: float, by_priority: Steps) -> Steps:
    """Return the configured shutdown steps, with all durations in seconds; none if graceful
    shutdown is off."""
    if by_priority:
        return tuple(sorted(by_priority))
    if grace <= 0:
        return ()
    return ((0, grace - critical), (SYSTEM_CRITICAL_PRIORITY, critical))


def shutdown_groups(steps: Steps, pods: Iterable[Pod]) -> tuple[ShutdownGroup, ...]:
    """Assign every pod to the highest step that is not above its priority, or else to the lowest
    step. A static pod gets no special treatment here."""
    groups: list[list[Pod]] = [[] for _ in steps]
    for pod in pods:
        priority = pod.spec.priority or 0
        reached = [index for index, (lowest, _) in enumerate(steps) if lowest <= priority]
        groups[max(reached, default=0)].append(pod)
    return tuple(
        ShutdownGroup(seconds, tuple(group))
        for (_, seconds), group in zip(steps, groups, strict=True)
    )


class NodeShutdown:
    """Ends all running pods before the node shuts down. ``pods`` returns the running pods."""

    def __init__(
        self,
        *,
        steps: Steps,
        node: NodeManager,
        events: EventRecorder,
        clock: Clock,
        pods: Callable[[], Iterable[Pod]],
    ) -> None:
        self._steps = steps
        self._node = node
        self._events = events
        self._clock = clock
        self._pods = pods

    @property
    def enabled(self) -> bool:
        return bool(self._steps)

    async def run(self, workers: PodWorkers) -> None:
        """End all pods, group by group. Returns when the last group has ended or its time is up."""
        self._node.begin_shutdown()
        self._events.node(NORMAL, "Shutdown", "Shutdown manager detected shutdown event")
        for group in shutdown_groups(self._steps, self._pods()):
            if not group.pods:
                continue
            ended = [self._end(workers, pod, group.seconds) for pod in group.pods]
            try:
                async with asyncio.timeout(group.seconds):
                    for stopped in ended:
                        if stopped is not None:
                            await stopped.wait()
            except TimeoutError:
                _LOG.warning("some pods did not terminate within %.0f s", group.seconds)

    def _end(self, workers: PodWorkers, pod: Pod, seconds: float) -> asyncio.Event | None:
        grace = int(seconds)
        pod_grace = pod.spec.terminationGracePeriodSeconds
        if pod_grace is not None and pod_grace <= grace:
            grace = pod_grace
        _LOG.info("pod %s has %d s to terminate: the node is shutting down", pod_ref(pod), grace)
        return workers.kill(
            pod.metadata.uid,
            grace=grace,
            decorate=partial(
                status_ended_by,
                pod,
                reason=REASON,
                message=MESSAGE,
                disruption=MESSAGE,
                now=self._clock.now(),
            ),
        )
