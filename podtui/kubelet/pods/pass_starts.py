"""Start the containers of a sync pass, in the kubelet's order (reference §6.4 steps 6 to 9)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from podtui.api.pods import is_sidecar, pod_ref
from podtui.api.v1 import Container, Pod
from podtui.clock import Clock
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.types import ObservedContainer, ObservedPod, PodActions
from podtui.kubelet.containers.killer import container_spec
from podtui.kubelet.containers.log_files import LogFiles
from podtui.kubelet.containers.restart import RestartCounts
from podtui.kubelet.containers.starter import ContainerStarter, Place, ReasonCache, StartFailure
from podtui.kubelet.pleg.pleg import Pleg
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resizes import ResizeActuator, Resizes
from podtui.runtime.protocol import ContainerState

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Starts:
    """The result of the steps of one pass; ``aborted`` means that the rest was skipped."""

    acted: bool = False
    aborted: bool = False
    failures: list[StartFailure] = field(default_factory=list[StartFailure])


class PassStarts:
    """The start steps of a pass; ``counts`` holds the restart counts shown so far."""

    def __init__(
        self,
        *,
        starter: ContainerStarter,
        actuator: ResizeActuator,
        allocations: Allocations,
        resizes: Resizes,
        reasons: ReasonCache,
        counts: RestartCounts,
        logs: LogFiles,
        pleg: Pleg,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._starter = starter
        self._actuator = actuator
        self._allocations = allocations
        self._resizes = resizes
        self._reasons = reasons
        self._counts = counts
        self._logs = logs
        self._pleg = pleg
        self._clock = clock
        self._config = config

    async def run(
        self,
        pod: Pod,
        observed: ObservedPod,
        actions: PodActions,
        place: Place,
        stopping: asyncio.Event,
    ) -> Starts:
        """Start ephemeral and init containers, resize, start regular ones (reference §6.4)."""
        starts = Starts()

        async def start(names: tuple[str, ...]) -> None:
            for name in names:
                container = container_spec(pod, name)
                if container is None or stopping.is_set():
                    starts.aborted = True
                if container is None or starts.aborted:
                    return
                failure = await self._start_one(pod, container, observed, place, stopping)
                if failure is None:
                    starts.acted = True
                    continue
                starts.failures.append(failure)
                # The container may have been created before the start failed.
                starts.acted = starts.acted or failure.retry_in is None
                starts.aborted = name in actions.start_init and not is_sidecar(container)

        await start(actions.start_ephemeral)
        await start(actions.start_init)
        if (actions.update or actions.resize_pod) and not starts.aborted:
            await self._resize(pod, actions, place, starts)
        await start(actions.start)
        return starts

    async def _resize(self, pod: Pod, actions: PodActions, place: Place, starts: Starts) -> None:
        error = await self._actuator.carry_out(pod, actions.update, place)
        self._pleg.reinspect(pod.metadata.uid)
        starts.acted = True
        if error:
            starts.failures.append(StartFailure("ResizeError", error))
            self._resizes.failed(pod, error)
        else:
            self._resizes.done(pod)

    async def _start_one(
        self,
        pod: Pod,
        container: Container,
        observed: ObservedPod,
        place: Place,
        stopping: asyncio.Event,
    ) -> StartFailure | None:
        uid = pod.metadata.uid
        failure = self._stuck(pod, container, observed)
        if failure is not None:
            return failure
        self._allocations.actuate(pod, container)
        failure = await self._starter.start(
            pod,
            container,
            place,
            # A container killed by a probe in this pass still runs in ``observed``. Back-off needs
            # the instance that ended last.
            newest=_last_ended(observed, container.name),
            restart_count=await self._next_count(pod, container.name, observed),
            stopping=stopping,
        )
        if failure is None:
            self._reasons.clear(uid, container.name)
            return None
        self._reasons.fail(uid, container.name, failure.reason, failure.message)
        _LOG.info("%s: %s: %s: %s", pod_ref(pod), container.name, failure.reason, failure.message)
        return failure

    async def _next_count(self, pod: Pod, container: str, observed: ObservedPod) -> int:
        """Return the restart count of the next instance (reference §6.5).

        It comes from the labels of existing instances or, if there are none, from the names of the
        log files. It is never less than the count shown before.
        """
        meta = pod.metadata
        known = self._counts.next(meta.uid, container)
        if observed.newest(container) is not None:
            return known
        logged = await self._logs.next_count(meta.namespace, meta.name, meta.uid, container)
        return max(known, logged)

    def _stuck(self, pod: Pod, container: Container, observed: ObservedPod) -> StartFailure | None:
        """Delay the retry of a container that was created but could not be started.

        It is retried ``error_backoff`` seconds after its creation.
        """
        newest = observed.newest(container.name)
        reason = self._reasons.of(pod.metadata.uid).get(container.name)
        if reason is None or newest is None or newest.state is not ContainerState.CREATED:
            return None
        left = self._config.error_backoff - (self._clock.now() - newest.created_at).total_seconds()
        return StartFailure(*reason, retry_in=left) if left > 0 else None


def _last_ended(observed: ObservedPod, name: str) -> ObservedContainer | None:
    ended = (c for c in observed.containers if c.state is ContainerState.EXITED)
    return next((c for c in ended if c.name == name), None)
