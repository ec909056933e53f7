"""Carry out the three passes of a pod's life (kubelet.md §4, 6.4); decisions are made elsewhere.

Level-triggered: every pass compares the desired with the observed state, and may run at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from podtui.api.insight import StepKind
from podtui.api.kills import Kill, KillReason
from podtui.api.pod_resources import is_static
from podtui.api.pods import all_containers, is_sidecar, pod_ref
from podtui.api.v1 import Container, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, PodtuiError
from podtui.kubelet.config import STOP_SIGNALS, KubeletConfig
from podtui.kubelet.containers.container_config import stop_signal
from podtui.kubelet.containers.container_gc import dead_init_containers, garbage
from podtui.kubelet.containers.killer import ALIVE, Killer, container_spec
from podtui.kubelet.containers.log_files import LogFiles
from podtui.kubelet.containers.restart import RestartRequests
from podtui.kubelet.containers.starter import (
    ContainerStarter,
    StartContext,
    StartFailure,
)
from podtui.kubelet.events.recorder import NORMAL, WARNING
from podtui.kubelet.images.image_manager import ImageManager
from podtui.kubelet.images.image_volumes import ImageVolumes, VolumeFailure
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.pleg.pleg import Engine
from podtui.kubelet.pods.actions import compute_pod_actions
from podtui.kubelet.pods.pod_workers import SyncOutcome
from podtui.kubelet.ports import PodNetwork
from podtui.kubelet.prober.state import ProbeKind, Probes
from podtui.kubelet.resize.resizes import PodResources
from podtui.kubelet.sandbox.sandbox import SandboxMaker, sorted_pod_ips
from podtui.kubelet.status.phase import TERMINAL
from podtui.kubelet.status.pod_status import (
    deadline,
)
from podtui.kubelet.status.status_manager import PodRecords
from podtui.kubelet.status.status_reporter import StatusReporter
from podtui.kubelet.tasks import gather_all
from podtui.kubelet.types import (
    ContainerToKill,
    Decorate,
    ObservedContainer,
    ObservedPod,
    PodActions,
)
from podtui.kubelet.volumes.claims import Claims
from podtui.kubelet.volumes.pod_volumes import OWN_DIRECTORY, used_volumes, volume_type
from podtui.kubelet.volumes.volume_manager import VolumeManager
from podtui.runtime.protocol import ContainerState

_LOG = logging.getLogger(__name__)
_PROBES: Final = {
    KillReason.LIVENESS_PROBE: ProbeKind.LIVENESS,
    KillReason.STARTUP_PROBE: ProbeKind.STARTUP,
}


class StillRunning(PodtuiError):
    """Raised when a container still runs after its pod was stopped."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """The failures of one pass, combined into the delay that the pod worker needs."""

    failures: tuple[StartFailure, ...]
    default: float

    @property
    def retry_in(self) -> float | None:
        if not self.failures:
            return None
        waits = [self.default if f.retry_in is None else f.retry_in for f in self.failures]
        return min(waits)


@dataclass(slots=True)
class _Starts:
    """The result of the start steps of one pass; ``aborted`` means that the rest was skipped."""

    acted: bool = False
    aborted: bool = False
    failures: list[StartFailure] = field(default_factory=list[StartFailure])


@dataclass(frozen=True, slots=True, kw_only=True)
class PodParts:
    """The components that make, watch and end the parts of a pod."""

    sandboxes: SandboxMaker
    claims: Claims
    volumes: VolumeManager
    images: ImageManager
    image_volumes: ImageVolumes
    starter: ContainerStarter
    killer: Killer
    logs: LogFiles
    probes: Probes
    network: PodNetwork | None = None


class Syncer:
    """Implements `podtui.kubelet.pods.pod_workers.PodSyncer`."""

    def __init__(
        self,
        *,
        engine: Engine,
        records: PodRecords,
        resources: PodResources,
        parts: PodParts,
        reporter: StatusReporter,
        node: NodeManager,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._engine = engine
        self._records = records
        self._resources = resources
        self._parts = parts
        self._reporter = reporter
        self._node = node
        self._clock = clock
        self._config = config
        self._restarts = RestartRequests()
        self._warned: set[str] = set()
        """UIDs of the pods whose unsupported features were reported."""

    # --- running

    async def sync_pod(
        self, pod: Pod, observed: ObservedPod | None, stopping: asyncio.Event
    ) -> SyncOutcome:
        observed = observed or self._reporter.observed(pod)
        self._resources.resizes.observe(self._resources.allocations.allocated(pod), observed)
        # First, so that the status shows what was observed even if the rest of the pass fails.
        status = self._reporter.of_pass(pod, observed)
        if status.phase in TERMINAL:
            return SyncOutcome(terminal=True)
        # Containers get the allocated resources, even if the manifest already asks for others.
        pod = self._resources.allocations.allocated(pod)
        self._warn_unsupported(pod)
        await self._parts.images.report_missing_secrets(pod)
        self._records.timelines.began(pod, StepKind.VOLUMES)
        resolved = await self._parts.claims.resolve(pod, started=bool(observed.containers))
        pod = resolved.pod
        volumes = await self._parts.volumes.set_up(
            pod, self._node.view(), resolved.failures, stopping
        )
        if not volumes.ready:
            return SyncOutcome(
                retry_in=self._config.error_backoff if volumes.foreign else None,
                deadline_in=self._due_in(pod, status),
            )
        pod = self._parts.volumes.mounted(pod)
        self._records.timelines.ended(pod, StepKind.VOLUMES)
        self._parts.probes.start(pod)
        actions = compute_pod_actions(
            pod,
            observed,
            probes=self._parts.probes.view(pod, observed),
            actuated=self._resources.allocations.actuated(pod.metadata.uid),
            requested=self._restarts.of(observed),
        )
        acted, failures = await self._apply_actions(pod, observed, actions, stopping)
        return SyncOutcome(
            acted=acted, retry_in=failures.retry_in, deadline_in=self._due_in(pod, status)
        )

    def _due_in(self, pod: Pod, status: PodStatus) -> float | None:
        """Return the seconds until the pod's deadline or the next try of a volume, or None."""
        moment = deadline(pod, status)
        ends = None if moment is None else (moment - self._clock.now()).total_seconds()
        next_try = self._parts.volumes.next_try(pod.metadata.uid)
        return min((wait for wait in (ends, next_try) if wait is not None), default=None)

    def _warn_unsupported(self, pod: Pod) -> None:
        if pod.metadata.uid not in self._warned:
            self._warned.add(pod.metadata.uid)
            for reason, message in unsupported(pod, stop_signals=self._node.context().stop_signals):
                self._records.events.pod(pod, WARNING, reason, message)

    async def _apply_actions(
        self, pod: Pod, observed: ObservedPod, actions: PodActions, stopping: asyncio.Event
    ) -> tuple[bool, _Failures]:
        acted = False
        none = _Failures((), self._config.error_backoff)
        if actions.kill_pod:
            acted = bool(observed.sandboxes or observed.containers)
            if actions.create_sandbox and observed.sandboxes:
                text = "Pod sandbox changed, it will be killed and recreated."
                self._records.events.pod(pod, NORMAL, "SandboxChanged", text)
            reason = KillReason.SANDBOX_CHANGED if actions.create_sandbox else KillReason.POD
            self._record_ends(pod, observed, actions)
            await self._parts.killer.kill_containers(pod, observed, None, reason)
            await self._parts.killer.stop_sandboxes(observed)
            if actions.purge_init:
                await self._purge_init(pod, observed)
            if not actions.create_sandbox:
                # Nothing starts again: the status of the next pass shows that the pod has ended.
                return acted, none
        else:
            acted = bool(actions.kill or actions.reset)
            outputs = self._probe_outputs(pod, actions.kill)
            await self._parts.killer.kill_unwanted(pod, actions.kill, outputs)
            await self._reset(pod, observed, actions.reset)
        await self._trim(pod, observed)
        # To stop containers takes up to their grace period, in which the pod may be killed.
        if stopping.is_set():
            return acted, none
        info = self._engine.link.info
        if info is None:
            raise EngineUnavailable(self._engine.link.error)
        sandbox_id, ips = actions.sandbox_id, _ips_of(observed, actions.sandbox_id)
        if actions.create_sandbox:
            self._records.timelines.began(pod, StepKind.SANDBOX)
            sandbox = await self._parts.sandboxes.make(pod, actions.attempt, info)
            if isinstance(sandbox, StartFailure):
                self._records.timelines.ended(
                    pod, StepKind.SANDBOX, failed=True, note=sandbox.reason
                )
                return True, _Failures((sandbox,), self._config.error_backoff)
            self._records.timelines.ended(pod, StepKind.SANDBOX)
            sandbox_id, ips, acted = sandbox.record.id, sandbox.ips, True
            self._reporter.show_sandbox(pod)
        if self._config.strict:
            failure = await self._parts.sandboxes.check_config(pod, info)
            if failure is not None:
                return acted, _Failures((failure,), self._config.error_backoff)
        if self._parts.network is not None and sandbox_id:
            await self._parts.network.attach(pod, sandbox_id, ips)
        await self._parts.volumes.refresh(pod, sandbox_id)
        starting = bool(actions.start_ephemeral or actions.start_init or actions.start)
        volume_failures: Mapping[str, VolumeFailure] = {}
        # A kubelet requests the images of volumes in every pass, even if nothing starts.
        if starting or self._config.strict:
            volume_failures = await self._parts.image_volumes.fill(
                pod, observed, sandbox_id, stopping
            )
        if not (starting or actions.update or actions.resize_pod):
            if actions.reset:
                return True, none
            return acted, none
        context = StartContext(
            sandbox_id=sandbox_id,
            pod_ips=sorted_pod_ips(ips, self._node.host_ips)
            or (self._node.host_ips if pod.spec.hostNetwork else ()),
            view=self._node.view(),
            node=self._node.context(),
            engine=info,
            volume_failures=volume_failures,
            container_ids=_newest_ids(observed),
        )
        starts = await self._start(pod, observed, actions, context, stopping)
        failures = _Failures(tuple(starts.failures), self._config.error_backoff)
        return acted or starts.acted, failures

    # --- starting

    async def _start(
        self,
        pod: Pod,
        observed: ObservedPod,
        actions: PodActions,
        context: StartContext,
        stopping: asyncio.Event,
    ) -> _Starts:
        """Start ephemeral and init containers, resize, start regular ones (kubelet.md §6.4)."""
        starts = _Starts()

        async def start(names: tuple[str, ...]) -> None:
            for name in names:
                container = container_spec(pod, name)
                if container is None or stopping.is_set():
                    starts.aborted = True
                if container is None or starts.aborted:
                    return
                failure = await self._start_one(pod, container, observed, context, stopping)
                if failure is None:
                    starts.acted = True
                    continue
                starts.failures.append(failure)
                # The container may have been created before the start failed.
                starts.acted = starts.acted or failure.retry_in is None
                # Plain init containers run one after the other, so that nothing starts after a
                # failed one. Other containers do not depend on each other.
                starts.aborted = name in actions.start_init and not is_sidecar(container)

        # Before the init containers: a failed init container is what people debug.
        await start(actions.start_ephemeral)
        await start(actions.start_init)
        if (actions.update or actions.resize_pod) and not starts.aborted:
            await self._resize(pod, actions, context, starts)
        await start(actions.start)
        return starts

    async def _resize(
        self, pod: Pod, actions: PodActions, context: StartContext, starts: _Starts
    ) -> None:
        error = await self._resources.actuator.apply(pod, actions.update, context)
        self._engine.pleg.reinspect(pod.metadata.uid)
        starts.acted = True
        if error:
            starts.failures.append(StartFailure("ResizeError", error))
            self._resources.resizes.failed(pod, error)
        else:
            self._resources.resizes.done(pod)

    async def _start_one(
        self,
        pod: Pod,
        container: Container,
        observed: ObservedPod,
        context: StartContext,
        stopping: asyncio.Event,
    ) -> StartFailure | None:
        uid = pod.metadata.uid
        failure = self._delay_start_retry(pod, container, observed)
        if failure is not None:
            return failure
        # The container is created with these amounts, so that no resize is left to do for it.
        self._resources.allocations.actuate(pod, container)
        failure = await self._parts.starter.start(
            pod,
            container,
            context,
            # A container killed by a probe in this pass still runs in ``observed``. Back-off needs
            # the instance that ended last.
            newest=_last_ended(observed, container.name),
            restart_count=await self._next_count(pod, container.name, observed),
            stopping=stopping,
        )
        if failure is None:
            self._parts.starter.reasons.clear(uid, container.name)
            return None
        self._parts.starter.reasons.fail(uid, container.name, failure.reason, failure.message)
        _LOG.info("%s: %s: %s: %s", pod_ref(pod), container.name, failure.reason, failure.message)
        return failure

    async def _next_count(self, pod: Pod, container: str, observed: ObservedPod) -> int:
        """Return the restart count of the next instance (kubelet.md §6.5).

        It comes from the labels of existing instances or, if there are none, from the names of the
        log files. It is never less than the count shown before.
        """
        meta = pod.metadata
        shown = self._reporter.counts.next(meta.uid, container)
        if observed.newest(container) is not None:
            return shown
        logged = await self._parts.logs.next_count(meta.namespace, meta.name, meta.uid, container)
        return max(shown, logged)

    def _delay_start_retry(
        self, pod: Pod, container: Container, observed: ObservedPod
    ) -> StartFailure | None:
        """Delay the retry of a container that was created but could not be started.

        It is retried ``error_backoff`` seconds after its creation.
        """
        newest = observed.newest(container.name)
        reason = self._parts.starter.reasons.of(pod.metadata.uid).get(container.name)
        if reason is None or newest is None or newest.state is not ContainerState.CREATED:
            return None
        left = self._config.error_backoff - (self._clock.now() - newest.created_at).total_seconds()
        return StartFailure(*reason, retry_in=left) if left > 0 else None

    # --- stopping

    def _record_ends(self, pod: Pod, observed: ObservedPod, actions: PodActions) -> None:
        """Record why containers end when the whole pod is stopped.

        Containers in ``actions.kill`` have a reason of their own; a changed sandbox ends the newest
        instance of every container.
        """
        uid = pod.metadata.uid
        outputs = self._probe_outputs(pod, actions.kill)
        for container in actions.kill:
            kill = Kill(
                id=container.id, reason=container.reason, message=outputs.get(container.id, "")
            )
            self._records.statuses.record_kill(uid, container.name, kill)
        if not actions.create_sandbox:
            return
        for name in dict.fromkeys(container.name for container in observed.containers):
            newest = observed.newest(name)
            if newest is not None:
                kill = Kill(id=newest.id, reason=KillReason.SANDBOX_CHANGED)
                self._records.statuses.record_kill(uid, name, kill)

    def _probe_outputs(self, pod: Pod, kills: Iterable[ContainerToKill]) -> dict[str, str]:
        """Return the last output of the failed probe, by container id."""
        probes = {
            (container.name, kind.value): container.id
            for container in kills
            if (kind := _PROBES.get(container.reason)) is not None
        }
        if not probes:
            return {}
        return {
            probes[report.container, report.probe]: report.history[-1].output
            for report in self._parts.probes.reports(pod)
            if report.history and (report.container, report.probe) in probes
        }

    async def _purge_init(self, pod: Pod, observed: ObservedPod) -> None:
        names = {container.name for container in pod.spec.initContainers}
        await gather_all(
            partial(self._engine.runtime.remove_container, container.id)
            for container in observed.containers
            if container.name in names
        )

    async def _reset(self, pod: Pod, observed: ObservedPod, ids: tuple[str, ...]) -> None:
        """Remove the containers one by one, in the given order.

        An interrupted pass thus leaves the container that triggered the reset.
        """
        alive = {
            container.id: container for container in observed.containers if container.state in ALIVE
        }
        for container_id in ids:
            if container_id in alive:
                name = alive[container_id].name
                await self._parts.killer.kill_container(
                    pod,
                    container_id,
                    name,
                    reason=KillReason.RESTART_ALL,
                    message="killing",
                    grace=0.0,
                )
            await self._engine.runtime.remove_container(container_id)

    async def _trim(self, pod: Pod, observed: ObservedPod) -> None:
        """Keep one dead instance per container name (kubelet.md §14.6)."""
        unused = garbage((observed,), live=(observed.uid,))
        containers = dict.fromkeys((*unused.containers, *dead_init_containers(pod, observed)))
        await gather_all(
            partial(self._engine.runtime.remove_container, container_id)
            for container_id in containers
        )
        await gather_all(
            partial(self._engine.runtime.remove_sandbox, sandbox_id)
            for sandbox_id in unused.sandboxes
        )
        left = tuple(
            [container for container in observed.containers if container.id not in containers]
        )
        await self._parts.logs.record(replace(observed, containers=left))

    def restart(self, uid: str, ids: Iterable[str]) -> None:
        """Stop these containers in the next pass and start them again without back-off."""
        self._restarts.ask(uid, ids)
        self._parts.starter.forget(uid)

    # --- ending

    async def sync_terminating(
        self,
        pod: Pod,
        observed: ObservedPod | None,
        *,
        grace: int,
        decorate: Decorate | None,
        removing: Callable[[], bool],
    ) -> bool:
        uid = pod.metadata.uid
        if removing():
            self._records.statuses.mark_deleted(uid, grace)
        self._reporter.of_pass(pod, observed or self._reporter.observed(pod), decorate=decorate)
        await self._parts.logs.record(observed or self._reporter.observed(pod))
        # A probe must not kill a container that ends. Readiness counts until it has ended.
        self._parts.probes.stop(uid, readiness=False)
        try:
            await self._parts.killer.kill_containers(pod, observed, float(grace), KillReason.POD)
            # Asked again: during the stop, the manifest may have gone, or come back.
            remove = removing()
            if remove:
                await self._parts.killer.remove_sandboxes(observed)
            else:
                await self._parts.killer.stop_sandboxes(observed)
        except EngineUnavailable:
            raise
        except EngineError as error:
            self._records.events.pod(pod, WARNING, "FailedKillPod", f"error killing pod: {error}")
            raise
        self._parts.probes.stop(uid, readiness=True)
        if remove:
            return True
        # Only a new list proves that nothing runs: then the next version of the pod may start.
        await self._engine.pleg.refresh(uid)
        after = self._reporter.observed(pod)
        running = [c.name for c in after.containers if c.state is ContainerState.RUNNING]
        if running:
            raise StillRunning(f"containers still run after their stop: {', '.join(running)}")
        self._reporter.of_pass(pod, after, terminal=True, decorate=decorate)
        return False

    async def sync_terminated(
        self,
        pod: Pod,
        observed: ObservedPod | None,
        *,
        decorate: Decorate | None,
        remove: bool,
    ) -> None:
        uid = pod.metadata.uid
        # The record of a removed static pod is removed, too. That of an API pod stays until the API
        # removes it, and shows how the pod ended.
        if not (remove and is_static(pod)):
            self._reporter.ended(pod, decorate=decorate)
        if remove:
            await self._parts.killer.remove_sandboxes(await self._left_over(uid))
        # Containers that have ended mount nothing. A kubelet waits for this, too.
        await self._parts.volumes.unmount(uid)
        if remove:
            await self._engine.runtime.remove_pod_data(uid)
            await self._parts.logs.remove(pod.metadata.namespace, pod.metadata.name, uid)
            self.forget(uid)
            _LOG.debug("nothing is left of pod %s", uid)
        if remove and is_static(pod):
            self._records.statuses.remove(uid)
        else:
            self._records.statuses.mark_ended(uid)

    async def _left_over(self, uid: str) -> ObservedPod | None:
        """Return what a new list shows of the pod, including objects made by a cancelled call."""
        await self._engine.pleg.refresh(uid)
        return self._engine.cache.get(uid)

    def forget(self, uid: str) -> None:
        """Drop everything remembered of a pod that was removed completely."""
        self._engine.pleg.forget(uid)
        self._reporter.counts.forget(uid)
        self._warned.discard(uid)
        self.forget_run(uid)

    def forget_run(self, uid: str) -> None:
        """Drop the back-offs and reasons of the pod's earlier run; keep its restart counts."""
        self._parts.starter.reasons.forget(uid)
        self._parts.starter.forget(uid)
        self._parts.volumes.forget(uid)
        self._parts.claims.forget(uid)
        self._restarts.forget(uid)


def _last_ended(observed: ObservedPod, name: str) -> ObservedContainer | None:
    ended = (c for c in observed.containers if c.state is ContainerState.EXITED)
    return next((c for c in ended if c.name == name), None)


def _ips_of(observed: ObservedPod, sandbox_id: str) -> tuple[str, ...]:
    return next((box.ips for box in observed.sandboxes if box.id == sandbox_id), ())


def _newest_ids(observed: ObservedPod) -> dict[str, str]:
    """Return the id of the newest instance by container name."""
    return {container.name: container.id for container in reversed(observed.containers)}


_MOUNTED: Final = ("hostPath", "nfs", "csi", "persistentVolumeClaim", "ephemeral")
"""Volumes that the engine's machine or a CSI driver mounts, or claims of them."""


def unsupported(pod: Pod, *, stop_signals: bool = False) -> tuple[tuple[str, str], ...]:
    """Return (reason, message) of Warning events on requested features that are not supported.

    ``stop_signals``: the gate is on.
    """
    warnings: list[tuple[str, str]] = []
    for _, container in () if stop_signals else all_containers(pod):
        if stop_signal(container):
            text = f"lifecycle.stopSignal of container {container.name} has no effect"
            text += f": the feature gate {STOP_SIGNALS} is off"
            warnings.append(("NotSupported", text))
    for volume in used_volumes(pod):
        kind = volume_type(volume)
        if kind not in (*_MOUNTED, *OWN_DIRECTORY):
            text = f'volumes of type {kind} are not supported: the pod waits for "{volume.name}"'
            warnings.append(("NotSupported", text))
    return tuple(warnings)
