"""The controller of Ingresses: the server's port, routes and certificates, statuses and events."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from controller_store import ControllerStore, RecordedEvents
from ingress_certificates import certificate
from service_world import LOOPBACK, LoopbackDialer, free_port, tcp_server

from podtui.api.discovery import Endpoint, EndpointPort, EndpointSlice
from podtui.api.names import INGRESS_CONTROLLER
from podtui.api.networking import (
    Ingress,
    IngressBackend,
    IngressClass,
    IngressClassSpec,
    IngressLoadBalancerIngress,
    IngressLoadBalancerStatus,
    IngressPortStatus,
    IngressServiceBackend,
    IngressSpec,
    IngressStatus,
    IngressTLS,
    ServiceBackendPort,
)
from podtui.api.v1 import ObjectMeta, Secret, Service, ServicePort, ServiceSpec
from podtui.client.cache import Cache
from podtui.clock import SystemClock
from podtui.services.backends import SERVICE_NAME, Backend
from podtui.services.index import ServiceIndex
from podtui.services.ingress_rules import Target
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.ingresses import PORTS, RETRY_SECONDS, Ingresses

KEY = ("", "ingresses")


@dataclass
class World:
    store: ControllerStore
    ingresses: Ingresses
    events: RecordedEvents
    port: int

    def add_ingress(
        self, name: str = "web", *, tls: str = "", class_name: str = "", **annotations: str
    ) -> None:
        reference = IngressServiceBackend(name="web", port=ServiceBackendPort(number=80))
        spec = IngressSpec(
            ingressClassName=class_name,
            defaultBackend=IngressBackend(service=reference),
            tls=(IngressTLS(secretName=tls),) if tls else (),
        )
        names = {f"{key.replace('_', '.')}/x": value for key, value in annotations.items()}
        meta = ObjectMeta(name=name, namespace="default", annotations=names)
        self.store.add(Ingress(metadata=meta, spec=spec))

    def add_class(self, name: str, controller: str) -> None:
        meta = ObjectMeta(name=name)
        self.store.add(IngressClass(metadata=meta, spec=IngressClassSpec(controller=controller)))

    def add_service(self, backend: Backend) -> None:
        ports = (ServicePort(port=80, protocol="TCP"),)
        self.store.add(
            Service(
                metadata=ObjectMeta(name="web", namespace="default"),
                spec=ServiceSpec(clusterIP="None", ports=ports),
            )
        )
        labels = {SERVICE_NAME: "web"}
        self.store.add(
            EndpointSlice(
                metadata=ObjectMeta(name="web-1", namespace="default", labels=labels),
                addressType="IPv4",
                endpoints=(Endpoint(addresses=(backend.ip,)),),
                ports=(EndpointPort(port=backend.port, protocol="TCP"),),
            )
        )

    def status(self, name: str = "web") -> IngressLoadBalancerStatus:
        item = self.store.cache.get(Ingress, "default", name)
        assert item is not None
        return item.status.loadBalancer

    async def sync(self) -> float | None:
        return await self.ingresses.sync(KEY)


def served_at(port: int) -> IngressLoadBalancerStatus:
    ports = (IngressPortStatus(port=port, protocol="TCP"),)
    return IngressLoadBalancerStatus(
        ingress=(IngressLoadBalancerIngress(ip=LOOPBACK, ports=ports),)
    )


@asynccontextmanager
async def world() -> AsyncGenerator[World]:
    cache, clock = Cache(), SystemClock()
    index = ServiceIndex(cache)
    for kind in (Ingress, IngressClass, Secret):
        cache.add_kind(kind)
    store, events = ControllerStore(cache, clock), RecordedEvents()
    fallback = server_context(*certificate("fallback.test"))

    def server(backends_of: Callable[[Target], tuple[Backend, ...]]) -> IngressServer:
        return IngressServer(backends_of, LoopbackDialer(), fallback, clock)

    port = free_port()
    ingresses = Ingresses(cache, index, store, events, server, address=LOOPBACK, port=port)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ingresses.run(asyncio.Event().wait))
        await asyncio.sleep(0)
        yield World(store, ingresses, events, port)
        task.cancel()


def accepts(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((LOOPBACK, port)) == 0


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\npod")
    writer.close()


async def test_an_ingress_is_served_at_the_port_of_its_status() -> None:
    async with world() as here, tcp_server(answer) as backend:
        here.add_service(backend)
        here.add_ingress()
        assert await here.sync() is None
        assert here.status() == served_at(here.port)
        assert here.events.texts == [f"Normal Sync: served at 127.0.0.1:{here.port}"]
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{here.port}/") as response,
        ):
            assert await response.text() == "pod"


async def test_nothing_listens_without_an_ingress() -> None:
    async with world() as here:
        await here.sync()
        assert not accepts(here.port)
        here.add_ingress()
        await here.sync()
        assert accepts(here.port)
        item = here.store.cache.get(Ingress, "default", "web")
        assert item is not None
        await here.store.delete(Ingress, item)
        await here.sync()
        assert not accepts(here.port)


async def test_the_next_port_is_taken_if_one_is_in_use() -> None:
    async with world() as here:
        with socket.socket() as other:
            other.bind((LOOPBACK, here.port))
            other.listen()
            here.add_ingress()
            assert await here.sync() is None
        [entry] = here.status().ingress
        assert here.port < entry.ports[0].port < here.port + PORTS


async def test_no_free_port_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtui.services.ingresses.PORTS", 1)
    async with world() as here:
        with socket.socket() as other:
            other.bind((LOOPBACK, here.port))
            other.listen()
            here.add_ingress()
            assert await here.sync() == RETRY_SECONDS
            await here.sync()
        problem = f"cannot listen on 127.0.0.1:{here.port}: Address already in use"
        assert here.events.texts == [
            f"Warning PortUnavailable: {problem}; podtui tries again every 5 s"
        ]
        assert here.status() == IngressLoadBalancerStatus()
        assert await here.sync() is None
        assert here.status() == served_at(here.port)


async def test_classes() -> None:
    async with world() as here:
        here.add_class("podtui", INGRESS_CONTROLLER)
        here.add_class("other", "example.com/other")
        here.add_ingress("ours", class_name="podtui")
        here.add_ingress("nginx", class_name="nginx", nginx_ingress_kubernetes_io="1")
        here.add_ingress("other", class_name="other")
        await here.sync()
        await here.sync()
        assert here.status("ours") == here.status("nginx") == served_at(here.port)
        assert here.status("other") == IngressLoadBalancerStatus()
        ignored = "annotations for another controller have no effect"
        assert sorted(here.events.texts) == [
            "Normal ClassNotFound: there is no IngressClass nginx; podtui serves the Ingress",
            "Normal NotServed: the class other belongs to the controller example.com/other",
            f"Normal Sync: served at 127.0.0.1:{here.port}",
            f"Normal Sync: served at 127.0.0.1:{here.port}",
            f"Warning AnnotationsIgnored: {ignored}: nginx.ingress.kubernetes.io/x",
        ]


async def test_the_status_of_another_controller_is_left_alone() -> None:
    async with world() as here:
        here.add_class("other", "example.com/other")
        here.add_ingress(class_name="other")
        item = here.store.cache.get(Ingress, "default", "web")
        assert item is not None
        entry = IngressLoadBalancerIngress(ip="192.0.2.1")
        status = IngressLoadBalancerStatus(ingress=(entry,))
        here.store.change(item, status=IngressStatus(loadBalancer=status))
        await here.sync()
        assert here.status() == status
        # A class that comes later takes the Ingress over.
        here.store.change(here.store.cache.list(Ingress)[0], status=IngressStatus(
            loadBalancer=served_at(here.port)))  # fmt: skip
        await here.sync()
        assert here.status() == IngressLoadBalancerStatus()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "Secret shop does not exist"),
        ({}, "Secret shop: there is no tls.crt"),
        ({"tls.crt": "***"}, "Secret shop: tls.crt is not base64"),
        ({"tls.crt": "eA==", "tls.key": "eQ=="}, "Secret shop: certificate and key cannot be read"),
    ],
)
async def test_a_certificate_that_cannot_be_used(data: dict[str, str] | None, problem: str) -> None:
    async with world() as here:
        if data is not None:
            meta = ObjectMeta(name="shop", namespace="default")
            here.store.add(Secret(metadata=meta, data=data))
        here.add_ingress(tls="shop")
        await here.sync()
        text = f"Warning CertificateUnavailable: {problem}; a certificate of podtui is used"
        assert text in here.events.texts


async def test_a_changed_secret_changes_the_certificate() -> None:
    async with world() as here:
        crt, key = certificate("shop.test")
        data = {
            "tls.crt": base64.b64encode(crt).decode(),
            "tls.key": base64.b64encode(key).decode(),
        }
        secret = here.store.add(
            Secret(metadata=ObjectMeta(name="shop", namespace="default"), data=data)
        )
        here.add_ingress(tls="shop")
        assert list(here.ingresses.kinds[Secret](secret)) == [KEY]
        other = Secret(metadata=ObjectMeta(name="other", namespace="default"))
        assert list(here.ingresses.kinds[Secret](other)) == []
        await here.sync()
        assert not any("Certificate" in text for text in here.events.texts)
        here.store.change(secret, data={})
        await here.sync()
        assert any("there is no tls.crt" in text for text in here.events.texts)
