"""Resizes of running pods: start, defer, retry and report them (kubelet.md §13.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from msgspec import structs

from podtui.api.pod_resources import GUARANTEED, pod_requests, qos_class
from podtui.api.pods import pod_ref
from podtui.api.times import rfc3339
from podtui.api.v1 import Container, Pod, PodCondition
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.cgroups import cgroup_rules, container_resources
from podtui.kubelet.containers.starter import StartContext
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder
from podtui.kubelet.resize.allocations import Allocations, allocated_pod, requests_resize
from podtui.kubelet.resize.plan import (
    COMPLETED,
    FAILED,
    STARTED,
    amounts_to_update,
    container_amounts,
    lowers_memory,
    memory_problem,
    requirements,
    resize_in_progress,
    resize_message,
)
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers
from podtui.kubelet.types import AdmitResult, ContainerAmounts, ContainerUpdate, ObservedPod
from podtui.runtime.protocol import ContainerState, Resources, Runtime

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
ERROR: Final = "Error"
_LOG = logging.getLogger(__name__)
RETRY_PERIOD: Final = 180.0
"""Seconds between retries of deferred resizes, if nothing triggers one earlier."""
UNLIMITED: Final = -1


class ResizeAdmission(Protocol):
    """Decides whether the node accepts a pod."""

    async def fits_resize(self, pod: Pod) -> AdmitResult:
        """Check whether the pod fits. Other pods may have been ended for it before this returns."""
        ...

    def mark_admitted(self, pod: Pod) -> None: ...


class Resizes:
    """Compares the resources in manifests with the allocated ones, and applies the difference.
    ``find`` returns a pod by UID; ``wake`` wakes the worker of a pod."""

    def __init__(
        self,
        *,
        allocations: Allocations,
        admission: ResizeAdmission,
        find: Callable[[str], Pod | None],
        wake: Callable[[str], None],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._allocations = allocations
        self._admission = admission
        self._find = find
        self._wake = wake
        self._events = events
        self._conditions = ResizeConditions(clock)
        self._pending: list[str] = []
        self._lock = asyncio.Lock()
        self._soon = asyncio.Event()

    # --- changes of manifests

    async def updated(self, old: Pod | None, new: Pod) -> None:
        """Start a resize if the manifest of a running pod changes its resources, or cancel a
        pending one if the change is taken back."""
        if old is not None and not requests_resize(old, new):
            return
        if self._allocations.allocated(new) is new:
            self._conditions.clear_pending(new.metadata.uid)
            return
        await self.ask(new)

    async def ask(self, pod: Pod) -> None:
        """Try the resize of the pod, and all pending ones."""
        if pod.metadata.uid not in self._pending:
            self._pending.append(pod.metadata.uid)
        await self.retry()

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that is gone."""
        self._conditions.forget(uid)

    # --- pending resizes

    def retry_soon(self) -> None:
        """Trigger a retry of the pending resizes: resources may have been freed."""
        if self._pending:
            self._soon.set()

    async def run(self) -> None:
        """Retry deferred resizes. Runs forever."""
        while True:
            try:
                async with asyncio.timeout(RETRY_PERIOD):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            await self.retry()

    async def retry(self) -> None:
        """Try all pending resizes: first those that do not increase requests, then by priority and
        QoS class, then those that have waited longest."""
        # One after the other: two resizes that each fit may not fit together.
        async with self._lock:
            pending = [pod for uid in self._pending if (pod := self._find(uid)) is not None]
            pending.sort(key=self._rank)
            # `_try` queues again what is deferred; after an error, what was not tried must not be
            # lost.
            self._pending = []
            for index, pod in enumerate(pending):
                try:
                    await self._try(pod)
                except Exception:
                    self._pending += [left.metadata.uid for left in pending[index:]]
                    raise

    def _rank(self, pod: Pod) -> tuple[bool, int, bool, bool, str]:
        since = self._conditions.pending_since(pod.metadata.uid)
        return (
            self._is_increase(pod),
            -(pod.spec.priority or 0),
            qos_class(pod) != GUARANTEED,
            not since,
            since,
        )

    def _is_increase(self, pod: Pod) -> bool:
        new, old = pod_requests(pod), pod_requests(self._allocations.allocated(pod))
        return any(new.get(name, 0) > old.get(name, 0) for name in ("cpu", "memory"))

    async def _try(self, pod: Pod) -> None:
        uid, generation = pod.metadata.uid, pod.metadata.generation or 0
        if self._allocations.allocated(pod) is pod:
            self._conditions.clear_pending(uid)
            return
        verdict = await self._admission.fits_resize(pod)
        if verdict.admitted:
            self._allocations.allocate(pod)
            self._admission.mark_admitted(pod)
            self._conditions.clear_pending(uid)
            # Cleared before it is set: otherwise it would keep the generation of the resize before.
            self._conditions.clear_in_progress(uid)
            self._conditions.set_in_progress(uid, generation)
            message = resize_message(STARTED, pod, generation=generation)
            self._events.pod(pod, NORMAL, "ResizeStarted", message)
        else:
            self._defer(pod, verdict, generation)
        self._wake(uid)

    def _defer(self, pod: Pod, verdict: AdmitResult, generation: int) -> None:
        infeasible = verdict.reason == INFEASIBLE
        # An infeasible one is not tried again: the end of other pods does not help it.
        if not infeasible:
            self._pending.append(pod.metadata.uid)
        _LOG.info("%s is not resized: %s", pod_ref(pod), verdict.message)
        if self._conditions.set_pending(
            pod.metadata.uid, verdict.reason, verdict.message, generation
        ):
            message = resize_message(
                f"Pod resize {verdict.reason}", pod, generation=generation, error=verdict.message
            )
            reason = "ResizeInfeasible" if infeasible else "ResizeDeferred"
            self._events.pod(pod, WARNING, reason, message)

    # --- running resizes

    def observe(self, pod: Pod, observed: ObservedPod) -> None:
        """Update the progress of the pod's resize from the observed containers; ``pod`` has the
        allocated resources."""
        uid = pod.metadata.uid
        running = [
            container
            for container in (*pod.spec.initContainers, *pod.spec.containers)
            if (newest := observed.newest(container.name)) is not None
            and newest.state is ContainerState.RUNNING
        ]
        self._allocations.adopt(pod, running)
        if resize_in_progress(pod, observed, self._allocations.actuated(uid)):
            self._conditions.set_in_progress(uid, pod.metadata.generation or 0)
            return
        generation = self._conditions.clear_in_progress(uid)
        if generation is not None:
            message = resize_message(COMPLETED, pod, generation=generation)
            self._events.pod(pod, NORMAL, "ResizeCompleted", message)

    def done(self, pod: Pod) -> None:
        """Note that the engine applied an update; the next sync checks whether the resize is
        complete."""
        self._wake(pod.metadata.uid)

    def failed(self, pod: Pod, error: str) -> None:
        """Record that the engine failed to apply the allocated resources."""
        generation, is_new = self._conditions.set_in_progress(
            pod.metadata.uid, pod.metadata.generation or 0, reason=ERROR, message=error
        )
        if is_new:
            message = resize_message(FAILED, pod, generation=generation, error=error)
            self._events.pod(pod, WARNING, "ResizeError", message)

    def conditions(self, uid: str, *, terminal: bool = False) -> tuple[PodCondition, ...]:
        """Return the resize conditions for the pod's status; none once the pod has ended."""
        if terminal:
            self._conditions.forget(uid)
        return self._conditions.of(uid)

    def restore(self, pods: Iterable[Pod]) -> None:
        """Queue a resize for each pod whose allocation differs from its current manifest."""
        for pod in pods:
            uid = pod.metadata.uid
            if self._allocations.allocated(pod) is not pod and uid not in self._pending:
                self._pending.append(uid)
        self.retry_soon()


# --- conditions


@dataclass(frozen=True, slots=True)
class _Conditions:
    pending: PodCondition | None = None
    in_progress: PodCondition | None = None


class ResizeConditions:
    """The resize conditions by pod UID. ``generation`` is the pod's; 0 for a pod from a file."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Conditions] = {}

    def of(self, uid: str) -> tuple[PodCondition, ...]:
        conditions = self._known.get(uid, _Conditions())
        return tuple(
            condition
            for condition in (conditions.pending, conditions.in_progress)
            if condition is not None
        )

    def pending_since(self, uid: str) -> str:
        """Return when the resize became pending; empty if none is pending."""
        pending = self._known.get(uid, _Conditions()).pending
        return "" if pending is None else pending.lastTransitionTime or ""

    def set_pending(self, uid: str, reason: str, message: str, generation: int) -> bool:
        """Set the condition and return whether it changed. Every reason except ``Infeasible``
        becomes ``Deferred``."""
        conditions = self._known.get(uid, _Conditions())
        reason = reason if reason == INFEASIBLE else DEFERRED
        fresh = self._condition(PENDING, conditions.pending, reason, message, generation)
        self._known[uid] = replace(conditions, pending=fresh)
        old = conditions.pending
        # The message is not compared: the amounts in it may differ at each retry.
        return old is None or (old.reason, old.observedGeneration) != (
            reason,
            fresh.observedGeneration,
        )

    def set_in_progress(
        self, uid: str, generation: int, *, reason: str = "", message: str = ""
    ) -> tuple[int, bool]:
        """Set the condition. Return the generation that it refers to and whether it changed.
        Without a reason and message, the existing ones are kept."""
        conditions = self._known.get(uid, _Conditions())
        old = conditions.in_progress
        if old is not None:
            generation = old.observedGeneration or 0
            if not reason and not message:
                reason, message = old.reason, old.message
        fresh = self._condition(IN_PROGRESS, old, reason, message, generation)
        self._known[uid] = replace(conditions, in_progress=fresh)
        return generation, old is None or (old.reason, old.message) != (reason, message)

    def clear_pending(self, uid: str) -> None:
        if uid in self._known:
            self._known[uid] = replace(self._known[uid], pending=None)

    def clear_in_progress(self, uid: str) -> int | None:
        """Remove the condition. Return the generation that it referred to; None if there was
        none."""
        conditions = self._known.get(uid)
        if conditions is None or conditions.in_progress is None:
            return None
        self._known[uid] = replace(conditions, in_progress=None)
        return conditions.in_progress.observedGeneration or 0

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def _condition(
        self, kind: str, old: PodCondition | None, reason: str, message: str, generation: int
    ) -> PodCondition:
        now = rfc3339(self._clock.now())
        fresh = PodCondition(
            type=kind,
            status="True",
            reason=reason,
            message=message,
            lastProbeTime=now,
            lastTransitionTime=now,
            observedGeneration=generation or None,
        )
        if old is not None and old.reason == reason:
            fresh = structs.replace(fresh, lastTransitionTime=old.lastTransitionTime)
        return fresh


# --- engine calls


class ResizeActuator:
    def __init__(
        self,
        runtime: Runtime,
        allocations: Allocations,
        managers: ResourceManagers,
        config: KubeletConfig,
    ) -> None:
        self._runtime = runtime
        self._allocations = allocations
        self._managers = managers
        self._config = config

    async def apply(
        self, pod: Pod, updates: Sequence[ContainerUpdate], context: StartContext
    ) -> str:
        """Apply the updates. Return the error message, empty on success; ``pod`` has the allocated
        resources. Updates before a failure stay applied. Raises `EngineUnavailable`."""
        try:
            problem = await self._memory_problem(pod, updates, context)
            if problem:
                return problem
            for update in updates:
                await self._update(pod, update, context)
        except EngineUnavailable:
            raise
        except EngineError as error:
            return str(error)
        self._allocations.actuate_pod(pod)
        return ""

    async def _memory_problem(
        self, pod: Pod, updates: Sequence[ContainerUpdate], context: StartContext
    ) -> str:
        held = self._with_applied(pod)
        # Below what it uses, the kernel would kill the container. The usage is asked for only then,
        # because that is expensive.
        if not lowers_memory(pod, held, updates):
            return ""
        stats = await self._runtime.stats(context.container_ids.values())
        usage = {
            name: stats[identity].memory
            for name, identity in context.container_ids.items()
            if identity in stats
        }
        return memory_problem(pod, held, updates, usage)

    def _with_applied(self, pod: Pod) -> Pod:
        """Return the pod with the resources last applied through the engine."""
        return allocated_pod(pod, self._allocations.actuated(pod.metadata.uid))

    async def _update(self, pod: Pod, update: ContainerUpdate, context: StartContext) -> None:
        held = self._with_applied(pod)
        current = container_amounts(held, _container(held, update.name))
        amounts = amounts_to_update(update, current)
        container = structs.replace(_container(pod, update.name), resources=requirements(amounts))
        rules = cgroup_rules(self._config, lower_oom=context.engine.supports_lower_oom_score)
        resources = container_resources(
            pod, container, context.view.resources, rules, self._managers.placement(pod, container)
        )
        await self._runtime.update_container(update.id, _with_unlimited(resources, current))
        self._allocations.actuate(pod, container)


def _with_unlimited(resources: Resources, current: ContainerAmounts) -> Resources:
    """Set removed limits to "unlimited" explicitly: the engine keeps the old value of an absent
    field."""
    return replace(
        resources,
        memory=resources.memory or (UNLIMITED if current.memory_limit else 0),
        cpu_quota=resources.cpu_quota or (UNLIMITED if current.cpu_limit else 0),
    )


def _container(pod: Pod, name: str) -> Container:
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    return next(container for container in containers if container.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """The resources of pods: what they hold, and how that changes."""

    allocations: Allocations
    resizes: Resizes
    actuator: ResizeActuator
