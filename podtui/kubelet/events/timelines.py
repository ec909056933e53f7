"""Keep the timelines of every pod's last starts, and store them in the background.

The kubelet's components report each step as it happens and do not wait for the storage. Times are
RFC 3339 texts with microseconds in UTC, which sort chronologically.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from podtui.api.insight import PodStart, Step, StepKind, Timeline
from podtui.api.pods import is_sidecar
from podtui.api.times import epoch, rfc3339_micros
from podtui.api.v1 import Container, ContainerStatus, ObjectMeta, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.tasks import Broadcast
from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
SETTLE: Final = 0.2
"""Seconds in which further steps are combined into one write."""
PRUNE_SECONDS: Final = 3600.0
ANOTHER_SANDBOX: Final = "the sandbox was recreated"
_Name = tuple[str, str]
STARTS_KEPT: Final = 4
FIRST_KEPT: Final = 1
LAST_KEPT: Final = 4
"""Repetitions of one step to keep: a crash loop must not fill the records."""
KEPT_SECONDS: Final = 7 * 86400.0
_ONCE: Final = frozenset({StepKind.ADMIT, StepKind.VOLUMES})
"""Steps that are recorded once per start, even if the kubelet repeats them."""
_PROBED: Final = (StepKind.STARTUP, StepKind.READY)


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
        self.changed = Broadcast()
        """Signals each step of any pod."""
        self._pruned = clock.monotonic()

    # --- steps

    def seen(self, pod: Pod) -> None:
        """Record that the pod is desired. A start from an earlier run of the kubelet is
        continued."""
        newest = self._newest(pod)
        if newest is None or newest.over is not None:
            self._begin_start(pod, "")
        self.began(pod, StepKind.ADMIT)

    def began(self, pod: Pod, kind: StepKind, subject: str = "", *, init: bool = False) -> None:
        start = self._newest(pod)
        if start is None:
            return
        if kind is StepKind.SANDBOX and has_sandbox(start):
            start = self._begin_start(pod, ANOTHER_SANDBOX)
        self._put(pod, begin_step(start, kind, self._now(), subject, init=init))

    def ended(
        self, pod: Pod, kind: StepKind, subject: str = "", *, failed: bool = False, note: str = ""
    ) -> None:
        """End a step; ignored if the step is not in progress."""
        start = self._newest(pod)
        if start is not None:
            self._put(pod, end_step(start, kind, self._now(), subject, failed=failed, note=note))

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
                container = self._instance(observed, step.subject)
                if container is not None and container.state is ContainerState.EXITED:
                    at = rfc3339_micros(container.finished_at or self._clock.now())
                    start = end_run(
                        start, container.name, at, container.exit_code, container.reason
                    )
        self._put(pod, start)

    def shown(self, pod: Pod, status: PodStatus) -> None:
        """Update the timeline from the pod's new status."""
        start = self._newest(pod)
        if start is not None:
            self._put(pod, show_status(start, pod, status, self._now()))

    def removed(self, pod: Pod) -> None:
        """Record that the pod is no longer desired."""
        start = self._newest(pod)
        if start is not None and start.over is None:
            self._put(pod, close_start(start, self._now()))
        self._instances.pop(pod.metadata.uid, None)

    def keep_only(self, uids: Collection[str]) -> None:
        """Close the timelines of all other pods: they were removed while no kubelet was running."""
        now = self._now()
        for name, starts in self._starts.items():
            if starts and starts[0].over is None and starts[0].uid not in uids:
                self._set(name, (close_start(starts[0], now), *starts[1:]))

    def _instance(self, observed: ObservedPod, name: str) -> ObservedContainer | None:
        container_id = self._instances.get(observed.uid, {}).get(name)
        if container_id is None:
            return observed.newest(name)
        return next(
            (container for container in observed.containers if container.id == container_id), None
        )

    # --- state

    def starts(self, namespace: str, name: str) -> tuple[PodStart, ...]:
        """Return the pod's starts, newest first."""
        return self._starts.get((namespace, name), ())

    def _now(self) -> str:
        return rfc3339_micros(self._clock.now())

    def _newest(self, pod: Pod) -> PodStart | None:
        """Return the newest start if it belongs to this pod (by UID)."""
        starts = self._starts.get(_name(pod), ())
        return starts[0] if starts and starts[0].uid == pod.metadata.uid else None

    def _begin_start(self, pod: Pod, cause: str) -> PodStart:
        fresh = PodStart(uid=pod.metadata.uid, began=self._now(), cause=cause)
        name = _name(pod)
        self._set(name, with_start(self._starts.get(name, ()), fresh))
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
        self.changed.notify()

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
        if self._dirty:
            # Left by an earlier run that failed.
            self._wake.set()
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
                _LOG.warning("cannot record the timeline of %s/%s: %s", namespace, name, error)
            except Exception:
                self._dirty[namespace, name] = None
                raise

    def _prune(self) -> None:
        self._pruned = self._clock.monotonic()
        for name in outdated(self._starts, self._clock.now()):
            del self._starts[name]
            self._dirty[name] = None
            self._wake.set()


def _name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name


# --- one start: pure functions of immutable values


def last_step(start: PodStart, kind: StepKind, subject: str) -> Step | None:
    """Return the newest step of this kind and subject."""
    every = (s for s in reversed(start.steps) if s.kind is kind and s.subject == subject)
    return next(every, None)


def begin_step(
    start: PodStart, kind: StepKind, at: str, subject: str = "", *, init: bool = False
) -> PodStart:
    """Begin a step, unless it is in progress or is a one-time step that has passed."""
    last = last_step(start, kind, subject)
    if last is not None and (last.ended is None or (kind in _ONCE and not last.failed)):
        return start
    step = Step(kind=kind, began=at, subject=subject, init=init)
    return structs.replace(start, steps=_trimmed((*start.steps, step)))


def end_step(
    start: PodStart,
    kind: StepKind,
    at: str,
    subject: str = "",
    *,
    failed: bool = False,
    note: str = "",
) -> PodStart:
    """End the step if it is in progress."""
    last = last_step(start, kind, subject)
    if last is None or last.ended is not None:
        return start
    ended = structs.replace(last, ended=max(last.began, at), failed=failed, note=note)
    steps = tuple(ended if step is last else step for step in start.steps)
    return structs.replace(start, steps=steps)


def has_sandbox(start: PodStart) -> bool:
    """Return whether the start has its sandbox; another sandbox makes it another start."""
    last = last_step(start, StepKind.SANDBOX, "")
    return last is not None and last.ended is not None and not last.failed


def end_run(start: PodStart, name: str, at: str, exit_code: int, reason: str) -> PodStart:
    """End the run of a container, and the wait for its probes."""
    failed = exit_code != 0
    note = f"{reason or 'Error'}, exit code {exit_code}" if failed else ""
    for kind in _PROBED:
        start = end_step(start, kind, at, name, failed=True, note="the container ended")
    return end_step(start, StepKind.RUN, at, name, failed=failed, note=note)


def show_status(start: PodStart, pod: Pod, status: PodStatus, at: str) -> PodStart:
    """Apply the pod's status: probes in progress, and readiness."""
    sidecars = tuple(c for c in pod.spec.initContainers if is_sidecar(c))
    statuses = {s.name: s for s in (*status.initContainerStatuses, *status.containerStatuses)}
    for container in (*sidecars, *pod.spec.containers):
        container_status = statuses.get(container.name)
        if container_status is not None and container_status.state.running is not None:
            start = _show_container(start, container, container_status, at)
    if start.ready is None and any(
        c.type == "Ready" and c.status == "True" for c in status.conditions
    ):
        start = structs.replace(start, ready=at)
    return start


def _show_container(
    start: PodStart, container: Container, status: ContainerStatus, at: str
) -> PodStart:
    name = container.name
    requested = {
        StepKind.STARTUP: (container.startupProbe is not None, bool(status.started)),
        StepKind.READY: (container.readinessProbe is not None, status.ready),
    }
    for kind, (probed, passed) in requested.items():
        if probed and passed:
            start = end_step(start, kind, at, name)
        elif probed and _has_not_reached(start, kind, name):
            start = begin_step(start, kind, at, name)
        if kind is StepKind.STARTUP and not status.started:
            return start
    return start


def _has_not_reached(start: PodStart, kind: StepKind, name: str) -> bool:
    """Return whether the current run of the container has not reached this step yet."""
    run, step = last_step(start, StepKind.RUN, name), last_step(start, kind, name)
    return run is not None and run.ended is None and (step is None or step.began < run.began)


def pull_and_init_seconds(start: PodStart) -> float:
    """Return how long images were pulled or init containers ran; overlaps count once."""
    spans = [
        (epoch(step.began) or 0.0, epoch(step.ended) or 0.0)
        for step in start.steps
        if step.ended is not None
        and (step.kind is StepKind.PULL or (step.kind is StepKind.RUN and step.init))
    ]
    total = until = 0.0
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def close_start(start: PodStart, at: str) -> PodStart:
    """Close the timeline: the pod is gone or starts again."""
    steps = tuple(
        s if s.ended is not None else structs.replace(s, ended=max(s.began, at))
        for s in start.steps
    )
    return structs.replace(start, steps=steps, over=at)


def with_start(starts: tuple[PodStart, ...], fresh: PodStart) -> tuple[PodStart, ...]:
    """Add a start in front (newest first). Closes the previous start and drops the oldest ones."""
    if starts and starts[0].over is None:
        starts = (close_start(starts[0], fresh.began), *starts[1:])
    return (fresh, *starts)[:STARTS_KEPT]


def outdated(
    timelines: Mapping[tuple[str, str], tuple[PodStart, ...]], now: datetime
) -> tuple[tuple[str, str], ...]:
    """Return the names of pods that have been gone for longer than `KEPT_SECONDS`."""
    oldest = rfc3339_micros(datetime.fromtimestamp(now.timestamp() - KEPT_SECONDS, UTC))
    return tuple(
        name
        for name, starts in timelines.items()
        if not starts or (starts[0].over is not None and starts[0].over < oldest)
    )


def _trimmed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Drop a middle repetition: the first ones show how the pod started, the last ones the current
    state."""
    newest = steps[-1]
    same = [s for s in steps if s.kind is newest.kind and s.subject == newest.subject]
    if len(same) <= FIRST_KEPT + LAST_KEPT:
        return steps
    dropped = same[FIRST_KEPT]
    return tuple(s for s in steps if s is not dropped)
