"""The READY, STATUS and RESTARTS columns of a pod, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from podtui.api.pods import is_sidecar, is_true
from podtui.api.times import parse_time
from podtui.api.v1 import ContainerStateTerminated, ContainerStatus, Pod

INIT: Final = "Init:"
"""Prefix of the STATUS of a pod that is held up by an init container."""
_COMPLETED: Final = "Completed"


class PodLine(Struct, frozen=True):
    """``ready`` of ``wanted`` containers and sidecars are ready. ``last_restart`` is the end of the
    last terminated run among the counted containers. ``word`` is the STATUS column."""

    word: str
    ready: int
    wanted: int
    restarts: int
    last_restart: datetime | None


class _Opening(Struct, frozen=True):
    """Result of the init containers. ``seen`` are the statuses up to and including the init
    container that holds up the pod; ``word`` is its STATUS, empty once all have finished."""

    word: str
    ready: int
    seen: Sequence[ContainerStatus]


def pod_line(pod: Pod) -> PodLine:
    """Compute the columns as kubectl's pod table does."""
    sidecars = {c.name for c in pod.spec.initContainers if is_sidecar(c)}
    opening = _opening(pod, sidecars)
    word = opening.word or _pod_reason(pod)
    ready = opening.ready
    counted = list(opening.seen)
    if not opening.word or is_true(pod, "Initialized"):
        counted = [s for s in opening.seen if s.name in sidecars]
        counted += pod.status.containerStatuses
        ready += sum(map(_is_up, pod.status.containerStatuses))
        word = _of_containers(pod, word)
    return PodLine(
        word=_leaving(pod) or word,
        ready=ready,
        wanted=len(pod.spec.containers) + len(sidecars),
        restarts=sum(s.restartCount for s in counted),
        last_restart=_last_restart(counted),
    )


def ending(ended: ContainerStateTerminated) -> str:
    """Return the one-word reason why a container ended."""
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exitCode}"


def _pod_reason(pod: Pod) -> str:
    """Return the STATUS from the pod itself, before its containers are considered. An empty phase
    is Pending, which is the API server's default."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            return condition.reason
    return pod.status.reason or pod.status.phase or "Pending"


def _opening(pod: Pod, sidecars: set[str]) -> _Opening:
    statuses = pod.status.initContainerStatuses
    ready = 0
    for position, status in enumerate(statuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if ended is not None and ended.exitCode == 0:
            continue
        if status.name in sidecars and status.started:
            ready += status.ready
            continue
        if ended is not None:
            why = ending(ended)
        elif waiting is not None and waiting.reason not in ("", "PodInitializing"):
            why = waiting.reason
        else:
            why = f"{position}/{len(pod.spec.initContainers)}"
        return _Opening(INIT + why, ready, statuses[: position + 1])
    return _Opening("", ready, statuses)


def _of_containers(pod: Pod, word: str) -> str:
    """Return the STATUS from the first container that has one, or else ``word``. "Completed" does
    not hide a container that failed or is still running."""
    running = False
    failure = ""
    for status in reversed(pod.status.containerStatuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if waiting is not None and waiting.reason:
            word = waiting.reason
        elif ended is not None:
            word = ending(ended)
            failure = word if ended.exitCode else failure
        elif _is_up(status):
            running = True
    if word != _COMPLETED:
        return word
    if running and is_true(pod, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else word)


def _is_up(status: ContainerStatus) -> bool:
    state = status.state
    silent = state.waiting is None or not state.waiting.reason
    return status.ready and state.running is not None and state.terminated is None and silent


def _leaving(pod: Pod) -> str:
    if not pod.metadata.deletionTimestamp:
        return ""
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return "" if pod.status.phase in ("Succeeded", "Failed") else "Terminating"


def _last_restart(statuses: Iterable[ContainerStatus]) -> datetime | None:
    moments = (
        parse_time(s.lastState.terminated.finishedAt) for s in statuses if s.lastState.terminated
    )
    return max((moment for moment in moments if moment is not None), default=None)
