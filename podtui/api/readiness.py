"""The Ready condition of a node."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Node, NodeCondition

_UNTOLD: Final = "container runtime status check may not have completed yet"
_UNTOLD_FIRST: Final = f"[{_UNTOLD}, "


def unready(node: Node | None) -> NodeCondition | None:
    """Return the Ready condition if it is not True; None if the node is ready or unknown."""
    conditions = node.status.conditions if node is not None else ()
    return next((c for c in conditions if c.type == "Ready" and c.status != "True"), None)


def unready_words(condition: NodeCondition) -> str:
    """Return the reasons why a node is not ready, in the kubelet's words.

    The kubelet lists all problems of its runtime (kubelet.md §3). The first entry, about runtimes
    that have not answered yet, carries no information; it is left out if others follow.
    """
    said = condition.message or condition.reason or "no reason reported"
    if not said.startswith(_UNTOLD_FIRST):
        return said
    return said.removeprefix(_UNTOLD_FIRST).removesuffix("]")


def is_starting(condition: NodeCondition) -> bool:
    """Return whether a node is not ready only because its kubelet has just started."""
    return condition.message == _UNTOLD
