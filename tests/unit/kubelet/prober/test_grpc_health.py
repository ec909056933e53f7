"""The grpc handler against a real server of the health protocol, and its messages (case 66)."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import replace

import pytest
from grpc_server import GRPC, GrpcServer, grpc_server, message
from h2.errors import ErrorCodes
from hypothesis import given
from hypothesis import strategies as st
from kubelet_listener import closed_port, listening
from pod_builders import box, engine, make_pod, seen

from podtui.api.v1 import Container, ContainerPort, GRPCAction, HTTPGetAction, Probe
from podtui.kubelet.prober.dialing import (
    Address,
    PodAddresses,
    Unreachable,
    dial_error,
    dial_timeout,
    hook_port,
    pod_ip,
    probe_port,
    read_error,
)
from podtui.kubelet.prober.grpc_health import Reply, check, probe_outcome, request
from podtui.kubelet.prober.handlers import Handlers
from podtui.kubelet.prober.http_get import redirected, request_for
from podtui.kubelet.prober.state import ProbeOutcome, ProbeVerdict, failure
from podtui.wire.grpc_status import code_name

UNIMPLEMENTED = (
    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
)


async def probe(server: GrpcServer, service: str = "", timeout: float = 5.0) -> ProbeOutcome:
    async with grpc_server(server):
        return await check(Address("127.0.0.1", server.port), service, timeout)


# --- requests


async def test_serving_is_healthy() -> None:
    server = GrpcServer()
    outcome = await probe(server, "web")
    assert outcome.verdict is ProbeVerdict.SUCCESS
    headers, body = server.calls[0]
    assert headers[":method"] == "POST"
    assert headers[":path"] == "/grpc.health.v1.Health/Check"
    assert headers[":scheme"] == "http"
    assert headers[":authority"] == f"127.0.0.1:{server.port}"
    assert headers["user-agent"] == "kube-probe/1.36"
    assert headers["content-type"] == "application/grpc"
    assert headers["te"] == "trailers"
    assert headers["grpc-timeout"] == "5000m"
    assert body == b"\x00\x00\x00\x00\x05\x0a\x03web"


def test_an_empty_service_checks_the_whole_server() -> None:
    assert request("") == b"\x00\x00\x00\x00\x00"


def test_a_long_service_name_is_encoded() -> None:
    assert request("x" * 200)[:8] == b"\x00\x00\x00\x00\xcb\x0a\xc8\x01"


async def test_a_probe_connects_to_the_pod_ip() -> None:
    observed = seen(sandboxes=(box(ips=("127.0.0.1",)),))
    addresses = PodAddresses(lambda uid: observed, engine)
    handlers = Handlers(None, addresses)  # type: ignore[arg-type]
    async with grpc_server(GrpcServer(body=message(2))) as server:
        probe = Probe(grpc=GRPCAction(port=server.port, service="web"), timeoutSeconds=5)
        outcome = await handlers.run(make_pod(), Container(name="c"), "c-0", probe)
    assert outcome == failure('service unhealthy (responded with "NOT_SERVING")')
    assert server.calls[0][1].endswith(b"web")


# --- responses


@pytest.mark.parametrize(
    ("status", "name"),
    [(0, "UNKNOWN"), (2, "NOT_SERVING"), (3, "SERVICE_UNKNOWN"), (9, "9")],
)
async def test_anything_but_serving_is_unhealthy(status: int, name: str) -> None:
    outcome = await probe(GrpcServer(body=message(status)))
    assert outcome == failure(f'service unhealthy (responded with "{name}")')


async def test_a_server_without_the_health_protocol() -> None:
    trailers_only = [*GRPC, ("grpc-status", "12"), ("grpc-message", "unknown service%3A x")]
    outcome = await probe(GrpcServer(headers=trailers_only, trailers=[]))
    assert outcome == failure(UNIMPLEMENTED + "unknown service: x")


async def test_an_error_of_the_call() -> None:
    trailers = [("grpc-status", "5"), ("grpc-message", "unknown service")]
    outcome = await probe(GrpcServer(body=b"", trailers=trailers), "nosuch")
    words = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
    assert outcome == failure(words)


async def test_a_server_that_speaks_http_and_no_grpc() -> None:
    page = [(":status", "404"), ("content-type", "text/plain")]
    outcome = await probe(GrpcServer(headers=page, trailers=[]))
    assert outcome == failure(
        UNIMPLEMENTED + "unexpected HTTP status code received from server: 404 (Not Found);"
        ' transport: received unexpected content-type "text/plain"'
    )


async def test_a_call_that_times_out() -> None:
    # A busy machine may need more than 200 ms to connect.
    for timeout, shown in ((0.2, "200ms"), (10.0, "10s")):
        outcome = await probe(GrpcServer(silent=True), timeout=timeout)
        if outcome == failure(f"timeout: health rpc did not complete within {shown}"):
            return
        assert "failed to connect" in outcome.text
    pytest.fail(outcome.text)


async def test_a_deadline_reported_by_the_server() -> None:
    outcome = await probe(GrpcServer(body=b"", trailers=[("grpc-status", "4")]), timeout=3.0)
    assert outcome == failure("timeout: health rpc did not complete within 3s")


async def test_a_server_that_closes_the_connection() -> None:
    words = "rpc error: code = Unavailable desc = error reading from server: EOF"
    assert await probe(GrpcServer(hang_up=True)) == failure(
        f"error: health rpc probe failed: {words}"
    )


async def test_a_call_that_is_reset() -> None:
    words = "stream terminated by RST_STREAM with error code: REFUSED_STREAM"
    outcome = await probe(GrpcServer(reset=ErrorCodes.REFUSED_STREAM))
    assert outcome == failure(
        f"error: health rpc probe failed: rpc error: code = Unavailable desc = {words}"
    )


async def test_an_endless_response_is_cut_off() -> None:
    outcome = await probe(GrpcServer(body=b"\x00" * 12_000))
    assert outcome.verdict is ProbeVerdict.FAILURE
    assert "code = ResourceExhausted" in outcome.text


# --- no connection


@pytest.mark.virtual_time
async def test_connection_refused() -> None:
    port = closed_port()
    outcome = await check(Address("127.0.0.1", port), "", 1.0)
    words = f'timeout: failed to connect service "127.0.0.1:{port}" within 1s'
    assert outcome == failure(f"{words}: context deadline exceeded")


async def test_a_server_without_settings_frame_is_not_connected() -> None:
    outcome = await probe(GrpcServer(mute=True), timeout=0.2)
    assert outcome.text.startswith("timeout: failed to connect service ")


@pytest.mark.virtual_time
async def test_a_server_of_another_protocol_fails_after_retries() -> None:
    async with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        outcome = await check(Address("127.0.0.1", server.port), "", 3.0)
    assert outcome.text.startswith("timeout: failed to connect service ")
    assert len(server.requests) == 3


@pytest.mark.virtual_time
async def test_a_server_that_starts_in_time_is_reached() -> None:
    port = closed_port()

    async def come_up() -> None:
        await asyncio.sleep(2.0)
        async with grpc_server(port=port):
            await asyncio.sleep(5.0)

    async with asyncio.TaskGroup() as group:
        later = group.create_task(come_up())
        assert await check(Address("127.0.0.1", port), "", 4.0) == ProbeOutcome(
            ProbeVerdict.SUCCESS
        )
        later.cancel()


# --- error messages


def test_codes_have_gos_names() -> None:
    assert [code_name(str(number)) for number in (0, 2, 12, 16, 17)] == [
        "OK",
        "Unknown",
        "Unimplemented",
        "Unauthenticated",
        "Code(17)",
    ]
    assert code_name("-1") == "Code(-1)"


@given(st.binary(max_size=40), st.booleans())
def test_random_bytes_are_not_healthy(body: bytes, framed: bool) -> None:
    if framed:
        body = b"\x00" + len(body).to_bytes(4, "big") + body
    reply = Reply(headers=dict(GRPC), body=body, trailers={"grpc-status": "0"})
    outcome = probe_outcome(reply, 1.0)
    assert outcome.verdict in (ProbeVerdict.SUCCESS, ProbeVerdict.FAILURE)
    if outcome.verdict is ProbeVerdict.SUCCESS:
        assert b"\x08" in body


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({":status": "503", "content-type": "application/grpc"}, "Unavailable"),
        ({":status": "200", "content-type": "text/html"}, "Unknown"),
        ({":status": "200"}, "Unknown"),
        ({":status": "nonsense", "content-type": "application/grpc+proto"}, "Unknown"),
    ],
)
def test_a_response_without_grpc_is_reported_by_http_status(
    headers: dict[str, str], code: str
) -> None:
    assert (
        f"code = {code} desc = unexpected HTTP" in probe_outcome(Reply(headers=headers), 1.0).text
    )


# --- Addresses, ports and errors as texts


WEB = Container(name="c", ports=(ContainerPort(name="web", containerPort=8080),))
SIX = Address("fd00::7", 80)


def test_errors_have_gos_wording() -> None:
    here = Address("10.0.0.7", 80)
    refused = OSError(errno.ECONNREFUSED, "whatever")
    assert dial_error(here, refused) == "dial tcp 10.0.0.7:80: connect: connection refused"
    no_route = OSError(errno.EHOSTUNREACH, "")
    assert dial_error(SIX, no_route) == "dial tcp [fd00::7]:80: connect: no route to host"
    unknown = socket.gaierror(socket.EAI_NONAME, "")
    assert dial_error(Address("x.y", 1), unknown) == "dial tcp: lookup x.y: no such host"
    reset = OSError(errno.ECONNRESET, "")
    assert read_error(here, reset) == "read tcp 10.0.0.7:80: read: connection reset by peer"
    assert dial_timeout(SIX) == "dial tcp [fd00::7]:80: i/o timeout"
    assert dial_error(here, OSError("of its own")) == "dial tcp 10.0.0.7:80: connect: of its own"


@pytest.mark.parametrize(("port", "expected"), [(81, 81), ("web", 8080), ("82", 82)])
def test_ports(port: int | str, expected: int) -> None:
    assert probe_port(port, WEB) == expected
    assert hook_port(port, WEB) == expected


def test_invalid_ports() -> None:
    assert probe_port(65536, WEB) == Unreachable("invalid port number: 65536")
    assert (hook_port("", WEB), hook_port(0, WEB)) == (80, 80)
    assert hook_port("x", WEB) == Unreachable("couldn't find port: x")


def test_the_newest_sandbox_counts_if_it_is_ready() -> None:
    assert pod_ip(None) == pod_ip(seen(sandboxes=())) == ""
    assert pod_ip(seen(sandboxes=(box(1, ips=("a",)), box(0, ips=("b",))))) == "a"
    assert pod_ip(seen(sandboxes=(box(1, ready=False), box(0, ips=("b",))))) == ""


@pytest.mark.parametrize("enterable", [True, False])
@pytest.mark.parametrize(
    ("fields", "reached"),
    [
        ({}, True),
        ({"local_host_network": False}, False),
        ({"local_host_network": False, "rootless": True}, False),
        ({"local_host_network": True, "rootless": True}, True),
    ],
)
def test_the_hosts_network(fields: dict[str, bool], reached: bool, enterable: bool) -> None:
    observed = seen(sandboxes=(replace(box(host_network=True), enterable=enterable),))
    addresses = PodAddresses(lambda uid: observed, lambda: engine(**fields))
    found = addresses.find(make_pod(hostNetwork=True), 80)
    if reached:
        assert found == Address("127.0.0.1", 80)
    elif enterable:
        assert found == Address("127.0.0.1", 80, "s0")
    else:
        assert isinstance(found, Unreachable)
        assert "user of a rootless engine" in found.text
    unseen = PodAddresses(lambda uid: None, lambda: engine(**fields))
    assert isinstance(unseen.find(make_pod(hostNetwork=True), 80), Address) is reached


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("enterable", [True, False])
@pytest.mark.parametrize("routable", [True, False])
def test_dials_locally_then_inside_the_pod_then_the_published_port(
    routable: bool, enterable: bool, published: bool, ready: bool
) -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}] if published else []
    sandbox = replace(box(ready=ready), routable=routable, enterable=enterable)
    observed = seen(sandboxes=(sandbox,))
    addresses = PodAddresses(lambda uid: observed, engine)
    pod = make_pod({"name": "c", "ports": ports})
    found = addresses.find(pod, 80)
    if not ready:
        assert found == Unreachable("the pod has no address")
    elif routable:
        assert found == Address("10.0.0.7", 80)
    elif enterable:
        assert found == Address("10.0.0.7", 80, "s0")
    elif published:
        assert found == Address("127.0.0.1", 8080)
    else:
        assert isinstance(found, Unreachable)
        assert "10.0.0.7 is not reachable from here" in found.text
        assert "give port 80 a hostPort" in found.text
    assert addresses.find(pod, 80, host="192.0.2.1") == Address("192.0.2.1", 80)


def test_an_address_of_another_host_is_not_dialled() -> None:
    pod = make_pod({"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]})
    for routable in (True, False):
        observed = seen()
        sandboxes = tuple(replace(one, routable=routable) for one in observed.sandboxes)
        strange = replace(observed, sandboxes=sandboxes)
        addresses = PodAddresses(lambda uid, seen=strange: seen, engine)
        own = Address(sandboxes[0].ips[0], 80)
        assert addresses.find(pod, 80) == (own if routable else Address("127.0.0.1", 8080))
        assert isinstance(addresses.find(pod, 81), Address) is routable


def test_a_remote_engine_has_no_published_ports_here() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    pod, observed = make_pod({"name": "c", "ports": ports}), seen()
    far = PodAddresses(lambda uid: observed, lambda: engine(routable_pods=False, local=False))
    assert isinstance(far.find(pod, 80), Unreachable)
    desktop = engine(routable_pods=False, local=False, operating_system="Docker Desktop")
    near = PodAddresses(lambda uid: observed, lambda: desktop)
    assert near.find(pod, 80) == Address("127.0.0.1", 8080)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "http://[fd00::7]:80/b"),
        ("c?d=e", "http://[fd00::7]:80/c?d=e"),
        ("https://[fd00::7]/x", "https://[fd00::7]:443/x"),
        ("http://elsewhere/x", None),
    ],
)
def test_redirects(location: str, url: str | None) -> None:
    request = request_for(HTTPGetAction(port=80, path="/a"), SIX, "test")
    following = redirected(request, location).request
    assert (None if following is None else following.url) == url


def test_a_redirect_stays_inside_the_pod() -> None:
    inside = replace(SIX, sandbox_id="s0")
    request = request_for(HTTPGetAction(port=80, path="/a"), inside, "test")
    following = redirected(request, "http://[fd00::7]:81/b").request
    assert following is not None
    assert following.address == Address("fd00::7", 81, "s0")


@pytest.mark.parametrize("location", ["http://[fd00::7", "ftp://[fd00::7]/", "http://[fd00::7]:x/"])
def test_redirects_that_cannot_be_followed(location: str) -> None:
    request = request_for(HTTPGetAction(port=80, path="/a"), SIX, "test")
    assert redirected(request, location).problem
