"""Causes of a rejection by the node's admission (kubelet.md §5)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from podtui.api.v1 import Pod
from podtui.editing.source import Source
from podtui.why.amounts import (
    HostPort,
    allocatable,
    host_ports,
    lacking,
    largest_request,
    lowered,
    plain,
    requested,
)
from podtui.why.node_labels import label_command, labels_to_fit
from podtui.why.types import Facts, Fix, Match, Rule

_DOCS = "https://kubernetes.io/docs/"
_DEVICE_DOCS = _DOCS + "concepts/extend-kubernetes/compute-storage-net/device-plugins/"
_NO_DEVICE = re.compile(
    r"requested number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)"
)
_NO_PLUGIN = re.compile(
    r"(?:cannot allocate unhealthy devices|cannot allocate unregistered device|registered resource:"
    r"|\bendpoint) ([^\s,/]+/[^\s,]+)"
)
_SYSCTL = re.compile(r'forbidden sysctl: "([^"]+)"(.*)')


def is_rejected(pod: Pod) -> bool:
    """Return whether admission rejected the pod: it failed before any container was created."""
    status = pod.status
    created = status.containerStatuses or status.initContainerStatuses or status.conditions
    return status.phase == "Failed" and bool(status.reason) and not created


def _refusal(facts: Facts, *reasons: str) -> str:
    """Return the node's message if it rejected the pod for one of these reasons (for any, if none
    is given)."""
    if not is_rejected(facts.pod) or (reasons and facts.pod.status.reason not in reasons):
        return ""
    return facts.pod.status.message.removeprefix("Pod was rejected: ") or facts.pod.status.reason


def _shortage(facts: Facts) -> dict[str, str]:
    """Return the template values for the insufficient resource, if there is one."""
    for resource, missing in lacking(_refusal(facts, "UnexpectedAdmissionError")).items():
        if resource == "pods":
            continue
        total = allocatable(facts.node, resource)
        holders = facts.node_pods.holders(resource, facts.pod)
        return {
            "resource": resource,
            "lack": plain(missing),
            "request": plain(requested(facts.pod, resource)),
            "allocatable": plain(total) if total is not None else "less than that",
            "holders": ", ".join(f"{name} {plain(amount)}" for name, amount in holders)
            or "no other pod",
        }
    return {}


def _exceeds_node(facts: Facts) -> Match | None:
    values = _shortage(facts)
    total = allocatable(facts.node, values["resource"]) if values else None
    if total is None or requested(facts.pod, values["resource"]) <= total:
        return None
    return _of_request(facts, values)


def _insufficient(facts: Facts) -> Match | None:
    values = _shortage(facts)
    return _of_request(facts, values) if values else None


def _of_request(facts: Facts, values: dict[str, str]) -> Match:
    largest = largest_request(facts.pod, values["resource"])
    return Match(values, largest[0] if largest else ("spec", "containers"))


def _lower_request(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    resource = match.values["resource"]
    largest = largest_request(facts.pod, resource)
    missing = lacking(facts.pod.status.message).get(resource)
    left = lowered(largest[1], missing, resource) if largest and missing else None
    if largest is None or left is None:
        return
    edits = source.set(largest[0], str(left))
    note = "The program must work with this amount; the limit is not changed."
    yield Fix(f"Lower the {resource} request to {left}, which fits now", edits, note)


def _no_device(facts: Facts) -> Match | None:
    match = _NO_DEVICE.search(_refusal(facts, "UnexpectedAdmissionError"))
    if match is None:
        return None
    resource, request, free = match.groups()
    holders = facts.node_pods.holders(resource, facts.pod)
    users = ", ".join(f"{name} {plain(amount)}" for name, amount in holders)
    values = {"resource": resource, "request": request, "free": free, "users": users or "no pod"}
    return _of_request(facts, values)


def _no_plugin(facts: Facts) -> Match | None:
    match = _NO_PLUGIN.search(_refusal(facts, "UnexpectedAdmissionError"))
    return _of_request(facts, {"resource": match[1]}) if match is not None else None


def _too_many(facts: Facts) -> Match | None:
    if "pods" not in lacking(_refusal(facts, "UnexpectedAdmissionError")):
        return None
    most = allocatable(facts.node, "pods")
    return Match({"most": f"its maximum of {most}" if most else "its maximum number of"})


def _taken(facts: Facts) -> tuple[HostPort, str] | None:
    """Return the host port that another pod already uses, and that pod's name."""
    for port in host_ports(facts.pod):
        holder = facts.node_pods.port_holder(port, facts.pod)
        if holder:
            return port, holder
    return None


def _port(facts: Facts) -> Match | None:
    if not _refusal(facts, "NodePorts"):
        return None
    taken = _taken(facts)
    if taken is None:
        wanted = ", ".join(f"{p.protocol} {p.number}" for p in host_ports(facts.pod))
        return Match({"port": wanted, "holder": "another pod"}, ("spec", "containers"))
    port, holder = taken
    return Match({"port": f"{port.protocol} {port.number}", "holder": holder}, port.path)


def move_port(facts: Facts, port: HostPort, source: Source) -> Iterator[Fix | None]:
    """Offer another host port, or none at all; the container port stays unchanged."""
    if facts.pod.spec.hostNetwork:
        return
    other = facts.node_pods.next_port(port, facts.pod)
    if other is not None:
        yield Fix(f"Use port {other} of the node instead", source.set(port.path, other))
    edit = source.remove(port.path)
    if edit is not None:
        note = "The pod is then reachable only at its own address."
        yield Fix("Remove the hostPort", (edit,), note)


def _move(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    taken = _taken(facts)
    if taken is not None:
        yield from move_port(facts, taken[0], source)


def _unmet(facts: Facts) -> tuple[str, str, str] | None:
    """Return a required label that the node lacks: its key, its value, and the node's nearest
    label."""
    labels = facts.node.metadata.labels if facts.node is not None else {}
    for key, value in facts.pod.spec.nodeSelector.items():
        if labels.get(key) != value:
            near = difflib.get_close_matches(key, labels, n=1)
            nearest = key if key in labels else (near[0] if near else "")
            return key, value, f"{nearest}={labels[nearest]}" if nearest else ""
    return None


def _selector(facts: Facts) -> Match | None:
    unmet = _unmet(facts) if _refusal(facts, "NodeAffinity") else None
    if unmet is None:
        return None
    key, value, near = unmet
    has = f"Its most similar label is {near}." if near else "It has no similar label."
    values = {"label": f"{key}={value}", "has": has, **_label_advice(facts, "nodeSelector")}
    return Match(values, ("spec", "nodeSelector", key))


def _label_advice(facts: Facts, field: str) -> dict[str, str]:
    """Return the remedies: labels of the node if they help, else only a change of the field."""
    labels = labels_to_fit(facts.pod, facts.node)
    if not labels:
        return {"advice": f"Change or remove the {field}."}
    command = label_command(facts.node, labels)
    return {"advice": f"{command}; then retry the pod. Or change or remove the {field}."}


def _select_less(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    unmet = _unmet(facts)
    if unmet is None or facts.node is None:
        return
    key = unmet[0]
    if key in facts.node.metadata.labels:
        value = facts.node.metadata.labels[key]
        yield Fix(f"Select {key}={value}, which this node has",
                  source.set(("spec", "nodeSelector", key), value))  # fmt: skip
    whole = len(facts.pod.spec.nodeSelector) == 1
    edit = source.remove(("spec", "nodeSelector") if whole else ("spec", "nodeSelector", key))
    if edit is not None:
        yield Fix("Remove the selector: there is only one node" if whole else
                  "Remove this label from the selector", (edit,))  # fmt: skip


def _affinity(facts: Facts) -> Match | None:
    if not _refusal(facts, "NodeAffinity"):
        return None
    return Match(_label_advice(facts, "affinity"))


def _sysctl(facts: Facts) -> Match | None:
    match = _SYSCTL.search(_refusal(facts, "SysctlForbidden"))
    if match is None:
        return None
    context = facts.pod.spec.securityContext
    sysctls = context.sysctls if context is not None else ()
    index = next((i for i, s in enumerate(sysctls) if s.name == match[1]), 0)
    why = (
        "It is not a safe sysctl."
        if "not allowlisted" in match[2]
        else "The pod shares that namespace with the node, whose own setting it would change."
    )
    path = ("spec", "securityContext", "sysctls", index)
    return Match({"sysctl": match[1], "why": why}, path)


def _refused_for(*reasons: str) -> Callable[[Facts], Match | None]:
    def match(facts: Facts) -> Match | None:
        text = _refusal(facts, *reasons)
        return Match({"text": text, "reason": facts.pod.status.reason}) if text else None

    return match


def _without_os(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    yield Fix("Set it to linux", source.set(("spec", "os", "name"), "linux"))


def _without_os_label(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    path = ("metadata", "labels", "kubernetes.io/os")
    yield Fix("Set it to linux", source.set(path, "linux"))


ADMISSION: tuple[Rule[Facts], ...] = (
    Rule(
        id="TooBigForTheNode",
        match=_exceeds_node,
        title="It requests {request} of {resource}, but the whole node has {allocatable}.",
        brief="{request} {resource} requested, node has {allocatable}",
        sentences=("Even without other pods, this node cannot run it.",),
        advice="Lower the request, or run it on a larger machine.",
        events=("UnexpectedAdmissionError",),
        fixes=_lower_request,
        docs=_DOCS + "concepts/configuration/manage-resources-containers/",
    ),
    Rule(
        id="NoRoom",
        match=_insufficient,
        title="The node lacks {lack} of {resource}: the pod requests {request}, others the rest.",
        brief="node lacks {lack} {resource}",
        sentences=(
            "Requests count, not usage. Largest requests: {holders}.",
            "A rejected pod is not retried: edit it, or retry it when resources are available.",
        ),
        advice="Lower this request or another pod's, or remove a pod.",
        events=("UnexpectedAdmissionError",),
        fixes=_lower_request,
        docs=_DOCS + "concepts/configuration/manage-resources-containers/",
    ),
    Rule(
        id="NoDevice",
        match=_no_device,
        title="The container needs {request} of {resource}, but the node had {free} free.",
        brief="no free {resource}",
        sentences=(
            "Largest requests now: {users}.",
            "A rejected pod is not retried: retry it when devices are free.",
        ),
        advice="Lower the amount, or remove a pod that uses the devices; then retry the pod.",
        events=("UnexpectedAdmissionError",),
        docs=_DEVICE_DOCS,
    ),
    Rule(
        id="NoDevicePlugin",
        match=_no_plugin,
        title="The plugin of {resource} is not connected, or none of its devices is healthy.",
        brief="no plugin or healthy device of {resource}",
        sentences=("A rejected pod is not retried: retry it when the devices are healthy.",),
        advice="Start the device plugin, or look at its log; then retry the pod.",
        events=("UnexpectedAdmissionError",),
        docs=_DEVICE_DOCS,
    ),
    Rule(
        id="TooManyPods",
        match=_too_many,
        title="The node already runs {most} pods.",
        brief="node is full: {most} pods",
        advice="Remove a pod, or raise maxPods in the settings.",
        events=("UnexpectedAdmissionError",),
        docs=_DOCS + "setup/best-practices/cluster-large/",
    ),
    Rule(
        id="HostPortTaken",
        match=_port,
        title="Port {port} of the node is already used by the pod {holder}.",
        brief="port {port} taken by {holder}",
        sentences=("A hostPort is a port of the node: two pods cannot use the same one.",),
        advice="Give one of the two pods another hostPort, or none.",
        events=("NodePorts",),
        fixes=_move,
        docs=_DOCS + "concepts/configuration/overview/",
    ),
    Rule(
        id="NodeLabelMissing",
        match=_selector,
        title="It may run only on a node with the label {label}, which this node does not have.",
        brief="node lacks {label}",
        sentences=("{has}",),
        advice="{advice}",
        events=("NodeAffinity",),
        fixes=_select_less,
        docs=_DOCS + "concepts/scheduling-eviction/assign-pod-node/",
    ),
    Rule(
        id="NodeAffinity",
        match=_affinity,
        title="Its node affinity does not allow this node.",
        brief="node affinity excludes the node",
        sentences=("At least one of the required terms must match the node's labels or its name.",),
        advice="{advice}",
        field=("spec", "affinity", "nodeAffinity"),
        events=("NodeAffinity",),
        docs=_DOCS + "concepts/scheduling-eviction/assign-pod-node/",
    ),
    Rule(
        id="SysctlForbidden",
        match=_sysctl,
        title="The sysctl {sysctl} is not allowed.",
        brief="sysctl {sysctl} not allowed",
        sentences=("{why}",),
        advice="Remove it, or allow it with allowedUnsafeSysctls in the settings.",
        events=("SysctlForbidden",),
        docs=_DOCS + "tasks/administer-cluster/sysctl-cluster/",
    ),
    Rule(
        id="AppArmorMissing",
        match=_refused_for("AppArmor"),
        title="It requests an AppArmor profile, but this machine has no AppArmor.",
        brief="no AppArmor on the node",
        advice="Remove the profile, or use type: Unconfined.",
        field=("spec", "securityContext", "appArmorProfile"),
        events=("AppArmor",),
        docs=_DOCS + "tutorials/security/apparmor/",
    ),
    Rule(
        id="WrongOS",
        match=_refused_for("PodOSNotSupported"),
        title="It is a pod for another operating system: this node runs Linux.",
        brief="not for Linux",
        field=("spec", "os", "name"),
        events=("PodOSNotSupported",),
        fixes=_without_os,
        docs=_DOCS + "concepts/workloads/pods/#pod-os",
    ),
    Rule(
        id="WrongOSLabel",
        match=_refused_for("PodOSSelectorNodeLabelDoesNotMatch"),
        title="Its label kubernetes.io/os names another operating system: this node runs Linux.",
        brief="not for Linux",
        field=("metadata", "labels", "kubernetes.io/os"),
        events=("PodOSSelectorNodeLabelDoesNotMatch",),
        fixes=_without_os_label,
        docs=_DOCS + "reference/labels-annotations-taints/",
    ),
    Rule(
        id="FeatureMissing",
        match=_refused_for(
            "SupplementalGroupsPolicyNotSupported",
            "PodLevelResourcesNotSupported",
            "PodFeatureUnsupported",
        ),
        title="It uses a feature that this node lacks: {text}",
        brief="node lacks a feature: {text}",
        advice="Remove it from the manifest.",
        field=("spec",),
        events=(
            "SupplementalGroupsPolicyNotSupported",
            "PodLevelResourcesNotSupported",
            "PodFeatureUnsupported",
        ),
    ),
    Rule(
        id="NodeUnderPressure",
        match=_refused_for("Evicted"),
        title="The node is short of memory, disk or process ids and admitted no new pods: {text}",
        brief="node pressure: {text}",
        advice="Free the scarce resource; then retry the pod.",
        events=("Evicted",),
        docs=_DOCS + "concepts/scheduling-eviction/node-pressure-eviction/",
    ),
    Rule(
        id="NodeShuttingDown",
        match=_refused_for("NodeShutdown"),
        title="The machine was shutting down when the pod was added.",
        brief="machine was shutting down",
        advice="It is admitted when the machine is up again.",
        events=("NodeShutdown",),
        docs=_DOCS + "concepts/cluster-administration/node-shutdown/",
    ),
    Rule(
        id="Rejected",
        match=_refused_for(),
        title="The node rejected it: {text}",
        brief="rejected: {text}",
        sentences=("A rejected pod is not retried.",),
        advice="Change the field that the message names, or retry the pod.",
        field=("spec",),
    ),
)
