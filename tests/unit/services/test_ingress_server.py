"""The server of Ingresses, with real connections and servers in place of pods."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from ingress_certificates import certificate
from service_world import LOOPBACK, LoopbackDialer, closed_port, tcp_server, until

from podtui.api.v1 import ServicePort
from podtui.clock import SystemClock
from podtui.services import ingress_server
from podtui.services.backends import Backend
from podtui.services.ingress_rules import Certificate, PathRule, RouteTable, Target
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.proxies import listening_socket


def target(name: str = "web", **changes: object) -> Target:
    values = {"namespace": "ns", "service": name, "port": ServicePort(port=80), **changes}
    return Target(**values)  # pyright: ignore[reportArgumentType]


def table(item: Target, host: str = "") -> RouteTable:
    return RouteTable({host: (PathRule("/", is_exact=False, target=item),)}, None, ())


@asynccontextmanager
async def ingress(
    *backends: Backend, dialer: LoopbackDialer | None = None
) -> AsyncGenerator[tuple[IngressServer, str]]:
    server = IngressServer(
        lambda item: backends if item.service == "web" else (),
        dialer or LoopbackDialer(),
        server_context(*certificate("fallback.test")),
        SystemClock(),
    )
    server.table = table(target())
    listener = listening_socket("TCP", LOOPBACK, 0)
    url = f"127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(listener))
        yield server, url
        task.cancel()


@asynccontextmanager
async def pod(handler: object) -> AsyncGenerator[Backend]:
    """Serve HTTP in place of a pod."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # pyright: ignore[reportArgumentType]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    try:
        yield Backend(LOOPBACK, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def shown(request: web.Request) -> web.Response:
    body = await request.text()
    headers = {name.lower(): value for name, value in request.headers.items()}
    answer = {"method": request.method, "path": request.raw_path, "body": body, "headers": headers}
    response = web.json_response(answer, status=201)
    response.headers.add("Set-Cookie", "a=1")
    response.headers.add("Set-Cookie", "b=2")
    return response


@pytest.fixture
async def client() -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_a_request_and_its_headers(client: aiohttp.ClientSession) -> None:
    async with pod(shown) as backend, ingress(backend) as (_, url):
        headers = {
            "Host": "shop.example.com:8480",
            "X-Forwarded-For": "192.0.2.1",
            "X-Real-IP": "192.0.2.1",
            "X-Team": "shop",
        }
        async with client.post(
            f"http://{url}/a%2Fb?x=%20", data=b"body", headers=headers
        ) as response:
            answer = await response.json()
    assert response.status == 201
    assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
    assert (answer["method"], answer["body"]) == ("POST", "body")
    assert answer["path"] == "/a%2Fb?x=%20"
    received = answer["headers"]
    assert received["host"] == received["x-forwarded-host"] == "shop.example.com:8480"
    assert received["x-forwarded-for"] == received["x-real-ip"] == "127.0.0.1"
    assert (received["x-forwarded-port"], received["x-forwarded-proto"]) == ("8480", "http")
    assert received["x-team"] == "shop"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
async def test_methods(client: aiohttp.ClientSession, method: str) -> None:
    async with (
        pod(shown) as backend,
        ingress(backend) as (_, url),
        client.request(method, f"http://{url}/") as response,
    ):
        assert response.status == 201
        text = await response.text()
    assert (text == "") is (method == "HEAD")


async def test_large_bodies_are_passed_on_in_pieces(client: aiohttp.ClientSession) -> None:
    async def count(request: web.Request) -> web.StreamResponse:
        size = 0
        async for piece in request.content.iter_any():
            size += len(piece)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b"x" * 65536)
        await response.write(str(size).encode())
        return response

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    async with (
        pod(count) as backend,
        ingress(backend) as (_, url),
        client.post(f"http://{url}/", data=pieces()) as response,
    ):
        body = await response.read()
    assert len(body) == 64 * 65536 + 7
    assert body.endswith(b"4194304")


async def test_a_response_is_passed_on_as_it_comes(client: aiohttp.ClientSession) -> None:
    more = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"first")
        await more.wait()
        await response.write(b"second")
        return response

    async with (
        pod(stream) as backend,
        ingress(backend) as (_, url),
        client.get(f"http://{url}/") as response,
    ):
        assert await response.content.readany() == b"first"
        more.set()
        assert await response.content.read() == b"second"


async def test_a_websocket(client: aiohttp.ClientSession) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        chat = web.WebSocketResponse(protocols=["chat"])
        await chat.prepare(request)
        async for message in chat:
            await chat.send_str(f"<{message.data}>")
        return chat

    dialer = LoopbackDialer()
    async with pod(echo) as backend, ingress(backend, dialer=dialer) as (_, url):
        async with client.ws_connect(f"ws://{url}/", protocols=["chat"]) as chat:
            assert chat.protocol == "chat"
            for text in ("a", "b" * 100_000):
                await chat.send_str(text)
                assert await chat.receive_str() == f"<{text}>"
            assert dialer.open == 1
        await until(lambda: dialer.open == 0)


async def test_an_upgrade_to_http_2_is_not_passed_on(client: aiohttp.ClientSession) -> None:
    names = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "x"}
    async with (
        pod(shown) as backend,
        ingress(backend) as (_, url),
        client.post(f"http://{url}/", data=b"body", headers=names) as response,
    ):
        answer = await response.json()
    assert answer["body"] == "body"
    assert not {"upgrade", "http2-settings"} & answer["headers"].keys()


async def test_a_pod_that_switches_the_protocol_unasked(client: aiohttp.ClientSession) -> None:
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        writer.close()

    async with (
        tcp_server(switch) as backend,
        ingress(backend) as (_, url),
        client.get(f"http://{url}/") as response,
    ):
        assert response.status == 502
        assert "switched to another protocol" in await response.text()


async def test_why_no_pod_answers(client: aiohttp.ClientSession) -> None:
    async def answer(server: IngressServer, item: RouteTable) -> tuple[int, str]:
        server.table = item
        async with client.get(f"http://{url}/x") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            return response.status, (await response.text()).split("podtui: ")[1].strip()

    closed = closed_port()
    async with ingress(closed) as (server, url):
        assert await answer(server, table(target(), host="a.b")) == (
            404,
            "no rule is for the host 127.0.0.1; there are rules for a.b",
        )
        missing = target(port=None, problem="Service ns/x does not exist")
        assert await answer(server, table(missing)) == (503, "Service ns/x does not exist")
        assert await answer(server, table(target("empty"))) == (
            503,
            "Service ns/empty port 80 has no ready endpoints",
        )
        status, text = await answer(server, table(target()))
        assert status == 502
        assert text == (
            f"Service ns/web port 80: failed to connect to 127.0.0.1:{closed.port}:"
            " Connection refused"
        )


async def test_a_pod_that_is_no_http_server(client: aiohttp.ClientSession) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR \x1b[31mno\r\n\r\n")
        writer.close()

    async with (
        tcp_server(other) as backend,
        ingress(backend) as (_, url),
        client.get(f"http://{url}/") as response,
    ):
        assert response.status == 502
        text = await response.text()
    assert "malformed HTTP response" in text
    assert "\x1b" not in text


async def test_another_pod_is_tried_if_the_first_refuses(client: aiohttp.ClientSession) -> None:
    async with pod(shown) as backend, ingress(closed_port(), backend) as (_, url):
        for _ in range(10):
            async with client.get(f"http://{url}/") as response:
                assert response.status == 201


async def test_a_response_that_breaks_off_breaks_for_the_client(
    client: aiohttp.ClientSession,
) -> None:
    async def part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
        await writer.drain()
        writer.close()

    async with tcp_server(part) as backend, ingress(backend) as (_, url):
        with pytest.raises(aiohttp.ClientError):
            async with client.get(f"http://{url}/") as response:
                await response.read()


async def test_a_client_that_leaves_ends_the_connection_to_the_pod() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 1000)
            await asyncio.sleep(0.01)

    dialer = LoopbackDialer()
    async with pod(endless) as backend, ingress(backend, dialer=dialer) as (_, url):
        async with aiohttp.ClientSession() as session, session.get(f"http://{url}/") as response:
            assert await response.content.readany()
            assert dialer.open == 1
        await until(lambda: dialer.open == 0)


async def test_tls_with_the_certificate_of_the_server_name(client: aiohttp.ClientSession) -> None:
    crt, key = certificate("shop.example.com")
    async with pod(shown) as backend, ingress(backend) as (server, url):
        certificates = (Certificate("shop.example.com", "ns", "shop"),)
        server.table = RouteTable(server.table.hosts, None, certificates)
        server.certificates.replace({("ns", "shop"): server_context(crt, key)})
        port = int(url.rpartition(":")[2])
        for name, expected in (
            ("shop.example.com", "shop.example.com"),
            ("shop.example.com.localhost", "shop.example.com"),
            ("other.example.com", "fallback.test"),
        ):
            assert await asyncio.to_thread(common_name, port, name) == expected
        async with client.get(f"https://{url}/", ssl=False) as response:
            answer = await response.json()
        assert answer["headers"]["x-forwarded-proto"] == "https"
        async with client.get(f"http://{url}/") as response:
            assert response.status == 201


def common_name(port: int, server_name: str) -> str:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((LOOPBACK, port), timeout=60) as sock,
        context.wrap_socket(sock, server_hostname=server_name) as tls,
    ):
        data = tls.getpeercert(binary_form=True)
    assert data is not None
    [attribute] = x509.load_der_x509_certificate(data).subject
    return str(attribute.value)


async def test_a_pod_that_serves_tls(client: aiohttp.ClientSession) -> None:
    context = server_context(*certificate("pod"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    served = await asyncio.start_server(answer, LOOPBACK, 0, ssl=context)
    backend = Backend(LOOPBACK, served.sockets[0].getsockname()[1])
    async with served, ingress(backend) as (server, url):
        server.table = table(target(port=ServicePort(port=443, appProtocol="https")))
        async with client.get(f"http://{url}/") as response:
            assert await response.text() == "ok"


def test_a_certificate_and_its_key_must_match() -> None:
    crt, _ = certificate("a.b")
    _, key = certificate("a.b")
    with pytest.raises(ValueError, match="certificate and key do not match"):
        server_context(crt, key)
    with pytest.raises(ValueError, match="certificate and key cannot be read"):
        server_context(b"x", b"y")


async def test_many_requests_leave_no_socket(client: aiohttp.ClientSession) -> None:
    dialer = LoopbackDialer()
    async with pod(shown) as backend, ingress(backend, dialer=dialer) as (_, url):

        async def get() -> int:
            async with client.get(f"http://{url}/", headers={"Connection": "close"}) as response:
                await response.read()
                return response.status

        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            assert set(await asyncio.gather(*(get() for _ in range(20)))) == {201}
        await until(lambda: dialer.open == 0)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 5)


async def test_the_number_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingress_server, "MAX_CONNECTIONS", 2)
    async with ingress() as (_, url):
        port = int(url.rpartition(":")[2])
        opened = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        assert await reader.read() == b""
        for each in (writer, *(writer for _, writer in opened)):
            each.close()


async def test_a_client_that_sends_nothing_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingress_server, "HEAD_SECONDS", 0.2)
    async with ingress() as (_, url):
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
