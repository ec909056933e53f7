"""The endpoints of Services: the addresses of the pods that a Service selects.

They are written twice: as EndpointSlices, and as the deprecated Endpoints. Endpoints that a user
makes for a Service without a selector are copied to slices. A slice has at most 100 endpoints of
one address family, all with the same ports; pods whose named ports differ go to different slices.
An update keeps each endpoint in the slice that it is in, so that few slices change.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from podtui.api import v1
from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.pods import is_sidecar
from podtui.api.v1 import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    Node,
    ObjectMeta,
    ObjectReference,
    Pod,
    Service,
    ServicePort,
)
from podtui.client.cache import Cache, Key, Kind
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import Keys, own_key
from podtui.controllers.pods import is_ready, owner_reference
from podtui.errors import ApiError

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS: Final = "service.kubernetes.io/headless"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_RESERVED: Final = (SERVICE_NAME, MANAGED_BY, HEADLESS)
SLICES: Final = "endpointslice-controller.k8s.io"
MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
MAX_ENDPOINTS: Final = 100
_MAX_MIRRORED: Final = 1000
_MAX_PREFIX: Final = 58
_ZONE: Final = "topology.kubernetes.io/zone"
Ports = tuple[EndpointPort, ...]


# --- the endpoints of pods


def is_endpoint(pod: Pod, *, terminating: bool) -> bool:
    """Return whether the pod has an address and has not ended; ``terminating`` includes pods that
    are being deleted."""
    if pod.status.phase in ("Succeeded", "Failed") or not pod_addresses(pod):
        return False
    return terminating or pod.metadata.deletionTimestamp is None


def pod_addresses(pod: Pod) -> list[str]:
    return [entry.ip for entry in pod.status.podIPs] or list(filter(None, [pod.status.podIP]))


def family_of(address: str) -> str:
    """Return ``IPv4`` or ``IPv6``; empty if the text is not an address."""
    try:
        return f"IPv{ipaddress.ip_address(address).version}"
    except ValueError:
        return ""


def families_of(service: Service) -> tuple[str, ...]:
    return service.spec.ipFamilies or (family_of(service.spec.clusterIP) or "IPv4",)


def is_selecting(service: Service) -> bool:
    """Return whether the Service has endpoints made from pods."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def selects(service: Service, pod: Pod) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(key) == value for key, value in service.spec.selector.items())


def target_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the number of a Service's port in a pod; None if no container has a port of its
    name."""
    target = port.port if port.targetPort is None else port.targetPort
    if isinstance(target, int):
        return target
    containers = (*pod.spec.containers, *filter(is_sidecar, pod.spec.initContainers))
    for container in containers:
        for candidate in container.ports:
            named = candidate.name == target
            if named and (candidate.protocol or "TCP") == (port.protocol or "TCP"):
                return candidate.containerPort
    return None


def ports_of(service: Service, pod: Pod) -> Ports:
    return tuple(
        EndpointPort(
            name=port.name,
            port=number,
            protocol=port.protocol or "TCP",
            appProtocol=port.appProtocol,
        )
        for port in service.spec.ports
        if (number := target_port(pod, port)) is not None
    )


def hostname_of(service: Service, pod: Pod) -> str:
    """Return the name of the pod below that of a headless Service."""
    return pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""


def reference_to(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)


def endpoint_of(service: Service, pod: Pod, family: str, zone: str) -> Endpoint:
    serving = is_ready(pod)
    terminating = pod.metadata.deletionTimestamp is not None
    ready = bool(service.spec.publishNotReadyAddresses) or (serving and not terminating)
    return Endpoint(
        addresses=tuple(ip for ip in pod_addresses(pod) if family_of(ip) == family),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        targetRef=reference_to(pod),
        nodeName=pod.spec.nodeName,
        zone=zone,
        hostname=hostname_of(service, pod),
    )


# --- slices


@dataclass(slots=True)
class SlicePlan:
    """``create`` have no names yet."""

    create: list[EndpointSlice] = field(default_factory=list[EndpointSlice])
    update: list[EndpointSlice] = field(default_factory=list[EndpointSlice])
    delete: list[EndpointSlice] = field(default_factory=list[EndpointSlice])


def slice_labels(service: Service) -> dict[str, str]:
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if service.spec.clusterIP in ("", "None"):
        labels[HEADLESS] = ""
    return labels | {SERVICE_NAME: service.metadata.name, MANAGED_BY: SLICES}


def plan_slices(
    service: Service,
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    nodes: Mapping[str, Node],
) -> SlicePlan:
    """Return the changes of a Service's slices. Pods of absent nodes are left out."""
    plan = SlicePlan()
    families = families_of(service)
    kept: dict[str, list[EndpointSlice]] = {family: [] for family in families}
    for item in slices:
        owned = any(owner.uid == service.metadata.uid for owner in item.metadata.ownerReferences)
        if item.addressType in kept and owned:
            kept[item.addressType].append(item)
        else:
            plan.delete.append(item)
    present = [pod for pod in pods if is_endpoint(pod, terminating=True)]
    for family, existing in kept.items():
        desired: dict[Ports, list[Endpoint]] = {}
        for pod in present:
            node = nodes.get(pod.spec.nodeName)
            if node is None and not service.spec.publishNotReadyAddresses:
                continue
            zone = "" if node is None else node.metadata.labels.get(_ZONE, "")
            endpoint = endpoint_of(service, pod, family, zone)
            if endpoint.addresses:
                desired.setdefault(ports_of(service, pod), []).append(endpoint)
        _plan_family(plan, _new_slice(service, family), desired, existing)
    return plan


def _new_slice(service: Service, family: str) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            generateName=_prefix(service.metadata.name),
            namespace=service.metadata.namespace,
            labels=slice_labels(service),
            ownerReferences=(owner_reference(service),),
        ),
        addressType=family,
    )


def _prefix(name: str) -> str:
    return f"{name}-" if len(name) < _MAX_PREFIX else name


def _plan_family(
    plan: SlicePlan,
    empty: EndpointSlice,
    desired: Mapping[Ports, Sequence[Endpoint]],
    existing: Sequence[EndpointSlice],
) -> None:
    """Plan the slices of one address family. ``empty`` is a new slice; a Service without endpoints
    has one."""
    by_ports: defaultdict[Ports, list[EndpointSlice]] = defaultdict(list)
    for item in existing:
        by_ports[item.ports].append(item)
    create: list[EndpointSlice] = []
    update: list[EndpointSlice] = []
    delete: list[EndpointSlice] = []
    for ports, endpoints in desired.items():
        filled = _fill(by_ports.pop(ports, []), endpoints, structs.replace(empty, ports=ports))
        create += filled.create
        update += filled.update
        delete += filled.delete
    for items in by_ports.values():
        delete += items
    if not create and len(delete) == len(existing):
        create = [empty]
    # A slice that is not needed becomes one that is.
    while create and delete:
        before, after = delete.pop(0), create.pop(0)
        _add_update(update, before, after)
    plan.create += create
    plan.update += update
    plan.delete += delete


def _add_update(update: list[EndpointSlice], before: EndpointSlice, after: EndpointSlice) -> None:
    """Add an update of a slice, if it changes anything."""
    meta = structs.replace(before.metadata, labels=after.metadata.labels)
    new = structs.replace(before, metadata=meta, ports=after.ports, endpoints=after.endpoints)
    if new != before:
        update.append(new)


def _fill(
    existing: Sequence[EndpointSlice], endpoints: Iterable[Endpoint], empty: EndpointSlice
) -> SlicePlan:
    """Put endpoints with the same ports into slices."""
    missing = {_identity(endpoint): endpoint for endpoint in endpoints}
    contents: list[tuple[EndpointSlice, list[Endpoint]]] = []
    for item in existing:
        kept = [missing.pop(_identity(old), None) for old in item.endpoints]
        contents.append((item, [endpoint for endpoint in kept if endpoint is not None]))
    rest = list(missing.values())
    # Slices that change anyway take the rest, the fullest first; then one other, if it has room.
    changed = [(old, new) for old, new in contents if new and list(old.endpoints) != new]
    for _, content in sorted(changed, key=lambda pair: -len(pair[1])):
        room = MAX_ENDPOINTS - len(content)
        content += rest[:room]
        rest = rest[room:]
    while len(rest) >= MAX_ENDPOINTS:
        contents.append((empty, rest[:MAX_ENDPOINTS]))
        rest = rest[MAX_ENDPOINTS:]
    if rest:
        room = [new for _, new in contents if new and len(new) + len(rest) <= MAX_ENDPOINTS]
        if room:
            max(room, key=len).extend(rest)
        else:
            contents.append((empty, rest))
    plan = SlicePlan()
    for old, new in contents:
        after = structs.replace(empty, endpoints=tuple(new))
        if old is empty:
            plan.create.append(after)
        elif not new:
            plan.delete.append(old)
        else:
            _add_update(plan.update, old, after)
    return plan


def _identity(endpoint: Endpoint) -> tuple[object, ...]:
    target = endpoint.targetRef
    owner = () if target is None else (target.namespace, target.name, target.uid)
    return (endpoint.addresses, endpoint.hostname, owner)


# --- Endpoints


def subsets_of(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    published = bool(service.spec.publishNotReadyAddresses)
    family = families_of(service)[0]
    subsets: list[EndpointSubset] = []
    for pod in pods:
        addresses = [ip for ip in pod_addresses(pod) if family_of(ip) == family]
        if not addresses or not is_endpoint(pod, terminating=published):
            continue
        address = EndpointAddress(
            ip=addresses[0],
            nodeName=pod.spec.nodeName,
            targetRef=reference_to(pod),
            hostname=hostname_of(service, pod),
        )
        ports = tuple(
            v1.EndpointPort(
                name=port.name,
                port=port.port or 0,
                protocol=port.protocol,
                appProtocol=port.appProtocol,
            )
            for port in ports_of(service, pod)
        )
        if not ports and (service.spec.ports or service.spec.clusterIP != "None"):
            continue
        if published or is_ready(pod):
            subsets.append(EndpointSubset(addresses=(address,), ports=ports))
        else:
            subsets.append(EndpointSubset(notReadyAddresses=(address,), ports=ports))
    return repack(subsets)


def repack(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """Group addresses that have the same ports. An address that is ready once is ready."""
    ports_by_address: dict[tuple[str, str], set[v1.EndpointPort]] = {}
    addresses: dict[tuple[str, str], tuple[EndpointAddress, bool]] = {}
    for subset in subsets:
        pairs = [(address, True) for address in subset.addresses]
        pairs += [(address, False) for address in subset.notReadyAddresses]
        for address, ready in pairs:
            uid = address.targetRef.uid if address.targetRef is not None else ""
            key = (address.ip, uid)
            ports_by_address.setdefault(key, set()).update(subset.ports)
            earlier = addresses.get(key)
            addresses[key] = (address, ready or (earlier is not None and earlier[1]))
    groups: defaultdict[tuple[v1.EndpointPort, ...], list[tuple[EndpointAddress, bool]]]
    groups = defaultdict(list)
    for key in sorted(addresses):
        ports = sorted(ports_by_address[key], key=lambda port: (port.name, port.port))
        groups[tuple(ports)].append(addresses[key])
    return tuple(
        EndpointSubset(
            addresses=tuple(address for address, ready in group if ready),
            notReadyAddresses=tuple(address for address, ready in group if not ready),
            ports=ports,
        )
        for ports, group in sorted(groups.items(), key=lambda item: _port_texts(item[0]))
    )


def _port_texts(ports: Iterable[v1.EndpointPort]) -> list[tuple[str, int, str]]:
    return [(port.name, port.port, port.protocol) for port in ports]


def endpoints_of(
    service: Service, subsets: tuple[EndpointSubset, ...], old: Endpoints | None
) -> Endpoints:
    labels = {key: value for key, value in service.metadata.labels.items() if key != HEADLESS}
    if service.spec.clusterIP in ("", "None"):
        labels[HEADLESS] = ""
    labels[_ENDPOINTS_MANAGED_BY] = "endpoint-controller"
    if old is None:
        meta = ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace)
        old = Endpoints(metadata=meta)
    return structs.replace(
        old, metadata=structs.replace(old.metadata, labels=labels), subsets=subsets
    )


# --- copies of hand-made Endpoints


def is_mirrored(endpoints: Endpoints, service: Service | None) -> bool:
    meta = endpoints.metadata
    if service is None or service.spec.selector or meta.deletionTimestamp is not None:
        return False
    return meta.labels.get(SKIP_MIRROR) != "true"


def mirror_slices(endpoints: Endpoints) -> tuple[list[EndpointSlice], int]:
    """Return the slices that copy hand-made Endpoints, and the number of texts that are no
    addresses."""
    meta, invalid = endpoints.metadata, 0
    slices: list[EndpointSlice] = []
    annotations = {
        key: value
        for key, value in meta.annotations.items()
        if key not in (TRIGGER_TIME, _LAST_APPLIED)
    }
    new = EndpointSlice(
        metadata=ObjectMeta(
            generateName=_prefix(meta.name),
            namespace=meta.namespace,
            labels={**meta.labels, SERVICE_NAME: meta.name, MANAGED_BY: MIRROR},
            annotations=annotations,
            ownerReferences=(owner_reference(endpoints),),
        ),
        addressType="IPv4",
    )
    for subset in repack(endpoints.subsets):
        ports = tuple(
            EndpointPort(
                name=port.name, port=port.port, protocol=port.protocol, appProtocol=port.appProtocol
            )
            for port in subset.ports
        )
        by_family: defaultdict[str, list[Endpoint]] = defaultdict(list)
        pairs = [(address, True) for address in subset.addresses]
        pairs += [(address, False) for address in subset.notReadyAddresses]
        for address, ready in pairs:
            family = family_of(address.ip)
            invalid += not family
            if family and sum(map(len, by_family.values())) < _MAX_MIRRORED:
                by_family[family].append(_mirrored(address, ready=ready))
        slices += [
            structs.replace(new, addressType=family, ports=ports, endpoints=tuple(items))
            for family, items in by_family.items()
        ]
    return slices, invalid


def _mirrored(address: EndpointAddress, *, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=(address.ip,),
        conditions=EndpointConditions(ready=ready),
        targetRef=address.targetRef,
        nodeName=address.nodeName,
        hostname=address.hostname,
    )


def plan_mirror(wanted: Sequence[EndpointSlice], existing: Sequence[EndpointSlice]) -> SlicePlan:
    """Match slices by their address family and ports."""
    plan, rest = SlicePlan(), list(existing)
    for new in wanted:
        old = next(
            (
                item
                for item in rest
                if (item.addressType, item.ports) == (new.addressType, new.ports)
            ),
            None,
        )
        if old is None:
            plan.create.append(new)
            continue
        rest.remove(old)
        meta = structs.replace(
            old.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations
        )
        changed = structs.replace(old, metadata=meta, endpoints=new.endpoints)
        if changed != old:
            plan.update.append(changed)
    plan.delete += rest
    return plan


# --- the time of the change


class TriggerTimes:
    """Finds the time of the oldest change of a Service's pods that is not written yet, from which
    the delay of the endpoints is measured."""

    def __init__(self) -> None:
        self._last: dict[Key, dict[str, str]] = {}

    def update(self, service: Service, pods: Iterable[Pod]) -> str:
        """Return the time, or an empty text if nothing has changed. For a new Service, it is that
        of its creation."""
        key, created = _key(service), service.metadata.creationTimestamp or ""
        times = {pod.metadata.name: _ready_time(pod) for pod in pods}
        before = self._last.get(key)
        self._last[key] = times
        if before is None:
            return created
        return min(
            (time for name, time in times.items() if time > before.get(name, "")), default=""
        )

    def forget(self, key: Key) -> None:
        self._last.pop(key, None)


def _ready_time(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.lastTransitionTime or ""
    return ""


def with_trigger_time(meta: ObjectMeta, time: str) -> ObjectMeta:
    annotations = {key: value for key, value in meta.annotations.items() if key != TRIGGER_TIME}
    if time:
        annotations[TRIGGER_TIME] = time
    return structs.replace(meta, annotations=annotations)


# --- the controllers


def _key(item: Service | Endpoints) -> Key:
    return (item.metadata.namespace, item.metadata.name)


class _ServiceKeys:
    """The Services that a pod or a slice belongs to."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def of_pod(self, pod: Pod) -> Iterable[Key]:
        for service in self._cache.list(Service, pod.metadata.namespace):
            if is_selecting(service) and selects(service, pod):
                yield _key(service)

    def pods(self, service: Service) -> list[Pod]:
        pods = self._cache.list(Pod, service.metadata.namespace)
        return [pod for pod in pods if selects(service, pod)]


def _slice_keys(manager: str) -> Keys:
    def keys(item: EndpointSlice) -> Iterable[Key]:
        labels = item.metadata.labels
        if labels.get(MANAGED_BY) == manager and (name := labels.get(SERVICE_NAME)):
            yield (item.metadata.namespace, name)

    return keys


def _slices(cache: Cache, key: Key, manager: str) -> list[EndpointSlice]:
    of_manager = _slice_keys(manager)
    return [
        item
        for item in cache.list(EndpointSlice, key[0])
        if item.metadata.deletionTimestamp is None and key in of_manager(item)
    ]


def _no_keys(item: Node) -> Iterable[Key]:
    return ()


async def _carry_out(writer: Writer, plan: SlicePlan, *, creates: bool, time: str | None) -> None:
    """``creates`` is False for an owner that is being deleted. ``time`` is the annotation of the
    changed slices; None leaves them as they are."""
    for item in plan.create if creates else ():
        if time is not None:
            item = structs.replace(item, metadata=with_trigger_time(item.metadata, time))
        await writer.create(EndpointSlice, item)
    for item in plan.update:
        if time is not None:
            item = structs.replace(item, metadata=with_trigger_time(item.metadata, time))
        await writer.update(EndpointSlice, item)
    for item in plan.delete:
        await writer.delete(EndpointSlice, item)


class EndpointSliceController:
    name = "endpoint-slice-controller"

    def __init__(self, cache: Cache, writer: Writer, events: ControllerEvents) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._services = _ServiceKeys(cache)
        self._times = TriggerTimes()

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            Service: own_key,
            Pod: self._services.of_pod,
            EndpointSlice: _slice_keys(SLICES),
            Node: _no_keys,
        }

    async def sync(self, key: Key) -> float | None:
        service = self._cache.get(Service, *key)
        if service is None:
            self._times.forget(key)
            return None
        if not is_selecting(service):
            return None
        pods = self._services.pods(service)
        nodes = {node.metadata.name: node for node in self._cache.list(Node)}
        plan = plan_slices(service, pods, _slices(self._cache, key, SLICES), nodes)
        time = self._times.update(service, pods)
        creates = service.metadata.deletionTimestamp is None
        try:
            await _carry_out(self._writer, plan, creates=creates, time=time)
        except ApiError as error:
            if error.code != 409:
                message = f"Error updating Endpoint Slices for Service {'/'.join(key)}: {error}"
                reason = "FailedToUpdateEndpointSlices"
                self._events.record(self.name, service, "Warning", reason, message)
            raise
        return None


class EndpointsController:
    name = "endpoint-controller"

    def __init__(self, cache: Cache, writer: Writer, events: ControllerEvents) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._services = _ServiceKeys(cache)
        self._times = TriggerTimes()
        self._known: set[Key] = set()
        """The Services that were there: their Endpoints go with them. Others are kept: a user may
        create Endpoints before their Service."""

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Service: own_key, Pod: self._services.of_pod, Endpoints: own_key}

    async def sync(self, key: Key) -> float | None:
        service = self._cache.get(Service, *key)
        old = self._cache.get(Endpoints, *key)
        if service is None:
            if key in self._known and old is not None:
                await self._writer.delete(Endpoints, old)
            self._known.discard(key)
            self._times.forget(key)
            return None
        self._known.add(key)
        if not is_selecting(service):
            return None
        pods = self._services.pods(service)
        time = self._times.update(service, pods)
        new = endpoints_of(service, subsets_of(service, pods), old)
        if new == old:
            return None
        new = structs.replace(new, metadata=with_trigger_time(new.metadata, time))
        try:
            if old is None:
                await self._writer.create(Endpoints, new)
            else:
                await self._writer.update(Endpoints, new)
        except ApiError as error:
            if error.code not in (403, 409):
                verb, what = ("Create", "create") if old is None else ("Update", "update")
                where = "for service " if old is None else ""
                message = f"Failed to {what} endpoint {where}{'/'.join(key)}: {error}"
                reason = f"FailedTo{verb}Endpoint"
                self._events.record(self.name, new, "Warning", reason, message)
            raise
        return None


class EndpointsMirror:
    name = "endpoint-slice-mirroring-controller"

    def __init__(self, cache: Cache, writer: Writer, events: ControllerEvents) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Endpoints: own_key, Service: own_key, EndpointSlice: _slice_keys(MIRROR)}

    async def sync(self, key: Key) -> float | None:
        endpoints = self._cache.get(Endpoints, *key)
        existing = _slices(self._cache, key, MIRROR)
        wanted: list[EndpointSlice] = []
        if endpoints is not None and is_mirrored(endpoints, self._cache.get(Service, *key)):
            wanted, invalid = mirror_slices(endpoints)
            if invalid:
                message = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
                self._events.record(self.name, endpoints, "Warning", "InvalidIPAddress", message)
        await _carry_out(self._writer, plan_mirror(wanted, existing), creates=True, time=None)
        return None
