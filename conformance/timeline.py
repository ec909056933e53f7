"""Compare the statuses that a pod went through, one line for each.

The recording was polled twice a second, so it may lack short statuses; each status that it has must
have been observed here, too, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from conformance.compare import masked
from conformance.golden import Json
from conformance.rules import FLEETING


def _state(state: Json) -> str:
    for kind, detail in state.items():
        reason, message = detail.get("reason", ""), detail.get("message", "")
        # The whole message comes from the engine.
        message = "ENGINE" if reason == "ErrImagePull" else masked(".message", message, "")
        words = [kind, str(detail.get("exitCode", "")), reason, message]
        return " ".join(filter(None, words))
    return "-"


def _condition(one: Json) -> str:
    why = ": ".join(filter(None, (one.get("reason", ""), one.get("message", ""))))
    return f"{one['type']}={one['status']}" + (f" ({why})" if why else "")


def _container(one: Json) -> str:
    image = one["image"].rpartition("/")[2]
    flags = f"ready={one['ready']} started={one.get('started')} restarts={one['restartCount']}"
    return (
        f"{one['name']} {image} [{_state(one['state'])}] last [{_state(one['lastState'])}] {flags}"
    )


def status_line(status: Json, uid: str) -> str:
    """Format a status as one line, without times, IDs and addresses. ``uid`` is the pod's own."""
    every: list[Any] = [
        *status.get("initContainerStatuses", ()),
        *status.get("containerStatuses", ()),
    ]
    ended = " ".join(filter(None, (status.get("phase"), status.get("reason"))))
    parts = [
        ended,
        ", ".join(_condition(one) for one in status.get("conditions", ())),
        "has an address" if status.get("podIP") else "no address",
        *map(_container, every),
    ]
    return " | ".join(parts).replace(uid, "UID").replace("\n", "\\n")


def seen_of(case: str, theirs: Iterable[str], ours: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of the recording that were observed here, in order; fleeting ones count as
    observed."""
    found: list[str] = []
    at = 0
    for line in theirs:
        if line in ours[at:]:
            at = ours.index(line, at) + 1
            found.append(line)
        elif any(rule.case == case and rule.text in line for rule in FLEETING):
            found.append(line)
    return tuple(found)
