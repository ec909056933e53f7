"""Probes and hooks of a whole kubelet that connect to real servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fake_host import FakeHost
from grpc_server import GrpcServer, grpc_server, message
from kubelet_listener import Listener, answer, closed_port, listening
from kubelet_world import World, container, pod

from podtui.api.v1 import (
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    TCPSocketAction,
)
from podtui.kubelet.prober.dialing import Address

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
HERE = "127.0.0.1"


def dialling_world(**config: Any) -> World:
    """A world with real connections of probes and a simulated engine."""
    return World(simulated=False, host=FakeHost(), **config)


@pytest.fixture
async def server() -> AsyncIterator[Listener]:
    async with listening(answer("200 OK")) as listener:
        yield listener


def http_get(port: int, path: str = "/", host: str = HERE) -> HTTPGetAction:
    return HTTPGetAction(port=port, path=path, host=host, scheme="HTTP")


async def texts(world: World, reason: str) -> list[str]:
    return [event.message for event in await world.events("web-n1", reason)]


async def test_case_61_readiness_over_http(server: Listener) -> None:
    server.answers[""] = answer("500 Oh no")
    world = dialling_world()
    async with world.running():
        await world.sleep(100.0)
        probe = Probe(httpGet=http_get(server.port), periodSeconds=5)
        world.add(pod("web-n1", "", container(readinessProbe=probe)))
        await world.until(world.runs(UID))
        await world.sleep(31.0)
        assert not await world.is_ready()
        unhealthy = await world.events("web-n1", "Unhealthy")
        text = "Readiness probe failed: HTTP probe failed with statuscode: 500"
        assert [e.message for e in unhealthy] == [text]
        assert unhealthy[0].count == len(server.requests) >= 6
        server.answers[""] = answer("200 OK")
        await world.sleep(5.0)
        assert await world.is_ready()
        assert len(world.containers(UID)) == 1
        assert not await texts(world, "Killing")


@pytest.mark.parametrize("kind", ["tcpSocket", "grpc"])
async def test_case_66_a_closed_port_and_an_unhealthy_service(kind: str) -> None:
    world = dialling_world()
    async with world.running(), grpc_server(GrpcServer(body=message(2))) as well:
        await world.sleep(100.0)
        if kind == "tcpSocket":
            port = closed_port()
            probe = Probe(tcpSocket=TCPSocketAction(port=port, host=HERE), periodSeconds=60)
            text = f"dial tcp {HERE}:{port}: connect: connection refused"
        else:
            probe = Probe(grpc=GRPCAction(port=well.port), timeoutSeconds=5, periodSeconds=60)
            text = 'service unhealthy (responded with "NOT_SERVING")'
        # On the host's network the pod's address is this machine's.
        world.add(pod("web-n1", "", container(livenessProbe=probe), hostNetwork=True))
        await world.until(world.runs(UID))
        await world.sleep(61.0)
        assert await texts(world, "Unhealthy") == [f"Liveness probe failed: {text}"]


async def test_case_67_redirects(server: Listener) -> None:
    server.answers["/moved"] = answer("302 Found", Location="/here")
    server.answers["/here"] = answer("200 OK")
    server.answers["/away"] = answer("302 Found", b"see there", Location="http://192.0.2.1/x")
    world = dialling_world()
    async with world.running():
        await world.sleep(100.0)
        near, far = (
            container(name, readinessProbe=Probe(httpGet=http_get(server.port, path)))
            for name, path in (("near", "/moved"), ("far", "/away"))
        )
        world.add(pod("web-n1", "", near, far))
        await world.until(world.runs(UID, 2))
        await world.sleep(2.0)
        assert await world.is_ready()
        warnings = await world.events("web-n1", "ProbeWarning")
        assert [(e.type, e.message, e.involvedObject.fieldPath) for e in warnings] == [
            (
                "Warning",
                "Readiness probe warning: Probe terminated redirects, Response body: see there",
                "spec.containers{far}",
            )
        ]
        assert "/here" in server.paths()
        assert not await texts(world, "Unhealthy")


async def test_case_101_a_host_network_pod_is_probed_on_localhost(server: Listener) -> None:
    world = dialling_world(strict=True)
    async with world.running():
        await world.sleep(100.0)
        probe = Probe(httpGet=http_get(server.port, host=""))
        world.add(pod("web-n1", "", container(readinessProbe=probe), hostNetwork=True))
        await world.until(world.runs(UID))
        await world.sleep(2.0)
        assert await world.is_ready()
        assert server.headers()["host"] == str(Address(HERE, server.port))
        status = await world.status()
        assert (status.podIP, status.hostIP, status.podIPs, status.hostIPs) == ("", "", (), ())


async def test_case_72_any_http_response_is_success_for_a_hook(server: Listener) -> None:
    server.answers["/started"] = answer("500 Oh no")
    world = dialling_world()
    hook = LifecycleHandler(httpGet=http_get(server.port, "/started"))
    async with world.running():
        world.add(pod("web-n1", "", container(lifecycle=Lifecycle(postStart=hook))))
        await world.until(world.runs(UID))
        await world.sleep(20.0)
        assert server.paths() == ["/started"]
        assert not await texts(world, "FailedPostStartHook")
        assert (await world.status()).containerStatuses[0].restartCount == 0
        assert await world.is_ready()
