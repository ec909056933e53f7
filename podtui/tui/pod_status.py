"""One pod in kubectl's words (READY, STATUS, RESTARTS), and the family that gives it its look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from podtui.api.pods import is_sidecar
from podtui.api.v1 import ContainerStateTerminated, ContainerStatus, Pod
from podtui.tui.format import epoch


class Family(StrEnum):
    """How a status is drawn; the value is its tone."""

    RUNNING = "running"
    UNREADY = "unready"
    """Runs, but not every container is ready."""
    PENDING = "pending"
    INIT = "init"
    ERROR = "error"
    TERMINATING = "terminating"
    COMPLETED = "completed"


GLYPHS: Final = {
    Family.RUNNING: "●",
    Family.UNREADY: "◐",
    Family.PENDING: "○",
    Family.INIT: "◔",
    Family.ERROR: "✖",
    Family.TERMINATING: "◌",
    Family.COMPLETED: "✔",
}
_WAITING_IS_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True)
class PodStatusLine:
    """``last_restart`` is epoch seconds. ``rejected``: the node refused the pod."""

    word: str
    family: Family
    ready: int
    wanted: int
    restarts: int
    last_restart: float | None
    rejected: bool = False


def pod_status_line(pod: Pod) -> PodStatusLine:
    """As kubectl reads a pod; see reference §17 for where the words come from."""
    sidecars = {c.name for c in pod.spec.initContainers if is_sidecar(c)}
    status = pod.status
    word = status.reason or status.phase or "Pending"
    ready = sum(s.ready for s in status.initContainerStatuses if s.name in sidecars)
    held_by = "" if is_true(pod, "Initialized") else _held_by(pod, sidecars)
    if held_by:
        word = held_by
        counted = list(status.initContainerStatuses)
        family = _init_family(held_by)
    else:
        counted = [s for s in status.initContainerStatuses if s.name in sidecars]
        counted += status.containerStatuses
        word = _of_containers(pod, word)
        ready += sum(
            s.ready and s.state.running is not None and not (s.state.waiting or s.state.terminated)
            for s in status.containerStatuses
        )
        family = _family(pod, word)
    wanted = len(pod.spec.containers) + len(sidecars)
    rejected = is_rejected(pod)
    if pod.metadata.deletionTimestamp and status.phase not in ("Succeeded", "Failed"):
        word = "Unknown" if status.reason == "NodeLost" else "Terminating"
        family = Family.TERMINATING
    if family is Family.RUNNING and ready < wanted:
        family = Family.UNREADY
    return PodStatusLine(
        word,
        family,
        ready,
        wanted,
        sum(s.restartCount for s in counted),
        _last_restart(counted),
        rejected,
    )


def is_rejected(pod: Pod) -> bool:
    """Whether admission refused it: Failed with a reason, and nothing was ever made of it."""
    status = pod.status
    return (
        status.phase == "Failed"
        and not status.containerStatuses
        and not status.initContainerStatuses
        and bool(status.reason)
        and not status.conditions
    )


def is_true(pod: Pod, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)


def _held_by(pod: Pod, sidecars: set[str]) -> str:
    """What init container holds the pod up, as ``Init:…``; empty once all are through."""
    for position, status in enumerate(pod.status.initContainerStatuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if ended is not None and ended.exitCode == 0:
            continue
        if status.name in sidecars and status.started:
            continue
        if ended is not None:
            return f"Init:{ending(ended)}"
        if waiting is not None and waiting.reason not in ("", "PodInitializing"):
            return f"Init:{waiting.reason}"
        return f"Init:{position}/{len(pod.spec.initContainers)}"
    return ""


def _of_containers(pod: Pod, word: str) -> str:
    """The status of the first container that has something to say, else ``word``."""
    running = False
    for status in reversed(pod.status.containerStatuses):
        ended, waiting = status.state.terminated, status.state.waiting
        if waiting is not None and waiting.reason:
            word = waiting.reason
        elif ended is not None:
            word = ending(ended)
        elif status.ready and status.state.running is not None:
            running = True
    if running and word == "Completed":
        return "Running" if is_true(pod, "Ready") else "NotReady"
    return word


def ending(ended: ContainerStateTerminated) -> str:
    """How a container ended, in one word."""
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exitCode}"


def _init_family(word: str) -> Family:
    rest = word.removeprefix("Init:")
    return Family.INIT if "/" in rest or rest in _WAITING_IS_FINE else Family.ERROR


def _family(pod: Pod, word: str) -> Family:
    phase = pod.status.phase
    if phase == "Succeeded" or (word == "Completed" and phase != "Failed"):
        return Family.COMPLETED
    if phase == "Failed" or phase == "Unknown":
        return Family.ERROR
    if word == "PodInitializing":
        return Family.INIT
    if any(
        s.state.waiting is not None and s.state.waiting.reason not in _WAITING_IS_FINE
        for s in pod.status.containerStatuses
    ):
        return Family.ERROR
    if any(
        s.state.terminated is not None and s.state.terminated.exitCode != 0
        for s in pod.status.containerStatuses
    ):
        return Family.ERROR
    return Family.RUNNING if phase == "Running" and word != "ContainerCreating" else Family.PENDING


def _last_restart(statuses: Iterable[ContainerStatus]) -> float | None:
    moments = [
        moment
        for status in statuses
        if status.lastState.terminated is not None
        and (moment := epoch(status.lastState.terminated.finishedAt)) is not None
    ]
    return max(moments, default=None)
