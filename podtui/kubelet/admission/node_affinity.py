"""Match a node against a pod's node selector and node affinity (reference §5, predicates)."""

from __future__ import annotations

from collections.abc import Mapping

from podtui.api.v1 import NodeSelectorRequirement, NodeSelectorTerm, Pod
from podtui.kubelet.base.types import NodeView


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _matches(requirement: NodeSelectorRequirement, found: Mapping[str, str]) -> bool:
    value = found.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            mine, bound = _integer(value), _integer(next(iter(requirement.values), None))
            if mine is None or bound is None:
                return False
            return mine > bound if requirement.operator == "Gt" else mine < bound
        case _:
            return False


def _term_matches(term: NodeSelectorTerm, node: NodeView) -> bool:
    """Return whether the node meets all requirements of the term. A term without requirements
    matches no node."""
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": node.name}
    return all(_matches(one, node.labels) for one in term.matchExpressions) and all(
        _matches(one, fields) for one in term.matchFields
    )


def node_matches(pod: Pod, node: NodeView) -> bool:
    """Check ``nodeSelector`` and the required node affinity."""
    if any(node.labels.get(key) != value for key, value in pod.spec.nodeSelector.items()):
        return False
    affinity = pod.spec.affinity
    if affinity is None or affinity.nodeAffinity is None:
        return True
    required = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is None:
        return True
    return any(_term_matches(term, node) for term in required.nodeSelectorTerms)
