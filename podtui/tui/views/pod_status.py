"""The family of a pod's status, which determines its glyph and tone; the text is kubectl's."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from podtui.api.health import ON_ITS_WAY, Health, PodHealth, pod_health
from podtui.api.printing import INIT, pod_line
from podtui.api.v1 import Pod


class Family(StrEnum):
    """The display class of a status; the value is its tone."""

    RUNNING = "running"
    UNREADY = "unready"
    """Running, but not every container is ready."""
    UNSTABLE = "warning"
    """Running, but restarted too recently to count as healthy."""
    PENDING = "pending"
    INIT = "init"
    ERROR = "error"
    TERMINATING = "terminating"
    COMPLETED = "completed"


GLYPHS: Final = {
    Family.RUNNING: "●",
    Family.UNREADY: "◐",
    Family.UNSTABLE: "▲",
    Family.PENDING: "○",
    Family.INIT: "◔",
    Family.ERROR: "✖",
    Family.TERMINATING: "◌",
    Family.COMPLETED: "✔",
}
REJECTED: Final = "Pod was rejected: "
"""The prefix of the message of a pod that was not admitted."""
_WELL: Final = frozenset({Family.RUNNING, Family.COMPLETED, Family.TERMINATING})


class PodStatusLine(Struct, frozen=True):
    """The status of a pod.

    ``last_restart`` is epoch seconds. ``rejected`` means that the node did not admit the pod.
    ``family`` agrees with ``health``: healthy pods have the families running, completed and
    terminating, others do not.
    """

    word: str
    family: Family
    ready: int
    wanted: int
    restarts: int
    last_restart: float | None
    health: PodHealth
    rejected: bool = False


def pod_status_line(pod: Pod, now: float) -> PodStatusLine:
    """Return the status as kubectl shows it, with its display family."""
    line = pod_line(pod)
    health = pod_health(pod, now)
    family = _of_health(_family(pod, line.word), health)
    return PodStatusLine(
        line.word,
        family,
        line.ready,
        line.wanted,
        line.restarts,
        line.last_restart.timestamp() if line.last_restart is not None else None,
        health,
        is_rejected(pod),
    )


def _of_health(family: Family, health: PodHealth) -> Family:
    """Return the family suggested by the status text, corrected if the health contradicts it."""
    if health.well is (family in _WELL):
        return family
    if health.until is not None:
        return Family.UNSTABLE
    if not health.well:
        return Family.UNREADY if family is Family.RUNNING else Family.ERROR
    return Family.COMPLETED if health.health is Health.COMPLETED else Family.RUNNING


def is_rejected(pod: Pod) -> bool:
    """Return whether admission rejected the pod: it is Failed with a reason, and nothing was
    created for it.
    """
    status = pod.status
    return (
        status.phase == "Failed"
        and not status.containerStatuses
        and not status.initContainerStatuses
        and bool(status.reason)
        and not status.conditions
    )


def _init_family(word: str) -> Family:
    rest = word.removeprefix(INIT)
    return Family.INIT if "/" in rest or rest in ON_ITS_WAY else Family.ERROR


def _family(pod: Pod, word: str) -> Family:
    phase = pod.status.phase
    if pod.metadata.deletionTimestamp and phase not in ("Succeeded", "Failed"):
        return Family.TERMINATING
    if word.startswith(INIT):
        return _init_family(word)
    if phase == "Succeeded" or (word == "Completed" and phase != "Failed"):
        return Family.COMPLETED
    if phase == "Failed" or phase == "Unknown":
        return Family.ERROR
    if word == "PodInitializing":
        return Family.INIT
    if any(
        s.state.waiting is not None and s.state.waiting.reason not in ON_ITS_WAY
        for s in pod.status.containerStatuses
    ):
        return Family.ERROR
    if any(
        s.state.terminated is not None and s.state.terminated.exitCode != 0
        for s in pod.status.containerStatuses
    ):
        return Family.ERROR
    return Family.RUNNING if phase == "Running" and word != "ContainerCreating" else Family.PENDING
