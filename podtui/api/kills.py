"""Records why the kubelet stopped containers, as an annotation of the Pod object.

Events are aggregated and rate-limited, and a status does not say who stopped a container. The
annotation lists the last instances of each container that the kubelet stopped; readers match the
ids with those in the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from podtui.api.names import KILLS
from podtui.api.v1 import ContainerStateTerminated, Pod, Struct

MESSAGE_LIMIT: Final = 300
KEPT: Final = 2
"""Kills kept per container. A status shows two instances: the one that ended and the one that is
being stopped."""


class KillReason(StrEnum):
    """The reason why the kubelet stopped a container."""

    UNKNOWN = "Unknown"
    """The container's state was not known."""
    STARTUP_PROBE = "StartupProbe"
    LIVENESS_PROBE = "LivenessProbe"
    POST_START = "PostStartHook"
    DEFINITION_CHANGED = "DefinitionChanged"
    RESIZE = "Resize"
    REQUESTED = "RestartRequested"
    RESTART_ALL = "RestartAllContainers"
    SANDBOX_CHANGED = "SandboxChanged"
    POD = "PodStopped"
    """All containers of the pod were stopped: it was removed, evicted, over its deadline, and so
    on."""


FAULTS: Final = frozenset(
    {KillReason.STARTUP_PROBE, KillReason.LIVENESS_PROBE, KillReason.POST_START}
)
"""Reasons caused by the container itself. For all other reasons it was stopped on purpose."""


class Kill(Struct, frozen=True, kw_only=True):
    """``id`` is the engine's id of the instance, ``message`` the output of the failed probe, and
    ``count`` how often in a row the container was stopped for this reason."""

    id: str
    reason: KillReason
    message: str = ""
    count: int = 1

    @property
    def on_purpose(self) -> bool:
        return self.reason not in FAULTS


def kills_of(annotations: Mapping[str, str]) -> dict[str, tuple[Kill, ...]]:
    """Return the last kills of each container, newest first; empty if the annotation is missing or
    unreadable."""
    text = annotations.get(KILLS)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[Kill, ...]])
    except msgspec.MsgspecError:
        return {}


def with_kill(annotations: Mapping[str, str], container: str, kill: Kill) -> str:
    """Return the annotation's value after one more kill. A repeated stop of one instance counts
    once."""
    kills = kills_of(annotations)
    before = kills.get(container, ())
    if any(earlier.id == kill.id for earlier in before):
        return annotations[KILLS]
    count = before[0].count + 1 if before and before[0].reason is kill.reason else 1
    kill = msgspec.structs.replace(kill, message=kill.message[:MESSAGE_LIMIT], count=count)
    kept = {**kills, container: (kill, *before)[:KEPT]}
    return msgspec.json.encode(kept, order="sorted").decode()


def kill_of(pod: Pod, container: str, ended: ContainerStateTerminated | None) -> Kill | None:
    """Return the kubelet's kill that ended this instance; None if the kubelet did not stop it."""
    if ended is None or not ended.containerID:
        return None
    name = ended.containerID.rpartition("://")[2]
    kills = kills_of(pod.metadata.annotations).get(container, ())
    return next((kill for kill in kills if kill.id == name), None)
