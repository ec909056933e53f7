"""The endpoints of a Service with their health, the names by which pods reach it, and the Service
that a host name means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.discovery import EndpointSlice
from podtui.api.pods import is_true
from podtui.api.v1 import Endpoints, Namespace, Pod, Service
from podtui.why.inventory import Inventory
from podtui.why.workloads import alive

SERVICE_NAME: Final = "kubernetes.io/service-name"
DOMAIN: Final = "cluster.local"


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """One address behind a Service. ``problem`` is the reason why it gets no connections; empty if
    it is ready. ``ports`` are the numbers by the name of the Service's port; ``hostname`` is the
    name of a pod of a headless Service."""

    address: str
    ports: tuple[tuple[str, int], ...] = ()
    pod: Pod | None = None
    problem: str = ""
    hostname: str = ""

    @property
    def is_ready(self) -> bool:
        return not self.problem


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether the selector of a Service selects these labels."""
    return all(labels.get(key) == value for key, value in selector.items())


def is_headless(service: Service) -> bool:
    return service.spec.clusterIP == "None"


def selected_pods(inventory: Inventory, service: Service) -> list[Pod]:
    """Return the pods that a Service selects and that have not ended."""
    if not service.spec.selector or service.spec.type == "ExternalName":
        return []
    return [
        pod
        for pod in alive(inventory.list(Pod, service.metadata.namespace))
        if selects(service.spec.selector, pod.metadata.labels)
    ]


def endpoints_of(inventory: Inventory, service: Service) -> list[EndpointHealth]:
    """Return the endpoints of a Service, and the pods that it selects and that are no endpoints;
    those that are ready first."""
    meta = service.metadata
    pods = selected_pods(inventory, service)
    by_name = {pod.metadata.name: pod for pod in inventory.list(Pod, meta.namespace)}
    result = list(_of_slices(inventory, service, by_name))
    if not result:
        result = list(_of_endpoints(inventory, service, by_name))
    there = {id(endpoint.pod) for endpoint in result if endpoint.pod is not None}
    # The controller writes a slice for each Service with a selector, even without endpoints.
    has_slices = any(_slices(inventory, service))
    for pod in pods:
        if id(pod) in there:
            continue
        problem = _pod_problem(inventory, pod)
        if not problem and has_slices:
            problem = "is ready, but not among the endpoints yet"
        result.append(EndpointHealth(pod.status.podIP, (), pod, problem))
    return sorted(result, key=lambda endpoint: not endpoint.is_ready)


def _slices(inventory: Inventory, service: Service) -> Iterator[EndpointSlice]:
    for piece in inventory.list(EndpointSlice, service.metadata.namespace):
        if piece.metadata.labels.get(SERVICE_NAME) == service.metadata.name:
            yield piece


def _of_slices(
    inventory: Inventory, service: Service, pods: Mapping[str, Pod]
) -> Iterator[EndpointHealth]:
    seen: set[tuple[str, tuple[tuple[str, int], ...]]] = set()
    for piece in _slices(inventory, service):
        ports = tuple((port.name, port.port) for port in piece.ports if port.port is not None)
        for endpoint in piece.endpoints:
            ref = endpoint.targetRef
            pod = pods.get(ref.name) if ref is not None and ref.kind == "Pod" else None
            conditions = endpoint.conditions
            problem = ""
            if conditions.terminating:
                problem = "is terminating"
            elif conditions.ready is False:
                problem = _pod_problem(inventory, pod) if pod is not None else ""
                problem = problem or "is not ready"
            for address in endpoint.addresses:
                if (address, ports) not in seen:
                    seen.add((address, ports))
                    yield EndpointHealth(address, ports, pod, problem, endpoint.hostname)


def _of_endpoints(
    inventory: Inventory, service: Service, pods: Mapping[str, Pod]
) -> Iterator[EndpointHealth]:
    meta = service.metadata
    item = inventory.get(Endpoints, meta.namespace, meta.name)
    for subset in item.subsets if item is not None else ():
        ports = tuple((port.name, port.port) for port in subset.ports)
        for addresses, ready in ((subset.addresses, True), (subset.notReadyAddresses, False)):
            for each in addresses:
                ref = each.targetRef
                pod = pods.get(ref.name) if ref is not None and ref.kind == "Pod" else None
                problem = ""
                if not ready:
                    problem = _pod_problem(inventory, pod) if pod is not None else ""
                    problem = problem or "is not ready"
                yield EndpointHealth(each.ip, ports, pod, problem, each.hostname)


def _pod_problem(inventory: Inventory, pod: Pod) -> str:
    """Return why a pod is not ready, in a few words; empty if it is."""
    if is_true(pod, "Ready"):
        return ""
    diagnosis = inventory.pod_diagnosis(pod)
    return diagnosis.brief or diagnosis.title.rstrip(".") or "is not ready"


# --- names


def service_names(
    service: Service, endpoints: Iterable[EndpointHealth] = (), domain: str = DOMAIN
) -> list[tuple[str, str]]:
    """Return the names that the DNS of the cluster has for a Service, each with what it resolves
    to: its own, the SRV names of named ports, and those of the pods of a headless Service."""
    meta, spec = service.metadata, service.spec
    full = f"{meta.name}.{meta.namespace}.svc.{domain}"
    if spec.type == "ExternalName":
        return [(full, f"CNAME {spec.externalName}")]
    endpoints = list(endpoints)
    ready = sum(endpoint.is_ready for endpoint in endpoints)
    headless = is_headless(service)
    whole = f"the addresses of its {ready} ready endpoints" if headless else spec.clusterIP
    if headless and ready == 1:
        whole = "the address of its ready endpoint"
    names = [(full, whole)]
    names += (
        (f"_{port.name}._{(port.protocol or 'TCP').lower()}.{full}", f"SRV, port {port.port}")
        for port in spec.ports
        if port.name
    )
    if headless:
        names += (
            (f"{endpoint.hostname}.{full}", endpoint.address)
            for endpoint in endpoints
            if endpoint.hostname and (endpoint.is_ready or spec.publishNotReadyAddresses)
        )
    return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class ServiceName:
    """The name of a Service in a namespace, and of one of its pods, as a host name says it."""

    name: str
    namespace: str
    pod: str = ""


def read_host(inventory: Inventory, host: str, namespace: str) -> ServiceName | None:
    """Return the Service that a host name means for a pod in a namespace; None for a name outside
    of the cluster. The Service need not exist."""
    labels = host.lower().rstrip(".").split(".")
    if "svc" in labels[1:]:
        at = len(labels) - 1 - labels[::-1].index("svc")
        before = labels[:at]
        if len(before) == 2:
            return ServiceName(before[0], before[1])
        if len(before) == 3:
            return ServiceName(before[1], before[2], before[0])
        return None
    if len(labels) == 1:
        return ServiceName(labels[0], namespace)
    services = {
        (item.metadata.namespace, item.metadata.name): item for item in inventory.list(Service)
    }
    if len(labels) == 2:
        first, second = labels
        if (second, first) in services:
            return ServiceName(first, second)
        headless = services.get((namespace, second))
        if headless is not None and is_headless(headless):
            return ServiceName(second, namespace, first)
        return ServiceName(first, second) if second in _namespaces(inventory) else None
    if len(labels) == 3 and (labels[2], labels[1]) in services:
        return ServiceName(labels[1], labels[2], labels[0])
    return None


def _namespaces(inventory: Inventory) -> set[str]:
    names = {item.metadata.name for item in inventory.list(Namespace)}
    return names or {item.metadata.namespace for item in inventory.list(Service)}
