"""Labels with which a node satisfies the selector and the affinity of a pod."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from podtui.api.selectors import node_matches
from podtui.api.v1 import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod

NODE_OWN_LABELS: Final = frozenset(
    f"{prefix}kubernetes.io/{name}"
    for prefix in ("", "beta.")
    for name in ("os", "arch", "hostname")
)
"""The labels that the kubelet sets itself: another value does not stay."""


def label_command(node: Node | None, labels: Iterable[tuple[str, str]]) -> str:
    name = node.metadata.name if node is not None else "NODE"
    overwritten = node is not None and any(key in node.metadata.labels for key, _ in labels)
    texts = " ".join(f"{key}={value}" for key, value in labels)
    more = " --overwrite" if overwritten else ""
    return f"Label the node: kubectl label node {name} {texts}{more}"


def labels_to_fit(pod: Pod, node: Node | None) -> tuple[tuple[str, str], ...]:
    """Return the labels with which a node would satisfy a pod's nodeSelector and required node
    affinity. Empty if it does already, or if labels cannot achieve it."""
    if node is None or node_matches(pod, node.metadata.name, node.metadata.labels):
        return ()
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    terms = required.nodeSelectorTerms if required is not None else (None,)
    for term in terms:
        labels = dict(pod.spec.nodeSelector)
        labels |= _labels_of_term(term, labels, node) if term is not None else {}
        after = {**node.metadata.labels, **labels}
        added = {key: value for key, value in labels.items()
                 if node.metadata.labels.get(key) != value}  # fmt: skip
        if node_matches(pod, node.metadata.name, after) and not added.keys() & NODE_OWN_LABELS:
            return tuple(added.items())
    return ()


def _labels_of_term(
    term: NodeSelectorTerm, selected: Mapping[str, str], node: Node
) -> dict[str, str]:
    """Return the labels that the expressions of a term ask for, if the node lacks them."""
    current = {**node.metadata.labels, **selected}
    wanted: dict[str, str] = {}
    for requirement in term.matchExpressions:
        value = _label_value(requirement, current.get(requirement.key))
        if value is not None:
            wanted[requirement.key] = value
    return wanted


def _label_value(requirement: NodeSelectorRequirement, current: str | None) -> str | None:
    """Return a value that meets a requirement; None if there is none, or none is needed."""
    first = next(iter(requirement.values), "")
    match requirement.operator:
        case "In" if current not in requirement.values:
            return first
        case "Exists" if current is None:
            return "true"
        case "Gt" | "Lt" if re.fullmatch(r"-?\d+", first):
            return str(int(first) + (1 if requirement.operator == "Gt" else -1))
        case _:
            return None
