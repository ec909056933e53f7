"""Endpoints of Services: from pods to slices and Endpoints."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from controller_store import ControllerStore, RecordedEvents
from examples import examples
from fixed_clock import FixedClock
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.api.discovery import EndpointSlice
from podtui.api.v1 import (
    Container,
    ContainerPort,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from podtui.client.cache import Cache
from podtui.controllers.endpoints import (
    HEADLESS,
    MANAGED_BY,
    MAX_ENDPOINTS,
    SERVICE_NAME,
    SKIP_MIRROR,
    TRIGGER_TIME,
    EndpointsController,
    EndpointSliceController,
    EndpointsMirror,
    plan_slices,
    repack,
    target_port,
)
from podtui.controllers.events import ControllerEvents

NODES = {"n": Node(metadata=ObjectMeta(name="n", labels={"topology.kubernetes.io/zone": "z"}))}
KEY = ("ns", "web")
HTTP = ServicePort(port=80, targetPort="http", protocol="TCP")


def service(**fields: Any) -> Service:
    defaults: dict[str, Any] = {
        "selector": {"app": "web"},
        "clusterIP": "10.0.0.1",
        "ipFamilies": ("IPv4",),
        "ports": (HTTP,),
    }
    meta = ObjectMeta(
        name="web",
        namespace="ns",
        uid="service",
        labels={"tier": "one", MANAGED_BY: "someone"},
        creationTimestamp="2026-01-01T00:00:00Z",
    )
    return Service(metadata=meta, spec=ServiceSpec(**defaults | fields))


def pod(
    number: int,
    *,
    ready: bool = True,
    phase: str = "Running",
    deleted: bool = False,
    port: int = 8080,
    ips: tuple[str, ...] = (),
    node: str = "n",
) -> Pod:
    addresses = ips or (f"10.1.{number // 250}.{number % 250 + 1}",)
    condition = PodCondition(
        type="Ready",
        status="True" if ready else "False",
        lastTransitionTime=f"2026-01-01T00:{number % 60:02}:00Z",
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"p{number}",
            namespace="ns",
            uid=f"pod-{number}",
            labels={"app": "web"},
            deletionTimestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        spec=PodSpec(
            nodeName=node,
            containers=(
                Container(
                    name="c", image="i", ports=(ContainerPort(name="http", containerPort=port),)
                ),
            ),
        ),
        status=PodStatus(
            phase=phase,
            podIP=addresses[0],
            podIPs=tuple(PodIP(ip=ip) for ip in addresses),
            conditions=(condition,),
        ),
    )


def created(item: Service, *pods: Pod) -> list[EndpointSlice]:
    plan = plan_slices(item, pods, (), NODES)
    assert not plan.update
    assert not plan.delete
    return plan.create


@pytest.mark.parametrize(
    ("ready", "deleted", "published", "conditions"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (True, True, True, (True, True, True)),
    ],
)
def test_conditions_of_an_endpoint(
    ready: bool, deleted: bool, published: bool, conditions: tuple[bool, ...]
) -> None:
    item = service(publishNotReadyAddresses=published)
    (only,) = created(item, pod(1, ready=ready, deleted=deleted))
    actual = only.endpoints[0].conditions
    assert (actual.ready, actual.serving, actual.terminating) == conditions


def test_a_slice_looks_like_a_real_one() -> None:
    (only,) = created(service(), pod(1))
    meta = only.metadata
    assert (meta.generateName, meta.namespace, only.addressType) == ("web-", "ns", "IPv4")
    assert meta.labels == {
        "tier": "one",
        SERVICE_NAME: "web",
        MANAGED_BY: "endpointslice-controller.k8s.io",
    }
    assert meta.ownerReferences == (
        OwnerReference(
            apiVersion="v1",
            kind="Service",
            name="web",
            uid="service",
            controller=True,
            blockOwnerDeletion=True,
        ),
    )
    (endpoint,) = only.endpoints
    target = endpoint.targetRef
    assert target is not None
    assert (target.kind, target.name, target.uid) == ("Pod", "p1", "pod-1")
    assert (endpoint.addresses, endpoint.nodeName, endpoint.zone) == (("10.1.0.2",), "n", "z")
    assert [(port.port, port.protocol) for port in only.ports] == [(8080, "TCP")]


def test_a_headless_service_has_a_label_and_names_of_pods() -> None:
    named = pod(1)
    named = structs.replace(
        named, spec=structs.replace(named.spec, hostname="first", subdomain="web")
    )
    (only,) = created(service(clusterIP="None", ports=()), named)
    assert only.metadata.labels[HEADLESS] == ""
    assert only.endpoints[0].hostname == "first"
    assert only.ports == ()


def test_pods_that_are_no_endpoints() -> None:
    without_ip = structs.replace(pod(3), status=PodStatus(phase="Running"))
    absent = pod(4, node="absent")
    pods = (pod(1, phase="Succeeded"), pod(2, phase="Failed"), without_ip, absent)
    (only,) = created(service(), *pods)
    assert (only.endpoints, only.ports) == ((), ())
    (only,) = created(service(publishNotReadyAddresses=True), *pods)
    assert len(only.endpoints) == 1


def test_each_address_family_has_its_slices() -> None:
    both = pod(1, ips=("10.1.0.1", "fd00::1"))
    slices = created(service(ipFamilies=("IPv4", "IPv6")), both)
    assert [(item.addressType, item.endpoints[0].addresses) for item in slices] == [
        ("IPv4", ("10.1.0.1",)),
        ("IPv6", ("fd00::1",)),
    ]


def test_named_ports_may_differ_by_pod() -> None:
    slices = created(service(), pod(1), pod(2, port=9090), pod(3))
    assert sorted((item.ports[0].port, len(item.endpoints)) for item in slices) == [
        (8080, 2),
        (9090, 1),
    ]


@pytest.mark.parametrize(
    ("port", "number"),
    [
        (ServicePort(port=80, targetPort=81), 81),
        (ServicePort(port=80), 80),
        (HTTP, 8080),
        (ServicePort(port=80, targetPort="none"), None),
        (ServicePort(port=80, targetPort="http", protocol="UDP"), None),
    ],
)
def test_target_ports(port: ServicePort, number: int | None) -> None:
    assert target_port(pod(1), port) == number


class World:
    def __init__(self, *items: Any) -> None:
        self.cache = Cache()
        self.clock = FixedClock()
        for kind in (Service, Pod, EndpointSlice, Endpoints, Node):
            self.cache.add_kind(kind)
        self.store = ControllerStore(self.cache, self.clock)
        self.events = RecordedEvents()
        events = cast("ControllerEvents", self.events)
        self.controllers = (
            EndpointSliceController(self.cache, self.store, events),
            EndpointsController(self.cache, self.store, events),
            EndpointsMirror(self.cache, self.store, events),
        )
        for item in (*NODES.values(), *items):
            self.store.add(item)

    def sync(self) -> None:
        for controller in self.controllers:
            asyncio.run(controller.sync(KEY))

    @property
    def slices(self) -> list[EndpointSlice]:
        return self.cache.list(EndpointSlice)

    @property
    def endpoints(self) -> Endpoints:
        endpoints = self.cache.get(Endpoints, *KEY)
        assert endpoints is not None
        return endpoints

    def addresses(self) -> list[str]:
        return sorted(e.addresses[0] for item in self.slices for e in item.endpoints)


@given(st.lists(st.tuples(st.integers(0, 260), st.sampled_from([8080, 9090])), max_size=6))
@examples(60)
def test_slices_follow_the_pods_and_stay_small(steps: list[tuple[int, int]]) -> None:
    world = World(service())
    for number, port in steps:
        for item in world.cache.list(Pod)[number:]:
            world.cache.remove(item)
        for index in range(number):
            if world.cache.get(Pod, "ns", f"p{index}") is None:
                item = pod(index, port=port)
                meta = structs.replace(item.metadata, uid=f"pod-{index}-{world.store.version}")
                world.store.add(structs.replace(item, metadata=meta))
        world.sync()
        pods = world.cache.list(Pod)
        assert world.addresses() == sorted(item.status.podIP for item in pods)
        assert all(len(item.endpoints) <= MAX_ENDPOINTS for item in world.slices)
        assert len(world.slices) <= max(1, len(pods) // 25 + 3)
        versions = [item.metadata.resourceVersion for item in world.slices]
        world.sync()
        assert versions == [item.metadata.resourceVersion for item in world.slices]


def test_a_change_of_one_pod_changes_one_slice() -> None:
    world = World(service(), *(pod(number) for number in range(250)))
    world.sync()
    assert sorted(len(item.endpoints) for item in world.slices) == [50, 100, 100]
    before = {item.metadata.name: item for item in world.slices}
    world.store.change(pod(7), status=pod(7, ready=False).status)
    world.sync()
    changed = [item for item in world.slices if before[item.metadata.name] != item]
    assert len(changed) == 1


def test_the_slice_of_a_service_without_pods_is_reused() -> None:
    world = World(service())
    world.sync()
    (empty,) = world.slices
    assert empty.endpoints == ()
    assert empty.metadata.annotations[TRIGGER_TIME] == "2026-01-01T00:00:00Z"
    world.store.add(pod(5))
    world.sync()
    (filled,) = world.slices
    assert filled.metadata.name == empty.metadata.name
    assert filled.metadata.annotations[TRIGGER_TIME] == "2026-01-01T00:05:00Z"
    world.cache.remove(pod(5))
    world.sync()
    assert [item.endpoints for item in world.slices] == [()]
    assert TRIGGER_TIME not in world.slices[0].metadata.annotations


def test_endpoints_are_sorted_and_say_what_is_ready() -> None:
    world = World(service(), pod(9), pod(1, ready=False), pod(2), pod(3, deleted=True))
    world.sync()
    (subset,) = world.endpoints.subsets
    assert [address.ip for address in subset.addresses] == ["10.1.0.10", "10.1.0.3"]
    assert [address.ip for address in subset.notReadyAddresses] == ["10.1.0.2"]
    assert [(port.port, port.protocol) for port in subset.ports] == [(8080, "TCP")]
    assert world.endpoints.metadata.labels["endpoints.kubernetes.io/managed-by"] == (
        "endpoint-controller"
    )
    version = world.endpoints.metadata.resourceVersion
    world.sync()
    assert world.endpoints.metadata.resourceVersion == version


def test_endpoints_go_with_their_service_only() -> None:
    world = World(Endpoints(metadata=ObjectMeta(name="web", namespace="ns")))
    world.sync()
    assert world.endpoints is not None
    world.store.add(service())
    world.sync()
    item = world.cache.get(Service, *KEY)
    assert item is not None
    world.cache.remove(item)
    world.sync()
    assert world.cache.get(Endpoints, *KEY) is None


@pytest.mark.parametrize("fields", [{"selector": {}}, {"type": "ExternalName"}])
def test_services_without_pods_of_their_own(fields: dict[str, Any]) -> None:
    world = World(service(**fields), pod(1))
    world.sync()
    assert world.slices == []
    assert world.cache.get(Endpoints, *KEY) is None


def hand_made(*ips: str, labels: dict[str, str] | None = None) -> Endpoints:
    return Endpoints(
        metadata=ObjectMeta(name="web", namespace="ns", uid="hand", labels=labels or {}),
        subsets=(
            EndpointSubset(
                addresses=tuple(EndpointAddress(ip=ip) for ip in ips),
                ports=(EndpointPort(port=80, protocol="TCP"),),
            ),
        ),
    )


def test_hand_made_endpoints_are_copied_to_slices() -> None:
    world = World(service(selector={}), hand_made("10.9.9.9", "fd00::9", "no address"))
    world.sync()
    by_family = {item.addressType: item for item in world.slices}
    assert sorted(by_family) == ["IPv4", "IPv6"]
    mirrored = by_family["IPv4"]
    assert mirrored.metadata.labels == {
        SERVICE_NAME: "web",
        MANAGED_BY: "endpointslicemirroring-controller.k8s.io",
    }
    assert mirrored.metadata.ownerReferences[0].kind == "Endpoints"
    conditions = mirrored.endpoints[0].conditions
    assert (conditions.ready, conditions.serving, conditions.terminating) == (True, None, None)
    message = "Skipped 1 invalid IP addresses when mirroring to EndpointSlices"
    assert world.events.texts == [f"Warning InvalidIPAddress: {message}"]
    item = world.cache.get(Endpoints, *KEY)
    assert item is not None
    world.store.change(item, subsets=hand_made("10.9.9.8").subsets)
    world.sync()
    assert world.addresses() == ["10.9.9.8"]
    world.cache.remove(item)
    world.sync()
    assert world.slices == []


@pytest.mark.parametrize("case", ["no service", "selector", "label"])
def test_what_is_not_copied(case: str) -> None:
    labels = {SKIP_MIRROR: "true"} if case == "label" else None
    items: list[Any] = [hand_made("10.9.9.9", labels=labels)]
    if case != "no service":
        items.append(service(**({} if case == "selector" else {"selector": {}})))
    world = World(*items)
    asyncio.run(world.controllers[2].sync(KEY))
    assert world.slices == []


def test_addresses_with_the_same_ports_share_a_subset() -> None:
    one, other = EndpointPort(name="a", port=1), EndpointPort(name="b", port=2)
    first, second = EndpointAddress(ip="10.0.0.1"), EndpointAddress(ip="10.0.0.2")
    assert repack(
        [
            EndpointSubset(addresses=(second,), ports=(one,)),
            EndpointSubset(notReadyAddresses=(first,), ports=(one,)),
            EndpointSubset(addresses=(second,), ports=(other,)),
        ]
    ) == (
        EndpointSubset(notReadyAddresses=(first,), ports=(one,)),
        EndpointSubset(addresses=(second,), ports=(one, other)),
    )
