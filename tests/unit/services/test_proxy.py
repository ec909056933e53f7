"""The workers that keep the rules of attached pods up to date, on networks of the test."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from virtual_time import VirtualClock

from podtui.api.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from podtui.api.objects import Object
from podtui.api.v1 import (
    Node,
    NodeAddress,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from podtui.errors import EngineError, NetworkUnavailable
from podtui.services.manager import Services
from podtui.services.protocol import AttachedPod, ClusterPort, Transport
from podtui.services.proxy import CHECK_SECONDS, FAILED, HOST, RESTORED, UNAVAILABLE

pytestmark = pytest.mark.virtual_time
DNS = ClusterPort("UDP", "10.96.0.10", 53)


class Networks:
    """Records what is done in each network, and fails where the test says so."""

    def __init__(self) -> None:
        self.applied: defaultdict[str, list[str]] = defaultdict(list)
        self.forgotten: list[tuple[str, str, int]] = []
        self.failing: dict[str, Exception] = {}
        self.flushed: set[str] = set()
        self.host_pods = False

    async def has_host_pods(self) -> bool:
        return self.host_pods

    async def set_rules(self, sandbox_id: str, rules: str) -> None:
        await asyncio.sleep(0)
        if error := self.failing.get(sandbox_id):
            raise error
        self.applied[sandbox_id].append(rules)

    async def check_table(self, sandbox_id: str, table: str) -> None:
        await asyncio.sleep(0)
        if error := self.failing.get(sandbox_id):
            raise error
        if sandbox_id in self.flushed:
            self.flushed.remove(sandbox_id)
            raise EngineError(f"there is no table {table}")

    async def listen(self, sandbox_id: str, protocol: Transport, address: str) -> socket.socket:
        sock = socket.socket(type=socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM)
        sock.bind(("127.0.0.1", 0))
        return sock

    async def forget_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        self.forgotten.append((sandbox_id, ip, port))


class Listener:
    """Implements `PodListener`."""

    name = "DNS"
    address = "127.96.0.10"
    ports = (DNS,)

    def __init__(self) -> None:
        self.sockets: dict[str, Sequence[socket.socket]] = {}

    async def attach(self, pod: AttachedPod, sockets: Sequence[socket.socket]) -> None:
        self.sockets[pod.sandbox_id] = sockets

    async def detach(self, sandbox_id: str) -> None:
        for sock in self.sockets.pop(sandbox_id, ()):
            sock.close()


class Events:
    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []

    def record(
        self,
        component: str,
        item: Object,
        event_type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        self.recorded.append((item.metadata.name, reason))


@dataclass
class World:
    clock: VirtualClock
    networks: Networks = field(default_factory=Networks)
    events: Events = field(default_factory=Events)
    version: int = 0

    def __post_init__(self) -> None:
        self.services = Services(
            self.networks, self.events, self.clock, node_name="n1", host_table="podtui-test"
        )

    @property
    def proxy(self) -> Any:
        return self.services.proxy

    def meta(self, name: str, labels: dict[str, str] | None = None) -> ObjectMeta:
        self.version += 1
        return ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            resourceVersion=str(self.version),
            labels=labels or {},
        )

    def service(self, name: str = "web", protocol: str = "TCP") -> None:
        spec = ServiceSpec(
            type="ClusterIP",
            clusterIP="10.96.0.7",
            clusterIPs=("10.96.0.7",),
            ports=(ServicePort(port=80, protocol=protocol),),
        )
        self.services.cache.put(Service(metadata=self.meta(name), spec=spec))

    def endpoints(self, *ips: str, unready: str = "", protocol: str = "TCP") -> None:
        self.services.cache.put(
            EndpointSlice(
                metadata=self.meta("web-1", {"kubernetes.io/service-name": "web"}),
                addressType="IPv4",
                ports=(EndpointPort(name="", port=8080, protocol=protocol),),
                endpoints=tuple(
                    Endpoint(addresses=(ip,), conditions=EndpointConditions(ready=ip != unready))
                    for ip in ips
                ),
            )
        )

    def listed(self) -> None:
        for kind in (Service, EndpointSlice, Node):
            self.services.cache.replace(kind, self.services.cache.list(kind))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.listed()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.proxy.run())
            await asyncio.sleep(0.1)
            yield
            task.cancel()

    async def attach(self, name: str, *, host_network: bool = False) -> None:
        pod = Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=name),
            spec=PodSpec(containers=(), hostNetwork=host_network),
        )
        ips = () if host_network else ("10.0.0.9",)
        await self.proxy.attach(AttachedPod(pod=pod, sandbox_id=f"box-{name}", ips=ips))

    def rules(self, name: str) -> str:
        return self.networks.applied[f"box-{name}"][-1]


@pytest.fixture
def world(virtual_clock: VirtualClock) -> World:
    return World(virtual_clock)


async def test_a_pod_has_the_rules_when_it_is_attached(world: World) -> None:
    world.service()
    world.endpoints("10.0.0.1")
    async with world.running():
        await world.attach("a")
        assert "dnat to 10.0.0.1:8080" in world.rules("a")
        assert "add table ip podtui\n" in world.rules("a")
        await world.attach("a")
        assert len(world.networks.applied["box-a"]) == 1


async def test_a_change_reaches_all_pods_as_a_difference(world: World) -> None:
    world.service()
    world.endpoints("10.0.0.1", "10.0.0.2")
    async with world.running():
        await world.attach("a")
        await world.attach("b")
        world.endpoints("10.0.0.1", "10.0.0.2", unready="10.0.0.1")
        await asyncio.sleep(0.1)
        for name in ("a", "b"):
            assert len(world.networks.applied[f"box-{name}"]) == 2
            assert "dnat to 10.0.0.2:8080" in world.rules(name)
            assert "table" not in world.rules(name)


async def test_changes_during_an_update_become_one(world: World) -> None:
    world.service()
    async with world.running():
        await world.attach("a")
        for number in range(1, 50):
            world.endpoints(f"10.0.1.{number}")
        await asyncio.sleep(0.1)
        assert len(world.networks.applied["box-a"]) == 2
        assert "10.0.1.49:8080" in world.rules("a")


async def test_a_pod_waits_until_the_services_have_been_listed(world: World) -> None:
    """A table without them would break the connections of a pod that ran before the agent."""
    world.service()
    world.endpoints("10.0.0.1")
    await world.attach("a")
    assert not world.networks.applied
    async with world.running():
        assert "dnat to 10.0.0.1:8080" in world.rules("a")


async def test_a_failing_pod_does_not_hold_the_others_and_is_tried_again(world: World) -> None:
    world.service()
    world.networks.failing["box-a"] = EngineError("nft said no")
    async with world.running():
        await world.attach("a")
        await world.attach("b")
        assert world.events.recorded == [("a", FAILED)]
        world.endpoints("10.0.0.1")
        await asyncio.sleep(5)
        assert "10.0.0.1:8080" in world.rules("b")
        # Repeated failures are reported once.
        assert world.events.recorded == [("a", FAILED)]
        del world.networks.failing["box-a"]
        await asyncio.sleep(10)
        assert world.rules("a").startswith("add table ip podtui\ndelete table ip podtui\n")
        # A table that a former agent may have left keeps its clients.
        assert world.rules("b") != world.networks.applied["box-b"][0]
        assert "flush table ip podtui\n" in world.networks.applied["box-b"][0]


async def test_a_failed_difference_is_followed_by_a_new_table(world: World) -> None:
    world.service()
    async with world.running():
        await world.attach("a")
        world.networks.failing["box-a"] = EngineError("busy")
        world.endpoints("10.0.0.1")
        await asyncio.sleep(0.1)
        del world.networks.failing["box-a"]
        await asyncio.sleep(2)
        assert "add table" in world.rules("a")
        assert "10.0.0.1:8080" in world.rules("a")


async def test_networks_that_cannot_be_entered_are_reported_once_at_the_node(world: World) -> None:
    world.service()
    for name in ("a", "b"):
        world.networks.failing[f"box-{name}"] = NetworkUnavailable("nft is not installed")
    async with world.running():
        await world.attach("a")
        await world.attach("b")
        await world.attach("c")
        await asyncio.sleep(100)
        proxy = world.services.proxy
        assert [proxy.reaches(f"box-{name}") for name in "abcd"] == [False, False, True, False]
        world.networks.failing.clear()
        await asyncio.sleep(400)
        assert proxy.reaches("box-a")
    assert world.events.recorded == [("n1", UNAVAILABLE)]


async def test_pods_in_the_network_of_the_host_are_told_apart_if_it_cannot_have_rules(
    world: World,
) -> None:
    world.service()
    world.networks.failing[HOST] = NetworkUnavailable("only root may")
    async with world.running():
        await world.attach("a")
        await world.attach("h1", host_network=True)
        await world.attach("h2", host_network=True)
        await world.attach("h2", host_network=True)
        await asyncio.sleep(100)
        assert [world.proxy.reaches(f"box-{name}") for name in ("a", "h1", "h2")] == [
            True, False, False,
        ]  # fmt: skip
    assert world.events.recorded == [(name, UNAVAILABLE) for name in ("h1", "n1", "h2")]


async def test_a_flushed_table_is_restored_and_reported(world: World) -> None:
    world.service()
    world.endpoints("10.0.0.1")
    async with world.running():
        await world.attach("a")
        await asyncio.sleep(CHECK_SECONDS * 3)
        assert len(world.networks.applied["box-a"]) == 1
        world.networks.flushed.add("box-a")
        await asyncio.sleep(CHECK_SECONDS + 1)
        assert len(world.networks.applied["box-a"]) == 2
        assert world.networks.applied["box-a"][0] == world.rules("a")
    assert world.events.recorded == [("a", RESTORED)]


async def test_flows_to_a_removed_udp_backend_are_forgotten(world: World) -> None:
    world.service(protocol="UDP")
    world.endpoints("10.0.0.1", "10.0.0.2", protocol="UDP")
    async with world.running():
        await world.attach("a")
        assert not world.networks.forgotten
        world.endpoints("10.0.0.2", protocol="UDP")
        await asyncio.sleep(0.1)
        assert world.networks.forgotten == [("box-a", "10.0.0.1", 8080)]


async def test_listeners_serve_a_pod_until_it_is_detached(world: World) -> None:
    listener = Listener()
    world.services.listeners.append(listener)
    async with world.running():
        await world.attach("a")
        (sock,) = listener.sockets["box-a"]
        number = sock.getsockname()[1]
        assert f"meta l4proto udp dnat to 127.96.0.10:{number}" in world.rules("a")
        await world.proxy.detach("box-a")
        assert not listener.sockets
        assert sock.fileno() == -1
        await world.proxy.detach("box-a")
        # A detached pod gets no more rules.
        world.service()
        await asyncio.sleep(0.1)
        assert len(world.networks.applied["box-a"]) == 1


async def test_a_pod_whose_pass_is_cancelled_while_the_agent_stops_gets_no_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(world.networks, "listen", never)
    world.services.listeners.append(Listener())
    world.listed()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(world.proxy.run())
        await asyncio.sleep(0.1)
        attached = group.create_task(world.attach("a"))
        await asyncio.sleep(0.1)
        run.cancel()
        attached.cancel()
    assert run.cancelled()
    assert attached.cancelled()


async def test_the_host_has_rules_as_long_as_a_pod_uses_its_network(world: World) -> None:
    world.service()
    world.endpoints("10.0.0.1")
    async with world.running():
        # First, what a killed agent has left is removed.
        assert world.networks.applied.pop(HOST) == ["delete table ip podtui-test\n"]
        await world.attach("h1", host_network=True)
        await world.attach("h2", host_network=True)
        (rules,) = world.networks.applied.pop(HOST)
        assert "add rule ip podtui-test service/default/web/tcp/80 meta l4proto tcp" in rules
        await world.proxy.detach("box-h1")
        assert HOST not in world.networks.applied
        await world.proxy.detach("box-h2")
        assert world.networks.applied.pop(HOST) == ["delete table ip podtui-test\n"]
        await world.attach("h3", host_network=True)
        assert len(world.networks.applied[HOST]) == 1


async def test_a_host_pod_that_runs_keeps_the_rules_of_a_killed_agent(world: World) -> None:
    """They are replaced when it is attached: its connections must not fail until then."""
    world.networks.host_pods = True
    world.service()
    async with world.running():
        await asyncio.sleep(100)
        assert HOST not in world.networks.applied
        await world.attach("h1", host_network=True)
        await asyncio.sleep(100)
        (rules,) = world.networks.applied.pop(HOST)
        assert "add table ip podtui-test" in rules


async def test_the_rules_of_a_killed_agent_go_with_its_last_host_pod(world: World) -> None:
    world.networks.host_pods = True
    async with world.running():
        await asyncio.sleep(100)
        world.networks.host_pods = False
        await asyncio.sleep(100)
        assert world.networks.applied.pop(HOST) == ["delete table ip podtui-test\n"]


async def test_node_ports_follow_the_addresses_of_the_node(world: World) -> None:
    spec = ServiceSpec(
        type="NodePort",
        clusterIP="10.96.0.7",
        clusterIPs=("10.96.0.7",),
        ports=(ServicePort(port=80, nodePort=30080),),
    )
    world.services.cache.put(Service(metadata=world.meta("web"), spec=spec))
    world.endpoints("10.0.0.1")
    async with world.running():
        await world.attach("a")
        assert "30080" not in world.rules("a")
        address = NodeAddress(type="InternalIP", address="192.168.0.9")
        world.services.cache.put(
            Node(
                metadata=ObjectMeta(name="n1", resourceVersion="100"),
                status=NodeStatus(addresses=(address,)),
            )
        )
        await asyncio.sleep(0.1)
        assert "192.168.0.9 . tcp . 30080 : goto service/default/web/tcp/80" in world.rules("a")
