"""Fallbacks for requests that an engine without full privileges refuses at container start.

An engine inside a container often lacks CAP_SYS_RESOURCE. It can neither lower an OOM score nor
grant all capabilities. This shows only when a container starts. The container is then created again
without the feature, and each affected container gets a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
_UNAVAILABLE: Final = "SYS_RESOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """``without`` returns the host configuration without the feature, None if it is not requested.

    ``hints`` are parts of the engine's message for a start that failed because of this; a match is
    no proof. ``ability`` is the matching field of `Abilities`.
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
        # Approximate privileged by separate options; only the device nodes are missing.
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


LOW_OOM_SCORE: Final = Fallback(
    ability="lower_oom_score",
    words="the OOM score is not lowered: the engine may not (it lacks CAP_SYS_RESOURCE)",
    # runc sets the score before it can report an error of its own.
    hints=("oom_score_adj", "can't get final child's PID from pipe"),
    without=_without_low_oom_score,
)
ALL_CAPABILITIES: Final = Fallback(
    ability="all_capabilities",
    words="the container runs without CAP_SYS_RESOURCE, and without the host's device nodes "
    "where it is privileged: the engine itself has not got that capability",
    hints=("unable to apply caps", "capability not supported", "capset"),
    without=_without_all_capabilities,
)
FALLBACKS: Final = (LOW_OOM_SCORE, ALL_CAPABILITIES)


def remedy(text: str, host: Json) -> tuple[Fallback, Json] | None:
    """Return the feature to give up after a start that failed with ``text``, and the reduced host
    configuration."""
    for fallback in FALLBACKS:
        if any(hint in text for hint in fallback.hints):
            reduced = fallback.without(host)
            if reduced is not None:
                return fallback, reduced
    return None
