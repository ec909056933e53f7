"""Whether a node is ready, and what it lacks."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Node, NodeCondition

_UNTOLD: Final = "container runtime status check may not have completed yet"
_UNTOLD_FIRST: Final = f"[{_UNTOLD}, "


def unready(node: Node | None) -> NodeCondition | None:
    """The condition that says that a node is not ready; None where it is, or is not known."""
    conditions = node.status.conditions if node is not None else ()
    return next((c for c in conditions if c.type == "Ready" and c.status != "True"), None)


def unready_words(condition: NodeCondition) -> str:
    """What a node lacks, in the kubelet's words.

    The kubelet lists all that it has against its runtime (reference §3). What it says of each
    runtime that has not answered yet comes first and tells nothing: it is left out where more
    follows.
    """
    said = condition.message or condition.reason or "nobody says why"
    if not said.startswith(_UNTOLD_FIRST):
        return said
    return said.removeprefix(_UNTOLD_FIRST).removesuffix("]")


def is_starting(condition: NodeCondition) -> bool:
    """Whether a node is not ready only since its kubelet has just begun: nothing is wrong yet."""
    return condition.message == _UNTOLD
