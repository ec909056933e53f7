"""Compare the API objects that a real API server returned with those that podtui serves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.compare import Difference, aligned, leaves, masked
from conformance.golden import FOLDER, Json
from conformance.rules import LEAVES, MIRROR_LEAVES, MIRROR_MASKS

MIRROR: Final = FOLDER / "mirror"
# The others kept changing, and were recorded at a time that cannot be reproduced.
STEADY: Final = ("plain", "sidecar")
_LEFT: Final = tuple(rule for rule in (*LEAVES, *MIRROR_LEAVES) if not rule.only)


def _read(path: Path) -> Json | None:
    return json.loads(path.read_text()) if path.exists() else None


def lines(value: Json, uid: str) -> list[str]:
    """Return the leaves of an API object, without its variable parts."""
    found: list[str] = []
    for path, text in leaves(value):
        value_text = masked(path.removeprefix("status."), text, uid)
        for rule in MIRROR_MASKS:
            if re.search(rule.where, path):
                value_text = re.sub(rule.pattern, rule.text, value_text)
        line = f"{path} = {value_text}"
        if not any(re.search(rule.pattern, line) for rule in _LEFT):
            found.append(line)
    return found


def _pod(pod: Json, *, steady: bool) -> list[str]:
    uid: str = pod["metadata"]["annotations"]["kubernetes.io/config.hash"]
    shown = pod if steady else {key: value for key, value in pod.items() if key != "status"}
    return lines(shown, uid)


def _events(items: Sequence[Json], *, steady: bool) -> list[str]:
    found: list[str] = []
    # The name ends with the time of the first occurrence.
    for item in sorted(items, key=lambda one: one["metadata"]["name"]):
        uid: str = item["involvedObject"]["uid"]
        shown = item if steady else {key: value for key, value in item.items() if key != "count"}
        found += [f"{item['reason']}: {line}" for line in lines(shown, uid)]
    return found


def compare_records(
    case: str, pod: Json | None, events: Sequence[Json]
) -> tuple[Difference, ...] | None:
    """Return the differences between the API objects of a case; None if the case has none."""
    folder, steady = MIRROR / case, case in STEADY
    theirs_events = _read(folder / "events.json")
    if theirs_events is None:
        return None
    found: list[Difference] = []
    theirs_pod = _read(folder / "pod.json")
    # A rejected pod got no mirror pod, because no worker created it; podtui has a record of it.
    if theirs_pod is not None and pod is not None:
        ours, theirs = _pod(pod, steady=steady), _pod(theirs_pod, steady=steady)
        found += aligned("record", ours, theirs)
    ours, theirs = _events(events, steady=steady), _events(theirs_events["items"], steady=steady)
    return tuple(found + aligned("API events", ours, theirs))


def compare_node(node: Json) -> tuple[Difference, ...]:
    """Return the differences between the node objects."""
    theirs = _read(MIRROR / "node.json")
    assert theirs is not None
    return tuple(aligned("node", lines(node, ""), lines(theirs, "")))
