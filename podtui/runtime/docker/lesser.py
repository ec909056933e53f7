"""What an engine without full privileges refuses at a start, and the lesser thing to ask for.

An engine inside a container often lacks CAP_SYS_RESOURCE: it can't lower an OOM score, nor give all
capabilities. That shows only when a container starts; then the container is made again without, and
the loss is said once for each container.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
_UNAVAILABLE: Final = "SYS_RESOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """``without`` gives the host configuration without it, None where it asks for no such thing.

    ``hints`` are parts of the engine's words at a start that fails for it, none of them proof;
    ``ability`` is the field of `Abilities` that it stands for.
    """

    ability: str
    words: str
    hints: tuple[str, ...]
    without: Callable[[Json], Json | None]


def _without_low_oom_score(host: Json) -> Json | None:
    if host.get("OomScoreAdj", 0) >= 0:
        return None
    return {key: value for key, value in host.items() if key != "OomScoreAdj"}


def _without_all_capabilities(host: Json) -> Json | None:
    wanted = [str(name).removeprefix("CAP_") for name in host.get("CapAdd") or ()]
    dropped: list[str] = list(host.get("CapDrop") or ())
    if host.get("Privileged"):
        # What privileged means, as far as it can be had one by one; device nodes can't.
        options = [o for o in host.get("SecurityOpt") or () if not o.startswith("seccomp=")]
        return {
            **host,
            "Privileged": False,
            "CapAdd": ["ALL"],
            "CapDrop": [_UNAVAILABLE],
            "DeviceCgroupRules": ["a *:* rwm"],
            "MaskedPaths": [],
            "ReadonlyPaths": [],
            "SecurityOpt": [*options, "seccomp=unconfined"],
        }
    if "ALL" in wanted and _UNAVAILABLE not in dropped:
        return {**host, "CapDrop": [*dropped, _UNAVAILABLE]}
    if _UNAVAILABLE in wanted:
        return {**host, "CapAdd": [name for name in wanted if name != _UNAVAILABLE]}
    return None


LOW_OOM_SCORE: Final = Loss(
    ability="lower_oom_score",
    words="the OOM score is not lowered: the engine may not (it lacks CAP_SYS_RESOURCE)",
    # runc sets it before it can report an error of its own.
    hints=("oom_score_adj", "can't get final child's PID from pipe"),
    without=_without_low_oom_score,
)
ALL_CAPABILITIES: Final = Loss(
    ability="all_capabilities",
    words="the container runs without CAP_SYS_RESOURCE, and without the host's device nodes "
    "where it is privileged: the engine itself has not got that capability",
    hints=("unable to apply caps", "capability not supported", "capset"),
    without=_without_all_capabilities,
)
LOSSES: Final = (LOW_OOM_SCORE, ALL_CAPABILITIES)


def remedy(text: str, host: Json) -> tuple[Loss, Json] | None:
    """What to give up after a start that failed with ``text``, and what is left to ask for."""
    for loss in LOSSES:
        if any(hint in text for hint in loss.hints):
            lesser = loss.without(host)
            if lesser is not None:
                return loss, lesser
    return None
