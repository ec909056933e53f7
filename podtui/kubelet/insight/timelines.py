"""Keep the timelines of every pod's last starts, and store them in the background.

The kubelet's components report each step as it happens and do not wait for the storage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from podtui.api.insight import PodStart, StepKind, Timeline
from podtui.api.v1 import Container, ObjectMeta, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.base.types import ObservedContainer, ObservedPod
from podtui.kubelet.insight import timeline as steps
from podtui.kubelet.insight.turn import Turn
from podtui.runtime.protocol import ContainerState
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
SETTLE: Final = 0.2
"""Seconds in which further steps are combined into one write."""
PRUNE_SECONDS: Final = 3600.0
ANOTHER_SANDBOX: Final = "the sandbox was recreated"
_Name = tuple[str, str]


class Timelines:
    """Timelines by namespace and name. Steps of a pod that was never `seen` are dropped."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._starts: dict[_Name, tuple[PodStart, ...]] = {}
        self._instances: dict[str, dict[str, str]] = {}
        """By pod UID and container name: the engine's id of the running container."""
        self._dirty: dict[_Name, None] = {}
        self._wake = asyncio.Event()
        self.turn = Turn()
        """Signals each step of any pod."""
        self._pruned = clock.monotonic()

    # --- steps

    def seen(self, pod: Pod) -> None:
        """Note that the pod is to run. A start from an earlier run of the kubelet is continued."""
        newest = self._newest(pod)
        if newest is None or newest.over is not None:
            self._begin_start(pod, "")
        self.began(pod, StepKind.ADMIT)

    def began(self, pod: Pod, kind: StepKind, subject: str = "", *, init: bool = False) -> None:
        start = self._newest(pod)
        if start is None:
            return
        if kind is StepKind.SANDBOX and steps.has_sandbox(start):
            start = self._begin_start(pod, ANOTHER_SANDBOX)
        self._put(pod, steps.begin(start, kind, self._now(), subject, init=init))

    def ended(
        self, pod: Pod, kind: StepKind, subject: str = "", *, failed: bool = False, note: str = ""
    ) -> None:
        """End a step; ignored if the step is not in progress."""
        start = self._newest(pod)
        if start is not None:
            self._put(pod, steps.end(start, kind, self._now(), subject, failed=failed, note=note))

    def started(self, pod: Pod, container: Container, container_id: str, *, init: bool) -> None:
        """Note that the container is running now."""
        self._instances.setdefault(pod.metadata.uid, {})[container.name] = container_id
        self.ended(pod, StepKind.CREATE, container.name)
        self.began(pod, StepKind.RUN, container.name, init=init)

    def observed(self, pod: Pod, observed: ObservedPod) -> None:
        """End the run steps of containers that have exited."""
        start = self._newest(pod)
        if start is None:
            return
        for step in start.steps:
            if step.kind is StepKind.RUN and step.ended is None:
                one = self._instance(observed, step.subject)
                if one is not None and one.state is ContainerState.EXITED:
                    at = steps.stamp(one.finished_at or self._clock.now())
                    start = steps.end_run(start, one.name, at, one.exit_code, one.reason)
        self._put(pod, start)

    def shown(self, pod: Pod, status: PodStatus) -> None:
        """Update the timeline from the pod's new status."""
        start = self._newest(pod)
        if start is not None:
            self._put(pod, steps.show_status(start, pod, status, self._now()))

    def removed(self, pod: Pod) -> None:
        """Note that the pod is no longer to run."""
        start = self._newest(pod)
        if start is not None and start.over is None:
            self._put(pod, steps.close(start, self._now()))
        self._instances.pop(pod.metadata.uid, None)

    def keep_only(self, uids: Collection[str]) -> None:
        """Close the timelines of all other pods: they were removed while no kubelet was running."""
        now = self._now()
        for name, starts in self._starts.items():
            if starts and starts[0].over is None and starts[0].uid not in uids:
                self._set(name, (steps.close(starts[0], now), *starts[1:]))

    def _instance(self, observed: ObservedPod, name: str) -> ObservedContainer | None:
        known = self._instances.get(observed.uid, {}).get(name)
        if known is None:
            return observed.newest(name)
        return next((one for one in observed.containers if one.id == known), None)

    # --- state

    def starts(self, namespace: str, name: str) -> tuple[PodStart, ...]:
        """Return the pod's starts, newest first."""
        return self._starts.get((namespace, name), ())

    def _now(self) -> str:
        return steps.stamp(self._clock.now())

    def _newest(self, pod: Pod) -> PodStart | None:
        """Return the newest start if it belongs to this pod (by UID)."""
        starts = self._starts.get(_name(pod), ())
        return starts[0] if starts and starts[0].uid == pod.metadata.uid else None

    def _begin_start(self, pod: Pod, cause: str) -> PodStart:
        fresh = PodStart(uid=pod.metadata.uid, began=self._now(), cause=cause)
        name = _name(pod)
        self._set(name, steps.with_start(self._starts.get(name, ()), fresh))
        return fresh

    def _put(self, pod: Pod, start: PodStart) -> None:
        name = _name(pod)
        starts = self._starts[name]
        if starts[0] is not start:
            self._set(name, (start, *starts[1:]))

    def _set(self, name: _Name, starts: tuple[PodStart, ...]) -> None:
        self._starts[name] = starts
        self._dirty[name] = None
        self._wake.set()
        self.turn.over()

    # --- storage

    async def load(self) -> None:
        """Load the timelines of an earlier run of the kubelet."""
        listing = await self._records.list("timelines")
        for item in listing.items:
            if isinstance(item, Timeline):
                self._starts[item.metadata.namespace, item.metadata.name] = item.starts
        self._prune()

    async def run(self) -> None:
        """Store changed timelines. Runs forever."""
        while True:
            await self._wake.wait()
            await self._clock.sleep(SETTLE)
            await self.drain()

    async def drain(self) -> None:
        """Store the timelines changed so far."""
        self._wake.clear()
        if self._clock.monotonic() - self._pruned >= PRUNE_SECONDS:
            self._prune()
        while self._dirty:
            namespace, name = next(iter(self._dirty))
            del self._dirty[namespace, name]
            starts = self._starts.get((namespace, name))
            try:
                if starts is None:
                    await self._records.delete("timelines", namespace, name)
                else:
                    meta = ObjectMeta(namespace=namespace, name=name)
                    await self._records.put("timelines", Timeline(metadata=meta, starts=starts))
            except PodtuiError as error:
                _LOG.warning("timeline of %s/%s is not on record: %s", namespace, name, error)

    def _prune(self) -> None:
        self._pruned = self._clock.monotonic()
        for name in steps.outdated(self._starts, self._clock.now()):
            del self._starts[name]
            self._dirty[name] = None
            self._wake.set()


def _name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name
