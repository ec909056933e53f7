"""How one start of a pod is told, step by step: plain values in, plain values out.

Times are RFC 3339 texts with microseconds in UTC, which sort as the moments do.
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
"""Of the repetitions of one step: a crash loop must not fill the records."""
KEPT_SECONDS: Final = 7 * 86400.0
_ONCE: Final = frozenset({StepKind.ADMIT, StepKind.VOLUMES})
"""Steps that are passed once in a start, however often the kubelet looks at them."""
_PROBED: Final = (StepKind.STARTUP, StepKind.READY)


def stamp(moment: datetime) -> str:
    """``2026-01-02T03:04:05.123456Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def last_step(start: PodStart, kind: StepKind, subject: str) -> Step | None:
    """The newest step of this kind about this subject."""
    every = (s for s in reversed(start.steps) if s.kind is kind and s.subject == subject)
    return next(every, None)


def begin(
    start: PodStart, kind: StepKind, at: str, subject: str = "", *, init: bool = False
) -> PodStart:
    """A step begins; one that is under way, or passed for good, is let be."""
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
    """The step under way ends, if there is one."""
    last = last_step(start, kind, subject)
    if last is None or last.ended is not None:
        return start
    ended = structs.replace(last, ended=max(last.began, at), failed=failed, note=note)
    steps = tuple(ended if step is last else step for step in start.steps)
    return structs.replace(start, steps=steps)


def has_sandbox(start: PodStart) -> bool:
    """Whether its sandbox was made: another one makes it another start."""
    last = last_step(start, StepKind.SANDBOX, "")
    return last is not None and last.ended is not None and not last.failed


def end_run(start: PodStart, name: str, at: str, exit_code: int, reason: str) -> PodStart:
    """A container ended, and with it the wait for its probes."""
    failed = exit_code != 0
    note = f"{reason or 'Error'}, exit code {exit_code}" if failed else ""
    for kind in _PROBED:
        start = end(start, kind, at, name, failed=True, note="the container ended")
    return end(start, StepKind.RUN, at, name, failed=failed, note=note)


def show_status(start: PodStart, pod: Pod, status: PodStatus, at: str) -> PodStart:
    """Fold in what the status tells: probes that are waited for, and readiness."""
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
    """Whether this run of the container has not come to this step yet."""
    run, step = last_step(start, StepKind.RUN, name), last_step(start, kind, name)
    return run is not None and run.ended is None and (step is None or step.began < run.began)


def close(start: PodStart, at: str) -> PodStart:
    """The pod is gone, or starts anew."""
    steps = tuple(
        s if s.ended is not None else structs.replace(s, ended=max(s.began, at))
        for s in start.steps
    )
    return structs.replace(start, steps=steps, over=at)


def with_start(starts: tuple[PodStart, ...], fresh: PodStart) -> tuple[PodStart, ...]:
    """A start more, the newest first; the one before it is over, the oldest are forgotten."""
    if starts and starts[0].over is None:
        starts = (close(starts[0], fresh.began), *starts[1:])
    return (fresh, *starts)[:STARTS_KEPT]


def outdated(
    timelines: Mapping[tuple[str, str], tuple[PodStart, ...]], now: datetime
) -> tuple[tuple[str, str], ...]:
    """Names whose pods are gone for longer than anybody asks."""
    oldest = stamp(datetime.fromtimestamp(now.timestamp() - KEPT_SECONDS, UTC))
    return tuple(
        name
        for name, starts in timelines.items()
        if not starts or (starts[0].over is not None and starts[0].over < oldest)
    )


def _trimmed(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The first of a step's repetitions tells how the pod came up, the last how it is now."""
    newest = steps[-1]
    same = [s for s in steps if s.kind is newest.kind and s.subject == newest.subject]
    if len(same) <= FIRST_KEPT + LAST_KEPT:
        return steps
    dropped = same[FIRST_KEPT]
    return tuple(s for s in steps if s is not dropped)
