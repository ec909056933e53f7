"""Texts of confirmations: the pods that end, and the data that is lost with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podtui.api.v1 import Pod
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean

_ENDED = ("Succeeded", "Failed")


def grace_text(pod: Pod) -> str:
    """Return the time that a pod has to terminate."""
    grace = pod.spec.terminationGracePeriodSeconds
    return f"up to {30 if grace is None else grace} s"


def ending_text(pod: Pod) -> str:
    """Return what happens to a pod that is removed."""
    if pod.status.phase in _ENDED:
        return "has ended, and is removed"
    if pod.metadata.deletionTimestamp:
        return "is terminating already"
    return f"terminates ({grace_text(pod)})"


def data_volumes(pod: Pod) -> list[str]:
    """Return the names of the volumes whose data end with the pod."""
    return [
        clean(volume.name)
        for volume in pod.spec.volumes
        if volume.emptyDir is not None or volume.ephemeral is not None
    ]


def losses(pods: Iterable[Pod]) -> list[Line]:
    """Return a line about what is lost with removed pods; none for no pods."""
    removed = list(pods)
    if not removed:
        return []
    volumes = list(dict.fromkeys(name for pod in removed for name in data_volumes(pod)))
    whose = ("Its", "its") if len(removed) == 1 else ("Their", "their")
    files = f"{whose[1]} containers' files"
    text = f"{whose[0]} logs and {files}"
    if volumes:
        text = f"{whose[0]} logs, {files} and the data of {_names(volumes)}"
    return [(Span(f"{text} are lost.", "muted"),)]


def _names(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"volume {shown}" if len(names) == 1 else f"volumes {shown}{more}"
