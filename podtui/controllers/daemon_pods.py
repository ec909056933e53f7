"""The pods of a DaemonSet: on which nodes they may run, and what is added to its template.

A daemon pod is bound to its node by an affinity to the node's name, so that the scheduler places it
like any other pod.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import structs

from podtui.api.apps import DaemonSet
from podtui.api.selectors import node_matches, tolerates
from podtui.api.v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from podtui.controllers.history import REVISION_LABEL
from podtui.controllers.pods import pod_of_template, with_labels

GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_FIELD: Final = "metadata.name"
_PREFIX: Final = "node.kubernetes.io"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK: Final = ("network-unavailable", "NoSchedule")


class Fit(Enum):
    """The fit of a node for a daemon pod. A taint can refuse new pods and let running ones stay."""

    RUNS = "runs"
    STAYS = "stays"
    LEAVES = "leaves"


def fit(daemon_set: DaemonSet, node: Node) -> Fit:
    spec = daemon_set.spec.template.spec
    name, labels = node.metadata.name, node.metadata.labels
    if spec.nodeName not in ("", name) or not node_matches(Pod(spec=spec), name, labels):
        return Fit.LEAVES
    tolerations = with_tolerations(spec).tolerations
    effects = {taint.effect for taint in node.spec.taints if not tolerates(tolerations, taint)}
    if "NoExecute" in effects:
        return Fit.LEAVES
    return Fit.STAYS if "NoSchedule" in effects else Fit.RUNS


def new_pod(daemon_set: DaemonSet, node: str, hash_value: str) -> Pod:
    """Return a pod for a node, made from the template, whose revision has this hash."""
    labels = {REVISION_LABEL: hash_value}
    if (generation := template_generation(daemon_set)) is not None:
        labels[GENERATION_LABEL] = str(generation)
    pod = pod_of_template(with_labels(daemon_set.spec.template, labels), daemon_set)
    return structs.replace(pod, spec=_bound(with_tolerations(pod.spec), node))


def template_generation(daemon_set: DaemonSet) -> int | None:
    """Return the number of the template, which the API server counts in an annotation."""
    try:
        return int(daemon_set.metadata.annotations[GENERATION])
    except (KeyError, ValueError):
        return None


def is_updated(daemon_set: DaemonSet, pod: Pod, hash_value: str) -> bool:
    """Return whether the pod was made from the current template."""
    labels, generation = pod.metadata.labels, template_generation(daemon_set)
    return labels.get(REVISION_LABEL) == hash_value or (
        generation is not None and labels.get(GENERATION_LABEL) == str(generation)
    )


def with_tolerations(spec: PodSpec) -> PodSpec:
    """Tolerate the problems of nodes: daemon pods are often what works on them."""
    tolerations = list(spec.tolerations)
    host = (_TOLERATED_ON_HOST_NETWORK,) if spec.hostNetwork else ()
    for name, effect in (*_TOLERATED, *host):
        added = Toleration(key=f"{_PREFIX}/{name}", operator="Exists", effect=effect)
        same = [
            index
            for index, toleration in enumerate(tolerations)
            if structs.replace(toleration, tolerationSeconds=None) == added
        ]
        if same:
            tolerations[same[0]] = added
        else:
            tolerations.append(added)
    return structs.replace(spec, tolerations=tuple(tolerations))


def _bound(spec: PodSpec, node: str) -> PodSpec:
    """Replace the required node affinity by one to the node's name."""
    requirement = NodeSelectorRequirement(key=_FIELD, operator="In", values=(node,))
    term = NodeSelectorTerm(matchFields=(requirement,))
    affinity = spec.affinity or Affinity()
    required = structs.replace(
        affinity.nodeAffinity or NodeAffinity(),
        requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=(term,)),
    )
    return structs.replace(spec, affinity=structs.replace(affinity, nodeAffinity=required))


def node_of(pod: Pod) -> str | None:
    """Return the name of the node that the pod runs on or is meant for; None if it has none."""
    if pod.spec.nodeName:
        return pod.spec.nodeName
    affinity = pod.spec.affinity and pod.spec.affinity.nodeAffinity
    required = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution
    for term in required.nodeSelectorTerms if required else ():
        for requirement in term.matchFields:
            if requirement.key == _FIELD and requirement.operator == "In":
                return requirement.values[0] if len(requirement.values) == 1 else None
    return None
