"""Node ports and load balancers follow the Services: listeners, the object, and events."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from controller_store import ControllerStore, RecordedEvents
from service_world import LOOPBACK, LoopbackDialer, free_port, tcp_server

from podtui.api.discovery import Endpoint, EndpointPort, EndpointSlice
from podtui.api.urls import PUBLISHED, published_ports
from podtui.api.v1 import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    ObjectMeta,
    PortStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from podtui.client.cache import Cache
from podtui.clock import SystemClock
from podtui.services import service_ports
from podtui.services.backends import SERVICE_NAME, Backend
from podtui.services.index import ServiceIndex
from podtui.services.publishing import NODE_PORT_ONLY, balancer_addresses
from podtui.services.service_ports import RETRY_SECONDS, ServicePorts

KEY = ("default", "web")


@dataclass
class World:
    store: ControllerStore
    ports: ServicePorts
    events: RecordedEvents

    def add(self, kind: str, *, node_port: int = 0, port: int = 80, **spec: object) -> None:
        item = ServicePort(port=port, nodePort=node_port or None, protocol="TCP")
        values = {"type": kind, "clusterIP": "10.96.0.7", "ports": (item,), **spec}
        self.store.add(
            Service(
                metadata=ObjectMeta(name="web", namespace="default"),
                spec=ServiceSpec(**values),  # pyright: ignore[reportArgumentType]
            )
        )

    def add_endpoint(self, backend: Backend) -> None:
        self.store.add(
            EndpointSlice(
                metadata=ObjectMeta(
                    name="web-1", namespace="default", labels={SERVICE_NAME: "web"}
                ),
                addressType="IPv4",
                endpoints=(Endpoint(addresses=(backend.ip,)),),
                ports=(EndpointPort(port=backend.port, protocol="TCP"),),
            )
        )

    @property
    def service(self) -> Service:
        item = self.store.cache.get(Service, *KEY)
        assert item is not None
        return item

    @property
    def published(self) -> str:
        return self.service.metadata.annotations.get(PUBLISHED, "")


@asynccontextmanager
async def services(machine: str = "test") -> AsyncGenerator[World]:
    cache = Cache()
    index = ServiceIndex(cache)
    clock = SystemClock()
    store, events = ControllerStore(cache, clock), RecordedEvents()
    ports = ServicePorts(
        index, store, events, LoopbackDialer(), clock, address=LOOPBACK, machine=machine
    )
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ports.run(ended.wait))
        await asyncio.sleep(0)
        yield World(store, ports, events)
        task.cancel()


async def named(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"pod")
    writer.close()


async def read(port: int, address: str = LOOPBACK) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_node_port_reaches_the_endpoints() -> None:
    port = free_port()
    async with services() as world, tcp_server(named) as backend:
        world.add("NodePort", node_port=port)
        world.add_endpoint(backend)
        assert await world.ports.sync(KEY) is None
        assert world.published == f"127.0.0.1:{port}/TCP"
        assert await read(port) == b"pod"
        assert world.events.texts == []


async def test_a_deleted_service_does_not_listen() -> None:
    port = free_port()
    async with services() as world:
        world.add("NodePort", node_port=port)
        await world.ports.sync(KEY)
        await world.store.delete(Service, world.service)
        await world.ports.sync(KEY)
        with pytest.raises(ConnectionRefusedError):
            await read(port)


async def test_a_port_in_use_is_reported_once_and_tried_again() -> None:
    async with services() as world:
        with socket.socket() as other:
            other.bind((LOOPBACK, 0))
            other.listen()
            port = other.getsockname()[1]
            world.add("NodePort", node_port=port)
            assert await world.ports.sync(KEY) == RETRY_SECONDS
            assert await world.ports.sync(KEY) == RETRY_SECONDS
        assert world.published == ""
        [text] = world.events.texts
        problem = f"cannot listen on 127.0.0.1:{port}/TCP: Address already in use"
        assert text == f"Warning NodePortUnavailable: {problem}; podtui tries again every 5 s"
        assert await world.ports.sync(KEY) is None
        assert world.published == f"127.0.0.1:{port}/TCP"


async def test_a_load_balancer_has_an_address_of_its_own() -> None:
    node_port, port = free_port(), free_port()
    async with services() as world, tcp_server(named) as backend:
        world.add("LoadBalancer", node_port=node_port, port=port)
        world.add_endpoint(backend)
        assert await world.ports.sync(KEY) is None
        [entry] = world.service.status.loadBalancer.ingress
        assert entry.ip.startswith("127.96.")
        assert entry == LoadBalancerIngress(
            ip=entry.ip, ipMode="Proxy", ports=(PortStatus(port=port, protocol="TCP"),)
        )
        assert world.published == f"127.0.0.1:{node_port}/TCP {entry.ip}:{port}/TCP"
        assert await read(port, entry.ip) == b"pod"
        assert await read(node_port) == b"pod"
        assert world.events.texts == [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
        await world.ports.sync(KEY)
        assert len(world.events.texts) == 2


async def test_the_address_of_a_load_balancer_is_kept() -> None:
    port = free_port()
    async with services() as world:
        world.add("LoadBalancer", port=port)
        service = world.service
        entry = LoadBalancerIngress(ip="127.96.200.1", ipMode="Proxy")
        status = LoadBalancerStatus(ingress=(entry,))
        world.store.change(service, status=type(service.status)(loadBalancer=status))
        await world.ports.sync(KEY)
        assert world.published == f"127.96.200.1:{port}/TCP"


async def test_another_address_is_tried_if_the_port_is_in_use() -> None:
    port = free_port()
    async with services() as world:
        world.add("LoadBalancer", port=port)
        first, second, *_ = balancer_addresses(world.service, LOOPBACK, "test")
        with socket.socket() as other:
            other.bind((first, port))
            other.listen()
            assert await world.ports.sync(KEY) is None
            assert world.published == f"{second}:{port}/TCP"


async def test_a_port_that_is_not_permitted_is_reached_at_the_node_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = service_ports.listening_socket

    def denied(protocol: str, address: str, port: int) -> socket.socket:
        if port < 1024:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(protocol, address, port)

    monkeypatch.setattr(service_ports, "listening_socket", denied)
    node_port = free_port()
    async with services() as world:
        world.add("LoadBalancer", node_port=node_port)
        assert await world.ports.sync(KEY) == RETRY_SECONDS
        [entry] = world.service.status.loadBalancer.ingress
        assert (entry.ip, entry.ports[0].error) == (LOOPBACK, NODE_PORT_ONLY)
        [published] = published_ports(world.service)
        assert published.url == f"http://127.0.0.1:{node_port}/"
        [text] = world.events.texts
        assert text.startswith("Warning SyncLoadBalancerFailed: Error syncing load balancer:")
        assert text.endswith(":80/TCP: Permission denied; the Service is reached at its node ports")


async def test_a_load_balancer_of_another_class_is_left_alone() -> None:
    async with services() as world:
        world.add("LoadBalancer", loadBalancerClass="example.com/other")
        await world.ports.sync(KEY)
        assert world.service.status.loadBalancer == LoadBalancerStatus()
        assert world.published == ""


async def test_a_service_that_becomes_a_cluster_ip() -> None:
    port = free_port()
    async with services() as world:
        world.add("LoadBalancer", port=port)
        await world.ports.sync(KEY)
        world.store.change(world.service, spec=ServiceSpec(type="ClusterIP", clusterIP="10.96.0.7"))
        await world.ports.sync(KEY)
        assert world.published == ""
        assert world.service.status.loadBalancer == LoadBalancerStatus()
        assert world.events.texts[2:] == [
            "Normal DeletingLoadBalancer: Deleting load balancer",
            "Normal DeletedLoadBalancer: Deleted load balancer",
        ]


def test_addresses_differ_between_services_and_agents() -> None:
    def of(name: str, machine: str) -> str:
        item = Service(metadata=ObjectMeta(name=name, namespace="default"))
        return balancer_addresses(item, LOOPBACK, machine)[0]

    assert of("web", "a") == of("web", "a")
    assert len({of(name, machine) for name in "abcdefgh" for machine in "12"}) > 12


def test_a_requested_address_must_be_a_loopback_address() -> None:
    def first(requested: str, address: str = LOOPBACK) -> str:
        item = Service(spec=ServiceSpec(loadBalancerIP=requested))
        return next(iter(balancer_addresses(item, address, "m")), "")

    assert first("127.0.5.5") == "127.0.5.5"
    assert first("192.0.2.7").startswith("127.96.")
    assert first("x").startswith("127.96.")
    assert first("127.0.5.5", "192.0.2.1") == "192.0.2.1"
