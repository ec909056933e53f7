"""The timeline of one start of a pod, step by step. Pure functions of immutable values.

Times are RFC 3339 texts with microseconds in UTC, which sort chronologically.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from podtui.api.insight import PodStart, Step, StepKind
from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, ContainerStatus, Pod, PodStatus

STARTS_KEPT: Final = 4
FIRST_KEPT: Final = 1
LAST_KEPT: Final = 4
"""Repetitions of one step to keep: a crash loop must not fill the records."""
KEPT_SECONDS: Final = 7 * 86400.0
_ONCE: Final = frozenset({StepKind.ADMIT, StepKind.VOLUMES})
"""Steps that are recorded once per start, even if the kubelet repeats them."""
_PROBED: Final = (StepKind.STARTUP, StepKind.READY)


def stamp(moment: datetime) -> str:
    """Format a time, such as ``2026-01-02T03:04:05.123456Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def last_step(start: PodStart, kind: StepKind, subject: str) -> Step | None:
    """Return the newest step of this kind and subject."""
    every = (s for s in reversed(start.steps) if s.kind is kind and s.subject == subject)
    return next(every, None)


def begin(
    start: PodStart, kind: StepKind, at: str, subject: str = "", *, init: bool = False
) -> PodStart:
    """Begin a step, unless it is in progress or is a one-time step that has passed."""
    last = last_step(start, kind, subject)
    if last is not None and (last.ended is None or (kind in _ONCE and not last.failed)):
        return start
    step = Step(kind=kind, began=at, subject=subject, init=init)
    return structs.replace(start, steps=_trimmed((*start.steps, step)))


def end(
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
        start = end(start, kind, at, name, failed=True, note="the container ended")
    return end(start, StepKind.RUN, at, name, failed=failed, note=note)


def show_status(start: PodStart, pod: Pod, status: PodStatus, at: str) -> PodStart:
    """Apply the pod's status: probes in progress, and readiness."""
    sidecars = tuple(c for c in pod.spec.initContainers if is_sidecar(c))
    statuses = {s.name: s for s in (*status.initContainerStatuses, *status.containerStatuses)}
    for container in (*sidecars, *pod.spec.containers):
        found = statuses.get(container.name)
        if found is not None and found.state.running is not None:
            start = _show_container(start, container, found, at)
    if start.ready is None and any(
        c.type == "Ready" and c.status == "True" for c in status.conditions
    ):
        start = structs.replace(start, ready=at)
    return start


def _show_container(
    start: PodStart, container: Container, status: ContainerStatus, at: str
) -> PodStart:
    name = container.name
    asked = {
        StepKind.STARTUP: (container.startupProbe is not None, bool(status.started)),
        StepKind.READY: (container.readinessProbe is not None, status.ready),
    }
    for kind, (probed, passed) in asked.items():
        if probed and passed:
            start = end(start, kind, at, name)
        elif probed and _is_new_to(start, kind, name):
            start = begin(start, kind, at, name)
        if kind is StepKind.STARTUP and not status.started:
            return start
    return start


def _is_new_to(start: PodStart, kind: StepKind, name: str) -> bool:
    """Return whether the current run of the container has not reached this step yet."""
    run, step = last_step(start, StepKind.RUN, name), last_step(start, kind, name)
    return run is not None and run.ended is None and (step is None or step.began < run.began)


def close(start: PodStart, at: str) -> PodStart:
    """Close the timeline: the pod is gone or starts again."""
    steps = tuple(
        s if s.ended is not None else structs.replace(s, ended=max(s.began, at))
        for s in start.steps
    )
    return structs.replace(start, steps=steps, over=at)


def with_start(starts: tuple[PodStart, ...], fresh: PodStart) -> tuple[PodStart, ...]:
    """Add a start in front (newest first). Closes the previous start and drops the oldest ones."""
    if starts and starts[0].over is None:
        starts = (close(starts[0], fresh.began), *starts[1:])
    return (fresh, *starts)[:STARTS_KEPT]


def outdated(
    timelines: Mapping[tuple[str, str], tuple[PodStart, ...]], now: datetime
) -> tuple[tuple[str, str], ...]:
    """Return the names of pods that have been gone for longer than `KEPT_SECONDS`."""
    oldest = stamp(datetime.fromtimestamp(now.timestamp() - KEPT_SECONDS, UTC))
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
