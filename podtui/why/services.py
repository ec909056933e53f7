"""Diagnoses of Services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.health import Health
from podtui.api.pods import is_finished, is_sidecar, is_true
from podtui.api.selectors import label_text
from podtui.api.urls import published_addresses
from podtui.api.v1 import Container, Node, Pod, Service, ServicePort
from podtui.text.nearest import closest
from podtui.text.terminal_text import plural
from podtui.why.documents import manifest_of, patch_command, placed
from podtui.why.endpoints import DOMAIN, SERVICE_NAME, endpoints_of, is_headless, selects
from podtui.why.inventory import Inventory, object_name
from podtui.why.types import Diagnosis, Kind
from podtui.why.workloads import alive, as_desired, deleting, has_failure, name_list, part_of

_DOCS: Final = "https://kubernetes.io/docs/concepts/services-networking/service/"
_WORKLOADS: Final = (Deployment, StatefulSet, DaemonSet, ReplicaSet)


def diagnose_service(inventory: Inventory, item: Service) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    spec = item.spec
    if spec.type == "ExternalName":
        return as_desired(
            f"It is another name of {spec.externalName}; it has no endpoints.",
            "Its name resolves to that one; ports are not mapped.",
            state="external name",
        )
    if not spec.selector:
        diagnosis = _without_selector(inventory, item)
    else:
        diagnosis = _with_selector(inventory, item)
    if diagnosis.kind is not Kind.FAILURE:
        diagnosis = _published(inventory, item) or diagnosis
    if diagnosis.evidence:
        return diagnosis
    warnings = [event for event in inventory.events(item) if event.type == "Warning"]
    if not warnings:
        return diagnosis
    reasons = tuple({event.reason for event in warnings})
    return replace(diagnosis, evidence=inventory.evidence(item, *reasons))


def _with_selector(inventory: Inventory, item: Service) -> Diagnosis:
    spec = item.spec
    everything = inventory.list(Pod, item.metadata.namespace)
    pods = [pod for pod in everything if selects(spec.selector, pod.metadata.labels)]
    running = alive(pods)
    if not running:
        return _nothing_selected(inventory, item, everything, ended=len(pods))
    ready = [pod for pod in running if is_true(pod, "Ready") or spec.publishNotReadyAddresses]
    bad_port = _unknown_port(inventory, item, running)
    if bad_port is not None:
        return bad_port
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


def _without_selector(inventory: Inventory, item: Service) -> Diagnosis:
    meta = item.metadata
    if (meta.namespace, meta.name) == ("default", "kubernetes"):
        return as_desired("It is the API server itself.", state="API")
    if (meta.namespace, meta.name) == ("kube-system", "kube-dns"):
        return as_desired("It is the DNS of the cluster itself.", state="DNS")
    endpoints = endpoints_of(inventory, item)
    ready = sorted({endpoint.address for endpoint in endpoints if endpoint.is_ready})
    if ready:
        return as_desired(
            "It has no selector; its endpoints are set by hand, or by another program:"
            f" {name_list(ready)}.",
            state="has endpoints",
        )
    if endpoints:
        addresses = name_list(sorted({endpoint.address for endpoint in endpoints}))
        return Diagnosis(
            cause="EndpointsNotReady",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="no endpoints",
            title=f"None of the endpoints that are set by hand is ready: {addresses}.",
            brief="no endpoint is ready",
            docs=_DOCS + "#services-without-selectors",
        )
    diagnosis = Diagnosis(
        cause="NoSelector",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no endpoints",
        title="It has no selector, and no endpoints are set by hand.",
        brief="no selector",
        advice="Add spec.selector, or create an EndpointSlice with the label"
        f" {SERVICE_NAME}={meta.name}.",
        docs=_DOCS + "#services-without-selectors",
    )
    return placed(inventory, item, diagnosis, ("spec", "selector"))


# --- the selector


def _nothing_selected(
    inventory: Inventory, item: Service, pods: Iterable[Pod], *, ended: int
) -> Diagnosis:
    selector = item.spec.selector
    if ended:
        return Diagnosis(
            cause="PodsEnded",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="no endpoints",
            title=f"All pods that it selects ({label_text(selector)}) have ended, or are being"
            " deleted.",
            brief="its pods have ended",
            docs="https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",
        )
    workload = _workload_without_pods(inventory, item)
    near = None if workload else _nearest_labels(inventory, item, pods)
    diagnosis = Diagnosis(
        cause="SelectorMatchesNothing",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no endpoints",
        title=f"Its selector matches no pod: {label_text(selector)}.",
        brief="selector matches no pod",
        sentences=(workload,) if workload else (),
        docs="https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",
    )
    if workload:
        return diagnosis
    show = f"kubectl get pods -n {item.metadata.namespace} --show-labels"
    if near is None:
        advice = f"Correct the selector or the labels of the pods ({show})."
        return placed(inventory, item, replace(diagnosis, advice=advice), ("spec", "selector"))
    text, patch, changes = near
    diagnosis = replace(diagnosis, sentences=(text,))
    diagnosis = placed(inventory, item, diagnosis, ("spec", "selector"), *changes)
    if patch and manifest_of(inventory, item) is None:
        command = patch_command("service", item, {"spec": {"selector": patch}})
        return replace(diagnosis, advice=f"If that pod is meant: {command}")
    return replace(
        diagnosis, advice=f"If another pod is meant, correct its labels instead ({show})."
    )


def _workload_without_pods(inventory: Inventory, item: Service) -> str:
    """Return a sentence about a workload whose pods the Service would select."""
    for kind in _WORKLOADS:
        for workload in inventory.list(kind, item.metadata.namespace):
            meta = workload.spec.template.metadata
            if selects(item.spec.selector, meta.labels):
                name = object_name(workload)
                scaled = getattr(workload.spec, "replicas", None) == 0
                why = "is scaled to 0" if scaled else f"has no pods: podtui why {name}"
                return f"The workload that it selects, {name}, {why}."
    return ""


def _nearest_labels(
    inventory: Inventory, item: Service, pods: Iterable[Pod]
) -> tuple[str, dict[str, Any], list[tuple[str, tuple[str, ...], str]]] | None:
    """Return a sentence about the pod whose labels differ least from the selector, the change of
    the selector that would select it, and the same as changes of the manifest."""
    selector = item.spec.selector
    best: tuple[int, Pod, list[tuple[str, str]]] | None = None
    for pod in pods:
        labels = pod.metadata.labels
        if is_finished(pod):
            continue
        differing = [key for key, value in selector.items() if labels.get(key) != value]
        # The key that the pod has instead of each, or none.
        pairs = [(key, key if key in labels else closest(key, labels)) for key in differing]
        similar = len(selector) - len(differing)
        hinted = sum(bool(near) for _, near in pairs)
        # A value with a typing error is nearer than another one.
        spelt = sum(bool(near) and bool(closest(selector[key], [labels[near]]))
                    for key, near in pairs)  # fmt: skip
        score = similar * 4 + hinted * 2 + spelt
        if (similar or hinted) and (best is None or score > best[0]):
            best = (score, pod, pairs)
    if best is None:
        return None
    _, pod, pairs = best
    labels = pod.metadata.labels
    texts = [
        f"{key}={selector[key]} (it has {near}={labels[near]})"
        if near
        else f"{key}={selector[key]}"
        for key, near in pairs
    ]
    patch: dict[str, Any] = {}
    changes: list[tuple[str, tuple[str, ...], str]] = []
    for key, near in pairs:
        if near == key:
            path = ("spec", "selector", key)
            changes.append((f"Select {key}={labels[key]}", path, labels[key]))
        if near != key:
            patch[key] = None
        if near:
            patch[near] = labels[near]
    # A fix is offered only if it is the whole change.
    whole = len(changes) == len(pairs) == 1
    sentence = f"The most similar pod is {pod.metadata.name}: it lacks {', '.join(texts)}."
    remains = {**selector, **patch}
    if not any(value is not None for value in remains.values()):
        patch = {}
    return sentence, patch, changes if whole else []


# --- ports


def ports_of(pod: Pod) -> list[Container]:
    return [*pod.spec.containers, *filter(is_sidecar, pod.spec.initContainers)]


def _unknown_port(inventory: Inventory, item: Service, pods: Sequence[Pod]) -> Diagnosis | None:
    """Explain ports whose ``targetPort`` is a name that no container has."""
    problems = [
        (index, problem)
        for index, port in enumerate(item.spec.ports)
        if (problem := _port_problem(port, pods)) is not None
    ]
    if not problems:
        return None
    index, (title, near) = problems[0]
    every = len(problems) == len(item.spec.ports)
    path = ("spec", "ports", index, "targetPort")
    diagnosis = Diagnosis(
        cause="PortUnknown",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="no endpoints" if every else "port without endpoints",
        title=title,
        brief="targetPort is unknown",
        sentences=tuple(text for _, (text, _) in problems[1:]),
        advice="Change targetPort, or give the port of the container this name.",
        docs=_DOCS + "#field-spec-ports",
    )
    if not near:
        return placed(inventory, item, diagnosis, path)
    diagnosis = placed(inventory, item, diagnosis, path, (f"Use targetPort {near}", path, near))
    if manifest_of(inventory, item) is not None:
        return diagnosis
    operation = [{"op": "replace", "path": f"/spec/ports/{index}/targetPort", "value": near}]
    command = patch_command("service", item, operation)
    return replace(diagnosis, advice=f"If that port is meant: {command}")


def _port_problem(port: ServicePort, pods: Iterable[Pod]) -> tuple[str, str] | None:
    """Return why a port has no number in any of the pods, and the name that is probably meant; None
    if it has a number."""
    target = port.targetPort
    if not isinstance(target, str):
        return None
    protocol = port.protocol or "TCP"
    names: dict[str, None] = {}
    other = ""
    for pod in pods:
        for container in ports_of(pod):
            for candidate in container.ports:
                its = candidate.protocol or "TCP"
                if candidate.name == target and its == protocol:
                    return None
                if candidate.name == target:
                    other = its
                shown = candidate.name or str(candidate.containerPort)
                names[shown if its == protocol else f"{shown} ({its})"] = None
    if other:
        text = f"The port {target} of its pods is {other}, not {protocol}."
        return f"{text} Set protocol: {other}, or a port with {protocol}.", ""
    declared = f"they have {', '.join(names)}" if names else "they declare no ports"
    near = closest(target, [name for name in names if name.replace("-", "").isalnum()
                            and not name.isdecimal()])  # fmt: skip
    if not near and len(names) == 1:
        only = next(iter(names))
        hint = "" if "(" in only else f"; perhaps {only} is meant"
    else:
        hint = f"; perhaps {near} is meant" if near else ""
    return f"No container of its pods has a {protocol} port named {target}: {declared}{hint}.", near


def _undeclared(port: ServicePort, pods: Iterable[Pod]) -> str:
    """Return a remark about a port number that no container declares, which may be a mistake."""
    target = port.port if port.targetPort is None else port.targetPort
    if isinstance(target, str):
        return ""
    protocol = port.protocol or "TCP"
    declared = {
        (p.containerPort, p.protocol or "TCP")
        for pod in pods for c in ports_of(pod) for p in c.ports
    }  # fmt: skip
    if not declared or (target, protocol) in declared:
        return ""
    others = sorted({its for number, its in declared if number == target})
    if others:
        return (
            f"Its pods declare the port {target} with {' and '.join(others)}, not {protocol}:"
            " perhaps a mistake, but a program may listen on ports that are not declared."
        )
    numbers = ", ".join(map(str, sorted({number for number, _ in declared})))
    return (
        f"Its pods declare the port {numbers}, not {target}: perhaps a mistake, but a program may"
        " listen on ports that are not declared."
    )


# --- addresses outside of the cluster


def _published(inventory: Inventory, item: Service) -> Diagnosis | None:
    """Explain a Service that cannot be reached from outside of the cluster, although it asks for
    that."""
    spec = item.spec
    if spec.type not in ("NodePort", "LoadBalancer"):
        return None
    published = published_addresses(item)
    absent = [
        port
        for port in spec.ports
        if port.nodePort
        and not any(a.endswith(f":{port.nodePort}/{port.protocol or 'TCP'}") for a in published)
    ]
    # An event tells what was; the annotation what is now. A cluster has no such annotation.
    taken = [
        event
        for event in inventory.events(item)
        if event.type == "Warning"
        and "in use" in event.message.lower()
        and (inventory.in_cluster or absent or not any(port.nodePort for port in spec.ports))
    ]
    numbers = ", ".join(str(port.nodePort) for port in spec.ports if port.nodePort)
    if taken:
        return Diagnosis(
            cause="NodePortInUse",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="port in use",
            title="Another program on the machine uses one of its ports.",
            brief="its port on the machine is in use",
            sentences=(f"Its node ports are {numbers}.",) if numbers else (),
            evidence=inventory.evidence(item, *{event.reason for event in taken}),
            advice="End that program, or choose another nodePort"
            " (without one, a free one is allocated).",
            docs=_DOCS + "#type-nodeport",
        )
    if spec.type == "LoadBalancer" and not item.status.loadBalancer.ingress:
        of_class = f" of the class {spec.loadBalancerClass}" if spec.loadBalancerClass else ""
        return Diagnosis(
            cause="LoadBalancerPending",
            kind=Kind.WAIT,
            health=Health.PENDING,
            state="no address",
            title=f"It waits for the address of a load balancer{of_class}.",
            brief="no load balancer address",
            sentences=tuple(
                filter(None, (
                    f"Its node ports can be used meanwhile: {numbers}." if numbers else "",
                    f"From inside: {item.metadata.name}.{item.metadata.namespace}.svc.{DOMAIN}.",
                ))
            ),
            docs=_DOCS + "#loadbalancer",
        )  # fmt: skip
    return None


def _on_absent_nodes(inventory: Inventory, pods: Iterable[Pod]) -> list[str]:
    nodes = {node.metadata.name for node in inventory.list(Node)}
    if not inventory.is_read(Node) or not nodes:
        return []
    return [pod.metadata.name for pod in pods if pod.spec.nodeName not in nodes]


# --- a port, as a client asks for it


def target_text(port: ServicePort) -> str:
    """Return ``8080`` or ``http``: the port of the pods."""
    return str(port.port if port.targetPort is None else port.targetPort)


def refused_port(item: Service, number: int) -> str:
    """Return why a port is not one of a Service; empty if it is, or if it may be."""
    spec = item.spec
    if not number or spec.type == "ExternalName" or not spec.ports or is_headless(item):
        return ""
    if any(port.port == number for port in spec.ports):
        return ""
    served = ", ".join(str(port.port) for port in spec.ports)
    by_target: Mapping[str, ServicePort] = {target_text(port): port for port in spec.ports}
    meant = by_target.get(str(number))
    if meant is not None:
        return f"{number} is its targetPort, clients use {meant.port}"
    return f"it has no port {number}, but {served}"
