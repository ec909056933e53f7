"""Rules for scheduling: affinity, tolerations, topology spread, gates.

No scheduler handles a static pod, but the API server rejects malformed fields nevertheless.
"""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodReadinessGate,
    PodSchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import (
    label_name,
    label_selector,
    label_values,
    set_operator,
)

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(affinity_spec: Affinity | None, path: str) -> Errors:
    if affinity_spec is None:
        return
    if affinity_spec.nodeAffinity is not None:
        yield from _node_affinity(affinity_spec.nodeAffinity, f"{path}.nodeAffinity")
    if affinity_spec.podAffinity is not None:
        yield from _pod_affinity(affinity_spec.podAffinity, f"{path}.podAffinity")
    if affinity_spec.podAntiAffinity is not None:
        yield from _pod_affinity(affinity_spec.podAntiAffinity, f"{path}.podAntiAffinity")


def _weight(weight: int, path: str) -> Errors:
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _node_affinity(affinity_spec: NodeAffinity, path: str) -> Errors:
    must = affinity_spec.requiredDuringSchedulingIgnoredDuringExecution
    if must is not None:
        yield from node_selector(must, f"{path}.{_REQUIRED}")
    for index, preferred in enumerate(
        affinity_spec.preferredDuringSchedulingIgnoredDuringExecution
    ):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred.weight, here)
        yield from _node_term(preferred.preference, f"{here}.preference", check_values=False)


def node_selector(selector: NodeSelector, path: str) -> Errors:
    here = f"{path}.nodeSelectorTerms"
    if not selector.nodeSelectorTerms:
        yield required(here, "must have at least one node selector term")
    for index, term in enumerate(selector.nodeSelectorTerms):
        yield from _node_term(term, f"{here}[{index}]", check_values=True)


def _node_term(term: NodeSelectorTerm, path: str, *, check_values: bool) -> Errors:
    for index, requirement in enumerate(term.matchExpressions):
        here = f"{path}.matchExpressions[{index}]"
        yield from _node_requirement(requirement, here)
        if check_values:
            yield from label_values(requirement.values, f"{here}.values")
    for index, requirement in enumerate(term.matchFields):
        yield from _node_field(requirement, f"{path}.matchFields[{index}]")


def _node_requirement(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator in ("Gt", "Lt"):
        if len(requirement.values) != 1:
            yield required(
                f"{path}.values",
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )
    else:
        yield from set_operator(requirement.operator, requirement.values, path)
    yield from label_name(requirement.key, f"{path}.key")


def _node_field(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator not in ("In", "NotIn"):
        operator = GoText(requirement.operator)
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(requirement.values) != 1:
        yield required(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        yield from invalid_each(f"{path}.values[{index}]", value, formats.dns_subdomain(value))


def _pod_affinity(affinity_spec: PodAffinity | PodAntiAffinity, path: str) -> Errors:
    for index, term in enumerate(affinity_spec.requiredDuringSchedulingIgnoredDuringExecution):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, preferred in enumerate(
        affinity_spec.preferredDuringSchedulingIgnoredDuringExecution
    ):
        here = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred.weight, here)
        yield from _pod_term(preferred.podAffinityTerm, f"{here}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Errors:
    yield from label_selector(term.labelSelector, f"{path}.labelSelector")
    yield from label_selector(term.namespaceSelector, f"{path}.namespaceSelector")
    for index, name in enumerate(term.namespaces):
        at = f"{path}.namespaces[{index}]"
        yield from invalid_each(f"{path}.namespace", name, formats.dns_label(name), at=at)
    yield from _label_keys(term.matchLabelKeys, term.mismatchLabelKeys, term.labelSelector, path)
    if not term.topologyKey:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from label_name(term.topologyKey, f"{path}.topologyKey")


def _label_keys(
    match: tuple[str, ...], mismatch: tuple[str, ...], selector: LabelSelector | None, path: str
) -> Errors:
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from label_name(key, f"{path}.{name}[{index}]")
    if selector is not None:
        # The API server merges matchLabelKeys into matchExpressions, so that one expression for
        # such a key is allowed; any further occurrence is an error.
        seen = set(selector.matchLabels)
        for expression in selector.matchExpressions:
            if expression.key in match and expression.key in seen:
                index = len(match) - 1 - match[::-1].index(expression.key)
                yield invalid(
                    f"{path}[{index}]",
                    expression.key,
                    "exists in both matchLabelKeys and labelSelector",
                    at=f"{path}.matchLabelKeys[{index}]",
                )
            seen.add(expression.key)
    for index, key in enumerate(match):
        if key in mismatch:
            yield invalid(
                f"{path}.matchLabelKeys[{index}]",
                key,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            )


def tolerations(entries: tuple[Toleration, ...], path: str) -> Errors:
    for index, toleration in enumerate(entries):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: Toleration, path: str) -> Errors:
    operator, value = f"{path}.operator", toleration.value
    if toleration.key:
        yield from label_name(toleration.key, f"{path}.key")
    elif toleration.operator != "Exists":
        yield invalid(
            operator,
            GoText(toleration.operator),
            "operator must be Exists when `key` is empty,"
            ' which means "match all values and all keys"',
        )
    if toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
        yield invalid(
            f"{path}.effect",
            GoText(toleration.effect),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    if toleration.operator in ("Equal", ""):
        problems = formats.label_value(value)
        if problems:
            yield invalid(operator, value, ";".join(problems), at=f"{path}.value")
    elif toleration.operator == "Exists":
        if value:
            why = "value must be empty when `operator` is 'Exists'"
            yield invalid(operator, value, why, at=f"{path}.value")
    elif toleration.operator in ("Lt", "Gt"):
        # Lt and Gt need a feature gate that is off, but the message lists them nevertheless.
        yield not_supported(operator, toleration.operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield not_supported(operator, toleration.operator, ("Equal", "Exists"))
    if toleration.effect and toleration.effect not in TAINT_EFFECTS:
        yield not_supported(f"{path}.effect", toleration.effect, TAINT_EFFECTS)


def spread(constraints: tuple[TopologySpreadConstraint, ...], path: str) -> Errors:
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        yield from _spread_one(constraint, here)
        kind = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if any((c.topologyKey, c.whenUnsatisfiable) == kind for c in constraints[index + 1 :]):
            yield duplicate(
                f"{here}.{{topologyKey, whenUnsatisfiable}}",
                f"{{{kind[0]}, {kind[1]}}}",
                at=here,
            )
        yield from _label_keys(constraint.matchLabelKeys, (), constraint.labelSelector, here)
        yield from label_selector(constraint.labelSelector, f"{here}.labelSelector")


def _spread_one(constraint: TopologySpreadConstraint, path: str) -> Errors:
    yield from _positive(constraint.maxSkew, f"{path}.maxSkew")
    if not constraint.topologyKey:
        yield required(f"{path}.topologyKey", "can not be empty")
    action = constraint.whenUnsatisfiable
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        supported = ("DoNotSchedule", "ScheduleAnyway")
        yield not_supported(f"{path}.whenUnsatisfiable", action, supported)
    if constraint.minDomains is not None:
        yield from _positive(constraint.minDomains, f"{path}.minDomains")
        if action != "DoNotSchedule":
            yield invalid(
                f"{path}.minDomains",
                constraint.minDomains,
                f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
            )
    for name, policy in (
        ("nodeAffinityPolicy", constraint.nodeAffinityPolicy),
        ("nodeTaintsPolicy", constraint.nodeTaintsPolicy),
    ):
        if policy not in ("", "Honor", "Ignore"):
            yield not_supported(f"{path}.{name}", policy, ("Honor", "Ignore"))


def _positive(number: int, path: str) -> Errors:
    if number <= 0:
        yield invalid(path, number, "must be greater than zero")


def readiness_gates(gates: tuple[PodReadinessGate, ...], path: str) -> Errors:
    for index, gate in enumerate(gates):
        yield from label_name(gate.conditionType, f"{path}[{index}].conditionType")


def scheduling_gates(gates: tuple[PodSchedulingGate, ...], path: str) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        here, at = f"{path}[{index}]", f"{path}[{index}].name"
        yield from label_name(gate.name, here, at=at)
        if gate.name in seen:
            yield duplicate(here, gate.name, at=at)
        seen.add(gate.name)
