"""Admission predicates: decide whether this node accepts a pod (kubelet.md §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from podtui.api.local import Lack
from podtui.api.pod_resources import (
    BEST_EFFORT,
    RequestsOf,
    is_critical,
    is_pod_level,
    is_static,
    pod_requests,
    qos_class,
)
from podtui.api.pods import host_ports, ports_clash
from podtui.api.selectors import node_matches, tolerates
from podtui.api.v1 import Pod, Taint
from podtui.kubelet.admission.preemption import PODS, preempt
from podtui.kubelet.containers.restart import has_restart_all_rule
from podtui.kubelet.containers.security import wants_apparmor
from podtui.kubelet.sandbox.sandbox import forbidden_sysctl
from podtui.kubelet.types import AdmitResult, NodeView
from podtui.manifest.validation.resources import is_extended

UNEXPECTED: Final = "UnexpectedAdmissionError"
_OS_LABEL: Final = "kubernetes.io/os"
_MEMORY_PRESSURE: Final = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
_RESTART_ALL: Final = "RestartAllContainersOnContainerExits"


def _lack_failure(lack: Lack) -> tuple[str, str]:
    message = (
        f"Node didn't have enough resource: {lack.resource}, requested: {lack.requested},"
        f" used: {lack.used}, capacity: {lack.capacity}"
    )
    return f"OutOf{lack.resource}", message


def lacks_of(
    pod: Pod, node: NodeView, others: Sequence[Pod], requests_of: RequestsOf
) -> Iterator[Lack]:
    """Yield the resources that the node lacks for ``pod`` beside ``others``, in the order in which
    the kubelet reports them."""
    allocatable = node.resources.allocatable
    allowed = allocatable.get(PODS, 0)
    if len(others) + 1 > allowed:
        yield Lack(resource=PODS, requested=1, used=len(others), capacity=allowed)
    requests = {name: amount for name, amount in requests_of(pod).items() if amount > 0}
    if not requests:
        return
    used: dict[str, int] = {}
    for other in others:
        for name, amount in requests_of(other).items():
            used[name] = used.get(name, 0) + amount
    first = ("cpu", "memory", "ephemeral-storage")
    ordered = [name for name in first if name in requests]
    ordered += sorted(name for name in requests if name not in first)
    for name in ordered:
        if is_extended(name) and name not in allocatable:
            continue
        capacity, taken = allocatable.get(name, 0), used.get(name, 0)
        if requests[name] > capacity - taken:
            yield Lack(resource=name, requested=requests[name], used=taken, capacity=capacity)


def beyond_node(pod: Pod, node: NodeView) -> str:
    """Return why a resize can never fit: the pod requests more than the node has without any other
    pod (kubelet.md §13.6). Empty if it may fit."""
    requests, allocatable = pod_requests(pod), node.resources.allocatable
    for name in ("memory", "cpu"):
        requested, capacity = requests.get(name, 0), allocatable.get(name, 0)
        if requested > capacity:
            return (
                f"Node didn't have enough capacity: {name}, requested: {requested},"
                f" capacity: {capacity}"
            )
    return ""


def _port_is_taken(pod: Pod, others: Sequence[Pod]) -> bool:
    wanted = host_ports(pod)
    if not wanted:
        return False
    taken = {port for other in others for port in host_ports(other)}
    return any(ports_clash(port, used) for port in wanted for used in taken)


def _mismatches(pod: Pod, node: NodeView, others: Sequence[Pod]) -> Iterator[tuple[str, str]]:
    """Yield (reason, message) for each mismatch other than a lack of resources."""
    if not node_matches(pod, node.name, node.labels):
        yield "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
    if pod.spec.nodeName and pod.spec.nodeName != node.name:
        yield "NodeName", "node(s) didn't match the requested node name"
    if _port_is_taken(pod, others):
        yield "NodePorts", "node(s) didn't have free ports for the requested pod ports"
    if not is_static(pod) and any(
        taint.effect == "NoExecute" and not tolerates(pod.spec.tolerations, taint)
        for taint in node.taints
    ):
        yield "TaintToleration", "node(s) had taints that the pod didn't tolerate"


def _refused(reason: str, message: str) -> AdmitResult:
    return AdmitResult(admitted=False, reason=reason, message=message)


def _pressure(pod: Pod, node: NodeView) -> AdmitResult | None:
    """Reject the pod if the node is under pressure. Critical pods always pass; memory pressure
    alone rejects only BestEffort pods that do not tolerate its taint."""
    if not node.conditions or is_critical(pod):
        return None
    if node.conditions == ("MemoryPressure",) and (
        qos_class(pod) != BEST_EFFORT or tolerates(pod.spec.tolerations, _MEMORY_PRESSURE)
    ):
        return None
    return _refused("Evicted", f"The node had condition: [{' '.join(node.conditions)}]. ")


def _system(pod: Pod, node: NodeView) -> AdmitResult | None:
    """Check the operating system and ``supplementalGroupsPolicy``, which not every engine
    supports."""
    spec = pod.spec
    if pod.metadata.labels.get(_OS_LABEL, node.os) != node.os:
        return _refused(
            "PodOSSelectorNodeLabelDoesNotMatch",
            f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label",
        )
    if spec.os is not None and spec.os.name != node.os:
        return _refused(
            "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        )
    security = spec.securityContext
    strict = security is not None and security.supplementalGroupsPolicy == "Strict"
    if strict and not node.supplemental_groups_policy:
        return _refused(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        )
    return None


def _fit(pod: Pod, node: NodeView, others: Sequence[Pod], requests_of: RequestsOf) -> AdmitResult:
    lacks = tuple(lacks_of(pod, node, others, requests_of))
    figures = tuple((lack.resource, lack.requested, lack.used, lack.capacity) for lack in lacks)
    mismatches = [
        (reason, f"Predicate {reason} failed: {problem}")
        for reason, problem in _mismatches(pod, node, others)
    ]
    critical = is_critical(pod)
    failures = mismatches if critical else [*map(_lack_failure, lacks), *mismatches]
    if failures:
        reason, message = failures[0]
        return AdmitResult(admitted=False, reason=reason, message=message, lacks=figures)
    if not lacks:
        return AdmitResult(admitted=True)
    needs = {lack.resource: lack.missing for lack in lacks}
    outcome = preempt(pod, others, needs)
    if outcome.short:
        missing = "".join(f"(res: {name}, q: {amount}), " for name, amount in outcome.short)
        return AdmitResult(
            admitted=False,
            reason=UNEXPECTED,
            message=(
                "Unexpected error while attempting to recover from admission failure: preemption:"
                " error finding a set of pods to preempt: no set of running pods found to reclaim"
                f" resources: [{missing}]"
            ),
            lacks=figures,
        )
    victims = tuple(victim.metadata.uid for victim in outcome.victims)
    return AdmitResult(admitted=True, preempt=victims, lacks=figures)


def _features(pod: Pod, gates: Mapping[str, bool]) -> AdmitResult | None:
    """Reject a pod that uses a feature whose feature gate is off."""
    resources = pod.spec.resources
    named = () if resources is None else (*resources.requests, *resources.limits)
    if any(map(is_pod_level, named)) and not gates.get("PodLevelResources", True):
        return _refused(
            "PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled"
        )
    if has_restart_all_rule(pod) and not gates.get(_RESTART_ALL, True):
        text = f"Pod requires node features that are not available: {_RESTART_ALL}"
        return _refused("PodFeatureUnsupported", text)
    return None


def admit(
    pod: Pod,
    node: NodeView,
    active: Sequence[Pod],
    *,
    requests: RequestsOf = pod_requests,
    gates: Mapping[str, bool] | None = None,
) -> AdmitResult:
    """Run the kubelet's admission handlers in their order; the first rejection counts.

    ``active`` are the pods that were admitted before and have not ended; ``pod`` itself is ignored
    among them. An admitted pod may require that other pods end first (``preempt``, in that order).
    ``requests`` replaces `pod_requests`, for callers with a cache. ``gates`` are the feature gates
    that the settings turn on or off.
    """
    others = [other for other in active if other.metadata.uid != pod.metadata.uid]
    refused = _pressure(pod, node)
    if refused is None and (
        text := forbidden_sysctl(pod, node.allowed_unsafe_sysctls, node.kernel)
    ):
        refused = _refused("SysctlForbidden", text)
    refused = refused or _system(pod, node)
    if refused is not None:
        return refused
    fit = _fit(pod, node, others, requests)
    if not fit.admitted:
        return fit
    if pod.status.phase in ("", "Pending") and not node.apparmor and wants_apparmor(pod):
        return _refused("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
    refused = _features(pod, gates or {})
    if refused is not None:
        return refused
    if node.shutting_down:
        return _refused("NodeShutdown", "Pod was rejected as the node is shutting down.")
    return fit
