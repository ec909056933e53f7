"""The three passes of a pod's life, carried out (reference §4, 6.4): decisions are made elsewhere.

Level-triggered: every pass looks at what is wanted and what is observed, and may run at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from podtui.api.insight import StepKind
from podtui.api.pods import is_sidecar, pod_ref
from podtui.api.v1 import Container, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, PodtuiError
from podtui.kubelet.actions import compute_pod_actions
from podtui.kubelet.allocations import Allocations
from podtui.kubelet.config import STOP_SIGNALS, KubeletConfig
from podtui.kubelet.config_error import ConfigError
from podtui.kubelet.container_gc import dead_init_containers, garbage
from podtui.kubelet.events import NORMAL, WARNING, EventRecorder
from podtui.kubelet.hooks import Hooks
from podtui.kubelet.image_volumes import ImageVolumes, VolumeFailure
from podtui.kubelet.killer import ALIVE, Killer, container_spec
from podtui.kubelet.link import EngineLink
from podtui.kubelet.log_files import LogFiles
from podtui.kubelet.node import NodeManager
from podtui.kubelet.phase import TERMINAL
from podtui.kubelet.pleg import Pleg
from podtui.kubelet.pod_cache import PodCache
from podtui.kubelet.pod_ips import sorted_pod_ips
from podtui.kubelet.pod_workers import Decorate, SyncOutcome
from podtui.kubelet.probing import Probes
from podtui.kubelet.reasons import ReasonCache
from podtui.kubelet.resize_actuator import ResizeActuator
from podtui.kubelet.resizes import Resizes
from podtui.kubelet.resolver import Resolvers
from podtui.kubelet.restart_counts import RestartCounts
from podtui.kubelet.sandbox_config import sandbox_config
from podtui.kubelet.starter import ContainerStarter, Place, StartFailure
from podtui.kubelet.status import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    deadline,
    merge_readiness,
    past_deadline,
    pod_status,
    sandbox_made,
    terminated_status,
)
from podtui.kubelet.status_manager import StatusManager
from podtui.kubelet.timelines import Timelines
from podtui.kubelet.together import together
from podtui.kubelet.types import ObservedContainer, ObservedPod, PodActions
from podtui.kubelet.unsupported import not_done
from podtui.kubelet.volume_manager import VolumeManager
from podtui.runtime.protocol import ContainerState, EngineInfo, Runtime, SandboxStatus

_LOG = logging.getLogger(__name__)


class StillRunning(PodtuiError):
    """Raised when a container outlives the stop of its pod."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """What went wrong in one pass, as the worker's back-off wants it."""

    found: tuple[StartFailure, ...]
    default: float

    @property
    def retry_in(self) -> float | None:
        if not self.found:
            return None
        waits = [self.default if f.retry_in is None else f.retry_in for f in self.found]
        return min(waits)


@dataclass(slots=True)
class _Starts:
    """What came of the steps of one pass; ``aborted``: those that are left are not for this one."""

    acted: bool = False
    aborted: bool = False
    failures: list[StartFailure] = field(default_factory=list[StartFailure])


class Syncer:
    """Implements `podtui.kubelet.pod_workers.PodSyncer`."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        starter: ContainerStarter,
        killer: Killer,
        statuses: StatusManager,
        reasons: ReasonCache,
        events: EventRecorder,
        pleg: Pleg,
        cache: PodCache,
        node: NodeManager,
        link: EngineLink,
        resolvers: Resolvers,
        probes: Probes,
        hooks: Hooks,
        volumes: VolumeManager,
        image_volumes: ImageVolumes,
        allocations: Allocations,
        resizes: Resizes,
        timelines: Timelines,
        logs: LogFiles,
        clock: Clock,
        config: KubeletConfig,
        on_gone: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._starter = starter
        self._killer = killer
        self._statuses = statuses
        self._reasons = reasons
        self._events = events
        self._pleg = pleg
        self._cache = cache
        self._node = node
        self._link = link
        self._resolvers = resolvers
        self._probes = probes
        self._hooks = hooks
        self._volumes = volumes
        self._image_volumes = image_volumes
        self._allocations = allocations
        self._resizes = resizes
        self._timelines = timelines
        self._logs = logs
        self._actuator = ResizeActuator(runtime, allocations, config)
        self._clock = clock
        self._config = config
        self._on_gone = on_gone
        self._counts = RestartCounts()
        self._told: set[str] = set()

    # --- status

    def publish(self, pod: Pod) -> None:
        self._set_status(pod, self._observed(pod))

    def cannot_observe(self, pod: Pod, error: EngineError) -> None:
        self._events.pod(pod, WARNING, "FailedSync", f"error determining status: {error}")

    def waiting_for_name(self, pod: Pod) -> None:
        if self._statuses.get(pod.metadata.uid) is None:
            self._statuses.set(pod, pod.status)

    def _observed(self, pod: Pod) -> ObservedPod:
        meta = pod.metadata
        observed = self._cache.get(meta.uid)
        return observed or ObservedPod(uid=meta.uid, name=meta.name, namespace=meta.namespace)

    def _set_status(
        self,
        pod: Pod,
        observed: ObservedPod,
        *,
        terminal: bool = False,
        decorate: Decorate | None = None,
    ) -> PodStatus:
        uid = pod.metadata.uid
        self._counts.observe(observed)
        status = pod_status(
            self._allocations.allocated(pod),
            observed,
            self._probes.view(pod, observed),
            now=self._clock.now(),
            previous=self._statuses.get(uid),
            waiting=self._reasons.of(uid),
            host_ips=self._node.host_ips,
            runtime_name=self._runtime_name,
            recursive_read_only=self._link.info is not None and self._link.info.recursive_read_only,
            terminal=terminal,
            strict=self._config.strict,
            stop_signals=self._config.gate(STOP_SIGNALS),
            resize=self._resizes.conditions(uid, terminal=terminal),
            actuated=self._allocations.actuated(uid),
        )
        status = self._counts.show(uid, status, seed=self._seed_status(uid))
        if decorate is not None:
            status = decorate(status)
        self._statuses.set(pod, status)
        self._timelines.observed(pod, observed)
        self._timelines.shown(pod, status)
        return status

    def show_readiness(self, pod: Pod, container_id: str, *, ready: bool) -> None:
        """A readiness result shows at once, without a pass (reference §7.3)."""
        status = self._statuses.get(pod.metadata.uid)
        if status is not None:
            name = f"{self._runtime_name}://{container_id}"
            merged = merge_readiness(pod, status, name, ready=ready, now=self._clock.now())
            self._statuses.set(pod, merged)
            self._timelines.shown(pod, merged)

    @property
    def _runtime_name(self) -> str:
        return self._link.info.name if self._link.info else "docker"

    def _tell_sandbox(self, pod: Pod) -> None:
        """The sandbox is there; what else is new of the pod is for the next pass to tell."""
        status = self._statuses.get(pod.metadata.uid)
        if status is not None:
            self._statuses.set(pod, sandbox_made(status, self._clock.now()))

    def _pass_status(
        self,
        pod: Pod,
        observed: ObservedPod,
        *,
        terminal: bool = False,
        decorate: Decorate | None = None,
    ) -> PodStatus:
        """`_set_status` of a pass; each one says it when the pod has outlived its deadline."""
        if past_deadline(pod, self._statuses.get(pod.metadata.uid), self._clock.now()):
            self._events.pod(pod, NORMAL, DEADLINE_REASON, DEADLINE_MESSAGE)
        return self._set_status(pod, observed, terminal=terminal, decorate=decorate)

    # --- running

    async def sync_pod(
        self, pod: Pod, observed: ObservedPod | None, stopping: asyncio.Event
    ) -> SyncOutcome:
        observed = observed or self._observed(pod)
        self._resizes.look(self._allocations.allocated(pod), observed)
        status = self._pass_status(pod, observed)
        if status.phase in TERMINAL:
            return SyncOutcome(terminal=True)
        # What runs has what the pod was allocated, whatever its manifest asks for by now.
        pod = self._allocations.allocated(pod)
        self._tell_unsupported(pod)
        self._starter.tell_missing_secrets(pod)
        self._timelines.began(pod, StepKind.VOLUMES)
        volumes = await self._volumes.set_up(pod, self._node.view())
        if not volumes.ready:
            return SyncOutcome(
                retry_in=self._config.error_backoff if volumes.foreign else None,
                deadline_in=self._due_in(pod, status),
            )
        self._timelines.ended(pod, StepKind.VOLUMES)
        self._probes.start(pod)
        actions = compute_pod_actions(
            pod,
            observed,
            probes=self._probes.view(pod, observed),
            actuated=self._allocations.actuated(pod.metadata.uid),
        )
        acted, failures = await self._carry_out(pod, observed, actions, stopping)
        return SyncOutcome(
            acted=acted, retry_in=failures.retry_in, deadline_in=self._due_in(pod, status)
        )

    def _due_in(self, pod: Pod, status: PodStatus) -> float | None:
        """Seconds until the pod's deadline, or until a volume is to be tried again."""
        moment = deadline(pod, status)
        ends = None if moment is None else (moment - self._clock.now()).total_seconds()
        found = [due for due in (ends, self._volumes.next_try(pod.metadata.uid)) if due is not None]
        return min(found, default=None)

    def _seed_status(self, uid: str) -> PodStatus | None:
        seed = self._statuses.seed(uid)
        return None if seed is None else seed.status

    def _tell_unsupported(self, pod: Pod) -> None:
        if pod.metadata.uid not in self._told:
            self._told.add(pod.metadata.uid)
            said = not_done(
                pod,
                probes=self._probes,
                hooks=self._hooks,
                stop_signals=self._config.gate(STOP_SIGNALS),
            )
            for reason, message in said:
                self._events.pod(pod, WARNING, reason, message)

    async def _carry_out(
        self, pod: Pod, observed: ObservedPod, actions: PodActions, stopping: asyncio.Event
    ) -> tuple[bool, _Failures]:
        acted = False
        none = _Failures((), self._config.error_backoff)
        if actions.kill_pod:
            acted = bool(observed.sandboxes or observed.containers)
            if actions.create_sandbox and observed.sandboxes:
                text = "Pod sandbox changed, it will be killed and re-created."
                self._events.pod(pod, NORMAL, "SandboxChanged", text)
            await self._killer.kill_containers(pod, observed, None)
            await self._killer.stop_sandboxes(observed)
            if actions.purge_init:
                await self._purge_init(pod, observed)
            if not actions.create_sandbox:
                return acted, none
        else:
            acted = bool(actions.kill or actions.reset)
            await self._killer.kill_unwanted(pod, actions.kill)
            await self._reset(pod, observed, actions.reset)
        await self._trim(pod, observed)
        if stopping.is_set():
            return acted, none
        info = self._link.info
        if info is None:
            raise EngineUnavailable(self._link.error)
        sandbox_id, ips = actions.sandbox_id, _ips_of(observed, actions.sandbox_id)
        if actions.create_sandbox:
            self._timelines.began(pod, StepKind.SANDBOX)
            made = await self._create_sandbox(pod, actions.attempt, info)
            if isinstance(made, StartFailure):
                self._timelines.ended(pod, StepKind.SANDBOX, failed=True, note=made.reason)
                return True, _Failures((made,), self._config.error_backoff)
            self._timelines.ended(pod, StepKind.SANDBOX)
            sandbox_id, ips, acted = made.record.id, made.ips, True
            self._tell_sandbox(pod)
        if self._config.strict:
            # A kubelet makes the sandbox's configuration anew in each pass, with its events.
            try:
                await self._resolvers.resolver_of(pod, info)
            except ConfigError as error:
                failure = StartFailure("ConfigPodSandboxError", str(error))
                return acted, _Failures((failure,), self._config.error_backoff)
        await self._volumes.refresh(pod, sandbox_id)
        starting = bool(actions.start_ephemeral or actions.start_init or actions.start)
        filled: Mapping[str, VolumeFailure] = {}
        # A kubelet asks for the images of volumes in every pass, needed or not.
        if starting or self._config.strict:
            filled = await self._image_volumes.fill(pod, observed, sandbox_id, stopping)
        if not (starting or actions.update or actions.resize_pod):
            if actions.reset:
                return True, none
            return acted, none
        place = Place(
            sandbox_id=sandbox_id,
            pod_ips=sorted_pod_ips(ips, self._node.host_ips)
            or (self._node.host_ips if pod.spec.hostNetwork else ()),
            host_ips=self._node.host_ips,
            node=self._node.view(),
            engine=info,
            volume_failures=filled,
            container_ids=_newest_ids(observed),
        )
        started, found = await self._start_all(pod, observed, actions, place, stopping)
        return acted or started, _Failures(tuple(found), self._config.error_backoff)

    async def _purge_init(self, pod: Pod, observed: ObservedPod) -> None:
        names = {container.name for container in pod.spec.initContainers}
        await together(
            partial(self._runtime.remove_container, container.id)
            for container in observed.containers
            if container.name in names
        )

    async def _reset(self, pod: Pod, observed: ObservedPod, ids: tuple[str, ...]) -> None:
        """One after the other, so that a pass cut short leaves the container that asked for it."""
        alive = {one.id: one for one in observed.containers if one.state in ALIVE}
        for container_id in ids:
            if container_id in alive:
                name = alive[container_id].name
                await self._killer.kill_container(
                    pod, container_id, name, message="killing", grace=0.0
                )
            await self._runtime.remove_container(container_id)

    async def _trim(self, pod: Pod, observed: ObservedPod) -> None:
        """Keep one dead instance per container name (reference §14.6)."""
        found = garbage((observed,), live=(observed.uid,))
        containers = dict.fromkeys((*found.containers, *dead_init_containers(pod, observed)))
        await together(partial(self._runtime.remove_container, one) for one in containers)
        await together(partial(self._runtime.remove_sandbox, one) for one in found.sandboxes)
        left = tuple([one for one in observed.containers if one.id not in containers])
        await self._logs.record(replace(observed, containers=left))

    async def _create_sandbox(
        self, pod: Pod, attempt: int, engine: EngineInfo
    ) -> SandboxStatus | StartFailure:
        try:
            config = sandbox_config(
                pod,
                attempt=attempt,
                dns=await self._resolvers.resolver_of(pod, engine),
                cluster_domain=self._config.cluster_domain,
                volumes=self._volumes.directories(pod.metadata.uid),
            )
            started = await self._runtime.run_sandbox(config)
        except EngineUnavailable:
            raise
        except (EngineError, ConfigError) as error:
            text = f"Failed to create pod sandbox: {error}"
            self._events.pod(pod, WARNING, "FailedCreatePodSandBox", text)
            return StartFailure("CreatePodSandboxError", str(error))
        if started.warnings:
            self._events.pod(pod, WARNING, "Degraded", "; ".join(started.warnings))
        try:
            status = await self._runtime.sandbox_status(started.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            text = f"Unable to get pod sandbox status: {error}"
            self._events.pod(pod, WARNING, "FailedPodSandBoxStatus", text)
            return StartFailure("FailedPodSandBoxStatus", str(error))
        self._pleg.note_sandbox(status)
        if attempt == 0:
            self._volumes.made(pod.metadata.uid, started.id)
        return status

    async def _start_all(
        self,
        pod: Pod,
        observed: ObservedPod,
        actions: PodActions,
        place: Place,
        stopping: asyncio.Event,
    ) -> tuple[bool, list[StartFailure]]:
        """Ephemeral containers, init containers, resizes, regular containers (reference §6.4)."""
        starts = _Starts()

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
                # A container object may have been made on the way to the failure.
                starts.acted = starts.acted or failure.retry_in is None
                starts.aborted = name in actions.start_init and not is_sidecar(container)

        await start(actions.start_ephemeral)
        await start(actions.start_init)
        if (actions.update or actions.resize_pod) and not starts.aborted:
            await self._resize(pod, actions, place, starts)
        await start(actions.start)
        return starts.acted, starts.failures

    async def _resize(self, pod: Pod, actions: PodActions, place: Place, starts: _Starts) -> None:
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
            # One that a probe killed in this pass still runs as observed: the back-off is about
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
        """What the labels of its instances say, where there is none the names of its log files
        (reference §6.5); never less than was shown before."""
        meta = pod.metadata
        known = self._counts.next(meta.uid, container)
        if observed.newest(container) is not None:
            return known
        logged = await self._logs.next_count(meta.namespace, meta.name, meta.uid, container)
        return max(known, logged)

    def _stuck(self, pod: Pod, container: Container, observed: ObservedPod) -> StartFailure | None:
        """A container that could be made but not started is tried again at the worker's pace."""
        newest = observed.newest(container.name)
        reason = self._reasons.of(pod.metadata.uid).get(container.name)
        if reason is None or newest is None or newest.state is not ContainerState.CREATED:
            return None
        left = self._config.error_backoff - (self._clock.now() - newest.created_at).total_seconds()
        return StartFailure(*reason, retry_in=left) if left > 0 else None

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
            self._statuses.mark_deleted(uid, grace)
        self._pass_status(pod, observed or self._observed(pod), decorate=decorate)
        await self._logs.record(observed or self._observed(pod))
        self._probes.stop(uid, readiness=False)
        try:
            await self._killer.kill_containers(pod, observed, float(grace))
            remove = removing()
            if remove:
                await self._killer.remove_sandboxes(observed)
            else:
                await self._killer.stop_sandboxes(observed)
        except EngineUnavailable:
            raise
        except EngineError as error:
            self._events.pod(pod, WARNING, "FailedKillPod", f"error killing pod: {error}")
            raise
        self._probes.stop(uid, readiness=True)
        if remove:
            return True
        await self._pleg.refresh(uid)
        after = self._observed(pod)
        running = [c.name for c in after.containers if c.state is ContainerState.RUNNING]
        if running:
            raise StillRunning(f"containers still run after their stop: {', '.join(running)}")
        self._pass_status(pod, after, terminal=True, decorate=decorate)
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
        if remove:
            await self._killer.remove_sandboxes(await self._left_over(uid))
            await self._runtime.remove_pod_data(uid)
            await self._logs.remove(pod.metadata.namespace, pod.metadata.name, uid)
            self.forget(uid)
            self._statuses.remove(uid)
            self._on_gone(uid)
            return
        status = self._pass_status(pod, self._observed(pod), terminal=True, decorate=decorate)
        self._statuses.set(pod, terminated_status(pod, status))

    async def _left_over(self, uid: str) -> ObservedPod | None:
        """What a list still shows of the pod; that includes what a cancelled call has made."""
        await self._pleg.refresh(uid)
        return self._cache.get(uid)

    def forget(self, uid: str) -> None:
        """Nothing of the pod is left, or it begins anew with what is left of it."""
        self._pleg.forget(uid)
        self._counts.forget(uid)
        self._told.discard(uid)
        self.begin_anew(uid)

    def begin_anew(self, uid: str) -> None:
        """Back-offs and reasons of an earlier life don't count; restart counts do."""
        self._reasons.forget(uid)
        self._starter.forget(uid)
        self._volumes.forget(uid)

    def collect(self) -> None:
        """Let go of back-offs that have run out."""
        self._starter.collect()


def _ips_of(observed: ObservedPod, sandbox_id: str) -> tuple[str, ...]:
    return next((box.ips for box in observed.sandboxes if box.id == sandbox_id), ())


def _newest_ids(observed: ObservedPod) -> dict[str, str]:
    """By container name."""
    return {one.name: one.id for one in reversed(observed.containers)}


def _last_ended(observed: ObservedPod, name: str) -> ObservedContainer | None:
    ended = (c for c in observed.containers if c.state is ContainerState.EXITED)
    return next((c for c in ended if c.name == name), None)
