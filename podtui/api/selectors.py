"""Match labels, nodes and taints against selectors and tolerations (kubelet.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtui.api.v1 import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Taint,
    Toleration,
)

Labels = Mapping[str, str]


def labels_match(selector: LabelSelector | None, labels: Labels) -> bool:
    """Return whether a label selector selects the labels. No selector selects nothing, an empty one
    everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.matchLabels.items()) and all(
        _matches(requirement, labels) for requirement in selector.matchExpressions
    )


def label_text(labels: Labels) -> str:
    """Return labels as kubectl prints them: ``app=web,tier=front``; ``<none>`` without any."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def selector_text(selector: LabelSelector | None) -> str:
    """Return a selector as kubectl prints it: ``app=web,tier in (a,b),!old``; ``<none>`` if it has
    no requirements, ``<error>`` if an operator is unknown."""
    if selector is None:
        return "<none>"
    texts = [(key, f"{key}={value}") for key, value in selector.matchLabels.items()]
    for requirement in selector.matchExpressions:
        key, values = requirement.key, ",".join(sorted(requirement.values))
        match requirement.operator:
            case "In":
                texts.append((key, f"{key} in ({values})"))
            case "NotIn":
                texts.append((key, f"{key} notin ({values})"))
            case "Exists":
                texts.append((key, key))
            case "DoesNotExist":
                texts.append((key, f"!{key}"))
            case _:
                return "<error>"
    return ",".join(text for _, text in sorted(texts, key=lambda pair: pair[0])) or "<none>"


def node_matches(pod: Pod, name: str, labels: Labels) -> bool:
    """Check ``nodeSelector`` and the required node affinity against a node."""
    if any(labels.get(key) != value for key, value in pod.spec.nodeSelector.items()):
        return False
    affinity = pod.spec.affinity
    if affinity is None or affinity.nodeAffinity is None:
        return True
    required = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is None:
        return True
    return any(node_term_matches(term, name, labels) for term in required.nodeSelectorTerms)


def node_term_matches(term: NodeSelectorTerm, name: str, labels: Labels) -> bool:
    """Return whether a node meets all requirements of the term. A term without requirements matches
    no node."""
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": name}
    return all(_matches(requirement, labels) for requirement in term.matchExpressions) and all(
        _matches(requirement, fields) for requirement in term.matchFields
    )


def _matches(requirement: NodeSelectorRequirement | LabelSelectorRequirement, on: Labels) -> bool:
    value = on.get(requirement.key)
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
            number, bound = _integer(value), _integer(next(iter(requirement.values), None))
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator == "Gt" else number < bound
        case _:
            return False


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations tolerates the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
