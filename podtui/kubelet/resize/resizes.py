"""Resizes of running pods: start, defer, retry and report them (reference §13.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod, PodCondition
from podtui.clock import Clock
from podtui.kubelet.base.qos import GUARANTEED, qos_class
from podtui.kubelet.base.resources import pod_requests
from podtui.kubelet.base.types import ObservedPod, Verdict
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder
from podtui.kubelet.resize.allocation import asks_for_resize
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resize import (
    COMPLETED,
    FAILED,
    STARTED,
    resize_in_progress,
    resize_message,
)
from podtui.kubelet.resize.resize_conditions import ERROR, INFEASIBLE, ResizeConditions
from podtui.runtime.protocol import ContainerState

_LOG = logging.getLogger(__name__)
RETRY_PERIOD: Final = 180.0
"""Seconds between retries of deferred resizes, if nothing triggers one earlier."""


class Judge(Protocol):
    """Decides whether the node accepts a pod."""

    async def fits(self, pod: Pod) -> Verdict:
        """Check whether the pod fits. Other pods may have been ended for it before this returns."""
        ...

    def let_in(self, pod: Pod) -> None: ...


class Resizes:
    """Compares the resources in manifests with the allocated ones, and applies the difference.
    ``find`` returns a pod by UID; ``wake`` wakes the worker of a pod."""

    def __init__(
        self,
        *,
        allocations: Allocations,
        judge: Judge,
        find: Callable[[str], Pod | None],
        wake: Callable[[str], None],
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._allocations = allocations
        self._judge = judge
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
        if old is not None and not asks_for_resize(old, new):
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
        async with self._lock:
            found = [pod for uid in self._pending if (pod := self._find(uid)) is not None]
            self._pending = []
            for pod in sorted(found, key=self._rank):
                await self._try(pod)

    def _rank(self, pod: Pod) -> tuple[bool, int, bool, bool, str]:
        since = self._conditions.pending_since(pod.metadata.uid)
        return (
            self._asks_for_more(pod),
            -(pod.spec.priority or 0),
            qos_class(pod) != GUARANTEED,
            not since,
            since,
        )

    def _asks_for_more(self, pod: Pod) -> bool:
        new, old = pod_requests(pod), pod_requests(self._allocations.allocated(pod))
        return any(new.get(name, 0) > old.get(name, 0) for name in ("cpu", "memory"))

    async def _try(self, pod: Pod) -> None:
        uid, generation = pod.metadata.uid, pod.metadata.generation or 0
        if self._allocations.allocated(pod) is pod:
            self._conditions.clear_pending(uid)
            return
        verdict = await self._judge.fits(pod)
        if verdict.admitted:
            self._allocations.allocate(pod)
            self._judge.let_in(pod)
            self._conditions.clear_pending(uid)
            self._conditions.clear_in_progress(uid)
            self._conditions.set_in_progress(uid, generation)
            message = resize_message(STARTED, pod, generation=generation)
            self._events.pod(pod, NORMAL, "ResizeStarted", message)
        else:
            self._put_off(pod, verdict, generation)
        self._wake(uid)

    def _put_off(self, pod: Pod, verdict: Verdict, generation: int) -> None:
        infeasible = verdict.reason == INFEASIBLE
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

    def look(self, pod: Pod, observed: ObservedPod) -> None:
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
        generation, news = self._conditions.set_in_progress(
            pod.metadata.uid, pod.metadata.generation or 0, reason=ERROR, message=error
        )
        if news:
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
