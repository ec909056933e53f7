"""Diagnoses of Services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.discovery import EndpointSlice
from podtui.api.health import Health
from podtui.api.pods import is_finished, is_sidecar, is_true
from podtui.api.selectors import label_text
from podtui.api.v1 import Container, Endpoints, Node, Pod, Service, ServicePort
from podtui.text.nearest import closest
from podtui.text.terminal_text import plural
from podtui.why.inventory import Inventory, object_name
from podtui.why.types import Diagnosis, Kind
from podtui.why.workloads import alive, as_desired, deleting, has_failure, name_list, part_of

_DOCS: Final = "https://kubernetes.io/docs/concepts/services-networking/service/"
_SERVICE_NAME: Final = "kubernetes.io/service-name"


def diagnose_service(inventory: Inventory, item: Service) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    spec = item.spec
    if spec.type == "ExternalName":
        return as_desired(f"It is another name of {spec.externalName}; it has no endpoints.",
                          state="external name")  # fmt: skip
    if not spec.selector:
        return _without_selector(inventory, item)
    namespace = item.metadata.namespace
    everything = inventory.list(Pod, namespace)
    pods = [pod for pod in everything if selects(spec.selector, pod.metadata.labels)]
    running = alive(pods)
    if not running:
        return _nothing_selected(inventory, item, everything, ended=len(pods))
    ready = [pod for pod in running if is_true(pod, "Ready") or spec.publishNotReadyAddresses]
    bad_ports = [problem for port in spec.ports if (problem := _port_problem(port, running))]
    if bad_ports:
        return Diagnosis(
            cause="PortUnknown",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="no endpoints" if len(bad_ports) == len(spec.ports) else "port without endpoints",
            title=bad_ports[0],
            brief="targetPort is unknown",
            sentences=tuple(bad_ports[1:]),
            advice="Change targetPort, or give the port of the container this name.",
            docs=_DOCS + "#field-spec-ports",
        )
    parts = part_of(inventory, running)
    if not ready:
        fails = has_failure(parts)
        return Diagnosis(
            cause="PodsNotReady",
            kind=Kind.FAILURE if fails else Kind.WAIT,
            health=Health.FAILING if fails else Health.NOT_READY,
            state="no endpoints",
            title=f"None of its {plural(len(running), 'pod')} is ready.",
            brief="no pod is ready",
            sentences=("Only ready pods are endpoints.",),
            parts=parts,
            docs=_DOCS,
        )
    absent = _on_absent_nodes(inventory, ready)
    if absent and len(absent) == len(ready):
        return Diagnosis(
            cause="NodeAbsent",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="no endpoints",
            title=f"Its pods are on a node that does not exist: {name_list(absent)}.",
            brief="pods on an absent node",
        )
    sentences = [_undeclared(port, ready) for port in spec.ports]
    count = plural(len(ready), "endpoint")
    missing = len(running) - len(ready)
    if missing:
        return Diagnosis(
            cause="SomePodsNotReady",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="fewer endpoints",
            title=f"It has {count}; {plural(missing, 'more pod')} of its selector not ready.",
            sentences=tuple(filter(None, sentences)),
            parts=parts,
            docs=_DOCS,
        )
    names = name_list([pod.metadata.name for pod in ready])
    return as_desired(f"It has {count}: {names}.", *sentences, state="has endpoints")


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether the selector of a Service selects these labels."""
    return all(labels.get(key) == value for key, value in selector.items())


def _without_selector(inventory: Inventory, item: Service) -> Diagnosis:
    meta = item.metadata
    endpoints = inventory.get(Endpoints, meta.namespace, meta.name)
    addresses = {a.ip for s in endpoints.subsets for a in s.addresses} if endpoints else set[str]()
    for piece in inventory.list(EndpointSlice, meta.namespace):
        if piece.metadata.labels.get(_SERVICE_NAME) == meta.name:
            addresses |= {ip for endpoint in piece.endpoints for ip in endpoint.addresses}
    if addresses:
        return as_desired(
            "It has no selector; its endpoints are set by hand, or by another program:"
            f" {name_list(sorted(addresses))}.",
            state="has endpoints",
        )
    if (meta.namespace, meta.name) == ("default", "kubernetes"):
        return as_desired("It is the API server itself.", state="API")
    return Diagnosis(
        cause="NoSelector",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no endpoints",
        title="It has no selector, and no endpoints are set by hand.",
        brief="no selector",
        advice="Add spec.selector, or create an EndpointSlice with the label"
        f" {_SERVICE_NAME}={meta.name}.",
        docs=_DOCS + "#services-without-selectors",
    )


def _nothing_selected(
    inventory: Inventory, item: Service, pods: Iterable[Pod], *, ended: int
) -> Diagnosis:
    selector = item.spec.selector
    shown = label_text(selector)
    if ended:
        title = f"All pods that it selects ({shown}) have ended, or are being deleted."
    else:
        title = f"Its selector matches no pod: {shown}."
    sentences = [_workload_without_pods(inventory, item)]
    if not ended and not sentences[0]:
        sentences.append(_nearest(selector, pods))
    text = " ".join(filter(None, sentences))
    return Diagnosis(
        cause="SelectorMatchesNothing" if not ended else "PodsEnded",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no endpoints",
        title=title,
        brief="selector matches no pod" if not ended else "its pods have ended",
        sentences=(text,) if text else (),
        advice="Correct the selector or the labels of the pods"
        f" (kubectl get pods -n {item.metadata.namespace} --show-labels)."
        if not sentences[0]
        else "",
        docs="https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",
    )


def _workload_without_pods(inventory: Inventory, item: Service) -> str:
    """Return a sentence about a workload whose pods the Service would select."""
    namespace = item.metadata.namespace
    for kind in (Deployment, StatefulSet, DaemonSet, ReplicaSet):
        for workload in inventory.list(kind, namespace):
            meta = workload.spec.template.metadata
            if selects(item.spec.selector, meta.labels):
                name = object_name(workload)
                scaled = getattr(workload.spec, "replicas", None) == 0
                why = "is scaled to 0" if scaled else f"has no pods: podtui why {name}"
                return f"The workload that it selects, {name}, {why}."
    return ""


def _nearest(selector: Mapping[str, str], pods: Iterable[Pod]) -> str:
    """Return a sentence about the pod whose labels differ least from the selector."""
    best: tuple[int, str, list[str]] | None = None
    for pod in pods:
        labels = pod.metadata.labels
        if is_finished(pod):
            continue
        differences: list[str] = []
        for key, value in selector.items():
            if labels.get(key) == value:
                continue
            near = closest(key, labels)
            has = (
                f"{key}={labels[key]}"
                if key in labels
                else f"{near}={labels[near]}"
                if near
                else ""
            )
            differences.append(f"{key}={value} (it has {has})" if has else f"{key}={value}")
        similar = len(selector) - len(differences)
        hinted = sum("(" in text for text in differences)
        if (similar or hinted) and (best is None or similar * 2 + hinted > best[0]):
            best = (similar * 2 + hinted, pod.metadata.name, differences)
    if best is None:
        return ""
    return f"The most similar pod is {best[1]}: it lacks {', '.join(best[2])}."


def _ports_of(pod: Pod) -> list[Container]:
    return [*pod.spec.containers, *filter(is_sidecar, pod.spec.initContainers)]


def _port_problem(port: ServicePort, pods: Iterable[Pod]) -> str:
    """Return why a port has no number in any of the pods; empty if it has."""
    target = port.targetPort
    if not isinstance(target, str):
        return ""
    protocol = port.protocol or "TCP"
    names: dict[str, None] = {}
    for pod in pods:
        for container in _ports_of(pod):
            for candidate in container.ports:
                if candidate.name == target and (candidate.protocol or "TCP") == protocol:
                    return ""
                names[candidate.name or str(candidate.containerPort)] = None
    declared = f"they have {', '.join(names)}" if names else "they declare no ports"
    near = closest(target, [name for name in names if not name.isdecimal()])
    hint = f"; perhaps {near} is meant" if near else ""
    return f"No container of its pods has a {protocol} port named {target}: {declared}{hint}."


def _undeclared(port: ServicePort, pods: Iterable[Pod]) -> str:
    """Return a remark about a port number that no container declares, which may be a mistake."""
    target = port.port if port.targetPort is None else port.targetPort
    if isinstance(target, str):
        return ""
    declared = {p.containerPort for pod in pods for c in _ports_of(pod) for p in c.ports}
    if not declared or target in declared:
        return ""
    numbers = ", ".join(map(str, sorted(declared)))
    return (
        f"Its pods declare the port {numbers}, not {target}: perhaps a mistake, but a program may"
        " listen on ports that are not declared."
    )


def _on_absent_nodes(inventory: Inventory, pods: Iterable[Pod]) -> list[str]:
    nodes = {node.metadata.name for node in inventory.list(Node)}
    if not inventory.is_read(Node) or not nodes:
        return []
    return [pod.metadata.name for pod in pods if pod.spec.nodeName not in nodes]
