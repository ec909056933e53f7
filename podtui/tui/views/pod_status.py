"""The family of a pod's status, which determines its glyph and tone; the text is kubectl's."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from podtui.api.health import GLYPHS as HEALTH_GLYPHS
from podtui.api.health import Health, PodHealth, pod_health
from podtui.api.printing import pod_line
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


REJECTED: Final = "Pod was rejected: "
"""The prefix of the message of a pod that was not admitted."""
FAMILIES: Final = {
    Health.RUNNING: Family.RUNNING,
    Health.NOT_READY: Family.UNREADY,
    Health.RESTARTING: Family.UNSTABLE,
    Health.PENDING: Family.PENDING,
    Health.INIT: Family.INIT,
    Health.FAILING: Family.ERROR,
    Health.TERMINATING: Family.TERMINATING,
    Health.COMPLETED: Family.COMPLETED,
}
"""The family of each health."""
GLYPHS: Final = {FAMILIES[health]: glyph for health, glyph in HEALTH_GLYPHS.items()}


class PodStatusLine(Struct, frozen=True):
    """The status of a pod.

    ``last_restart`` is epoch seconds. ``rejected`` means that the node did not admit the pod.
    ``family`` is that of the ``health``.
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
    return PodStatusLine(
        line.word,
        FAMILIES[health.health],
        line.ready,
        line.wanted,
        line.restarts,
        line.last_restart.timestamp() if line.last_restart is not None else None,
        health,
        is_rejected(pod),
    )


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
