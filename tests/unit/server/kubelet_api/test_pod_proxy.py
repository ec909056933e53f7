"""Requests to servers in pods."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from msgspec import structs
from multidict import CIMultiDict
from served import Served, pod, serving

from podtui.api.v1 import ContainerPort, Endpoints, Pod, PodIP, Service
from podtui.clock import SystemClock
from podtui.errors import EngineError
from podtui.http.client import HttpProblem, parse_head
from podtui.pki.pki import Pki
from podtui.runtime import bridge
from podtui.runtime.protocol import Duplex
from podtui.server.kubelet_api.locations import ProxyTarget, parse_target
from podtui.server.kubelet_api.pod_proxy import dial_problem, rewritten_location
from podtui.server.status import StatusError

PROXY = "/api/v1/namespaces/default/pods/{}/proxy"
WEB = PROXY.format("web")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class StreamDuplex:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()


class Sessions:
    """Connects to servers of the test by the ports of the pod."""

    def __init__(self) -> None:
        self.sockets: dict[int, str] = {}

    @asynccontextmanager
    async def dial(self, pod: Pod, port: int) -> AsyncGenerator[Duplex]:
        if port not in self.sockets:
            cause = ConnectionRefusedError(111, "Connection refused")
            raise EngineError(f"failed to connect to port {port}") from cause
        reader, writer = await asyncio.open_unix_connection(self.sockets[port])
        try:
            yield StreamDuplex(reader, writer)
        finally:
            writer.close()


async def echo(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    headers = CIMultiDict({"X-Method": request.method, "Access-Control-Allow-Origin": "*"})
    headers.add("Set-Cookie", "a=1")
    headers.add("Set-Cookie", "b=2")
    names = sorted(key.lower() for key in request.headers)
    text = f"{request.raw_path}\n{' '.join(names)}\n{request.headers.get('Host')}\n".encode()
    return web.Response(body=text + body, headers=headers)


async def streamed(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(3):
        await response.write(b"%d" % number * 100_000)
    await response.write_eof()
    return response


async def moved(request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": request.query["to"]})


PAGE = '<a href="/x">é</a>\r\n<img alt="a &amp; b" src=/y?a=1&amp;b=2 />'


async def page(request: web.Request) -> web.StreamResponse:
    response = web.Response(text=PAGE, content_type=request.query["type"])
    if "compressed" in request.query:
        response.enable_compression(web.ContentCoding(request.query["compressed"]))
    return response


async def talk(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(f"you said {message.data}")
    return socket


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    sessions = Sessions()
    app = web.Application(client_max_size=1 << 24)
    app.router.add_get("/streamed", streamed)
    app.router.add_get("/moved", moved)
    app.router.add_get("/page", page)
    app.router.add_get("/talk", talk)
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    sessions.sockets = {port: str(tmp_path / str(port)) for port in (80, 8080)}
    for path in sessions.sockets.values():
        await web.UnixSite(runner, path).start()
    now = SystemClock().now()
    pki = Pki(tmp_path / "pki", now)
    pki.ensure_server_certificate(("localhost",), now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_path)
    sessions.sockets[443] = str(tmp_path / "tls")
    await web.UnixSite(runner, sessions.sockets[443], ssl_context=context).start()
    async with serving(tmp_path / "s.sock", sessions=sessions) as it:
        await it.store.put("pods", pod("web"))
        yield it
    await runner.cleanup()


async def test_methods_paths_queries_and_bodies_arrive(http: aiohttp.ClientSession) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        async with http.request(method, f"{WEB}/a%2Fb/c?d=%20e", data=b"body") as response:
            lines = (await response.read()).split(b"\n")
        assert (response.status, response.headers["X-Method"]) == (200, method)
        assert (lines[0], lines[3]) == (b"/a%2Fb/c?d=%20e", b"body")
        assert lines[2] == b"podtui"
        assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
        assert "Access-Control-Allow-Origin" not in response.headers
    async with http.head(f"{WEB}/x") as response:
        assert (response.status, response.headers["X-Method"]) == (200, "HEAD")
        assert int(response.headers["Content-Length"]) > 0


async def test_large_and_streamed_bodies(http: aiohttp.ClientSession) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    async with http.post(f"{WEB}/", data=pieces()) as response:
        assert (await response.read()).endswith(b"x" * 64 * 65536)
    async with http.get(f"{WEB}/streamed") as response:
        assert await response.read() == b"0" * 100_000 + b"1" * 100_000 + b"2" * 100_000


async def test_credentials_stay_with_the_api(http: aiohttp.ClientSession) -> None:
    headers = {
        "Authorization": "Bearer secret",
        "Impersonate-User": "someone",
        "Connection": "X-Hop",
        "X-Hop": "1",
        "X-Kept": "1",
    }
    async with http.get(f"{WEB}/", headers=headers) as response:
        names = (await response.text()).split("\n")[1].split(" ")
    assert {"x-kept", "x-forwarded-uri"} <= set(names)
    assert not {"authorization", "impersonate-user", "x-hop"} & set(names)


@pytest.mark.parametrize(
    ("name", "port"),
    [("web", 80), ("web:8080", 8080), ("http:web:8080", 8080), ("https:web:443", 443)],
)
async def test_targets(name: str, port: int, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{PROXY.format(name)}/x") as response:
        assert (response.status, (await response.text())[:2]) == (200, "/x")


async def test_the_first_declared_port_is_the_default(
    served: Served, http: aiohttp.ClientSession
) -> None:
    item = pod("other")
    [container] = item.spec.containers
    container = structs.replace(container, ports=(ContainerPort(containerPort=8080),))
    spec = structs.replace(item.spec, containers=(container,))
    await served.store.put("pods", structs.replace(item, spec=spec))
    served.kubelet.sessions.sockets.pop(80)
    async with http.get(f"{PROXY.format('other')}/x") as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (
            f"{PROXY.format('web:81')}/",
            503,
            "error trying to reach service: dial tcp 10.0.0.7:81: connect: connection refused",
        ),
        (
            f"{PROXY.format('web:x')}/",
            503,
            "error trying to reach service: dial tcp: address x: invalid port",
        ),
        (
            f"{PROXY.format('https:web:80')}/",
            503,
            "error trying to reach service: http: server gave HTTP response to HTTPS client",
        ),
        (f"{PROXY.format('ftp:web:80')}/", 400, 'invalid pod request "ftp:web:80"'),
        (f"{PROXY.format('none')}/", 404, 'pods "none" not found'),
        (f"{PROXY.format('pending')}/", 400, "address not allowed"),
        (
            f"{PROXY.format('far')}/",
            500,
            (
                'pod "far" is bound to node "elsewhere",'
                ' but this agent reaches only the kubelet of node "node"'
            ),
        ),
    ],
)
async def test_refusals(
    path: str, code: int, message: str, served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("pending", phase="Pending"))
    far = pod("far")
    far = structs.replace(far, spec=structs.replace(far.spec, nodeName="elsewhere"))
    await served.store.put("pods", far)
    async with http.get(path) as response:
        status = await response.json()
    assert (response.status, status["message"]) == (code, message)


async def test_a_path_without_a_slash_is_redirected(http: aiohttp.ClientSession) -> None:
    async with http.get(f"{WEB}?a=b", allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (301, f"{WEB}/?a=b")
    async with http.get(f"{WEB}?path=a/b%20c") as response:
        assert (response.status, (await response.text())[:9]) == (200, "/a/b%20c?")
    async with http.post(WEB) as response:
        assert (response.status, (await response.text())[:2]) == (200, "/\n")


async def test_redirects_stay_below_the_proxy(http: aiohttp.ClientSession) -> None:
    for to, expected in (
        ("/login", f"{WEB}/login"),
        ("https://elsewhere/x", "https://elsewhere/x"),
    ):
        async with http.get(f"{WEB}/moved", params={"to": to}, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (302, expected)


async def test_links_of_pages_stay_below_the_proxy(http: aiohttp.ClientSession) -> None:
    expected = f'<a href="{WEB}/x">é</a>\r\n<img alt="a &amp; b" src="{WEB}/y?a=1&amp;b=2"/>'
    for query, text in (
        ("type=text/html", expected),
        ("type=text/html&compressed=gzip", expected),
        ("type=text/html&compressed=deflate", PAGE),
        ("type=text/plain", PAGE),
    ):
        async with http.get(f"{WEB}/page?{query}") as response:
            assert (response.status, await response.text()) == (200, text)


async def test_a_web_socket_passes_through(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{WEB}/talk") as socket:
        for text in ("one", "two"):
            await socket.send_str(text)
            assert await socket.receive_str(timeout=120) == f"you said {text}"
    async with http.get(
        f"{WEB}/x", headers={"Upgrade": "other", "Connection": "Upgrade"}
    ) as response:
        status = await response.json()
    assert (response.status, status["message"]) == (
        500,
        "invalid upgrade response: status code 200",
    )
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(f"{PROXY.format('web:81')}/talk")
    assert refused.value.status == 500


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (b"", 503, "error trying to reach service: EOF"),
        (b"SSH-2.0\r\n\r\n", 503, 'malformed HTTP response \\"SSH-2.0'),
        (b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", 503, 'malformed HTTP response \\"bad header'),
        (b"HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n", 503, 'malformed HTTP response \\"A: b?'),
        (b"HTTP/1.1 200 \xff\x01\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        (b"HTTP/1.1 200 a\rb\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        (CHUNKED[:-2] + b"Content-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, ""),
        (CHUNKED + b"3;x=1\r\nabc\r\n0\r\nA: b\r\n\r\n", 200, "abc"),
        (b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", 413, "no"),
    ],
)  # fmt: skip
async def test_answers_of_odd_servers(
    answer: bytes, code: int, text: str, served: Served, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    path = str(tmp_path / "odd")
    served.kubelet.sessions.sockets[9000] = path
    async with await asyncio.start_unix_server(serve, path):
        async with http.post(f"{PROXY.format('web:9000')}/", data=b"x" * 100_000) as response:
            body = await response.text()
        assert response.status == code
        assert text in body


async def test_header_values_of_pods_keep_their_characters(
    served: Served, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = "HTTP/1.1 302 Found\r\nX-Name: Zoë €\r\nLocation: /é\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())
        writer.close()

    path = str(tmp_path / "odd")
    served.kubelet.sessions.sockets[9000] = path
    name = PROXY.format("web:9000")
    async with (
        await asyncio.start_unix_server(serve, path),
        http.get(f"{name}/", allow_redirects=False) as response,
    ):
        assert response.headers["X-Name"] == "Zoë €"
        assert response.headers["Location"] == f"{name}/é"


async def test_a_lack_of_sockets_is_the_words_of_the_answer(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(bridge.socket, "socketpair", full)
    async with http.get(f"{WEB}/x") as response:
        status = await response.json()
    assert response.status == 503
    assert status["message"] == "error trying to reach service: socket: too many open files"


async def test_the_name_of_the_pods_server_is_passed_on(
    served: Served, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nServer: theirs\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    path = str(tmp_path / "named")
    served.kubelet.sessions.sockets[9000] = path
    async with (
        await asyncio.start_unix_server(serve, path),
        http.get(f"{PROXY.format('web:9000')}/") as response,
    ):
        assert response.headers["Server"] == "theirs"


async def test_a_body_that_is_cut_off_breaks_the_connection(
    served: Served, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        writer.close()

    path = str(tmp_path / "cut")
    served.kubelet.sessions.sockets[9000] = path
    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(aiohttp.ClientError):
            async with http.get(f"{PROXY.format('web:9000')}/") as response:
                await response.read()


def endpoints(**address: object) -> Endpoints:
    target = {"kind": "Pod", "namespace": "default", "name": "web"}
    subset = {
        "addresses": [{"ip": "10.0.0.7", "targetRef": target, **address}],
        "ports": [
            {"name": "http", "port": 80},
            {"name": "https", "port": 443},
            {"name": "refused", "port": 1},
        ],
    }
    meta = {"name": "shop", "namespace": "default"}
    return msgspec.convert({"metadata": meta, "subsets": [subset]}, Endpoints)


async def put_service(served: Served, item: Endpoints | None) -> None:
    web_pod = pod("web")
    status = structs.replace(web_pod.status, podIPs=(PodIP(ip="10.0.0.7"),))
    await served.store.put("pods", structs.replace(web_pod, status=status))
    ports = [{"name": "http", "port": 8000}, {"name": "https", "port": 8443}]
    meta = {"name": "shop", "namespace": "default"}
    service = msgspec.convert({"metadata": meta, "spec": {"ports": ports}}, Service)
    await served.store.put("services", service)
    if item is not None:
        await served.store.put("endpoints", item)


SERVICE = "/api/v1/namespaces/default/services/{}/proxy"


@pytest.mark.parametrize(
    "name", ["shop:http", "http:shop:http", "shop:8000", "https:shop:https", "https:shop:8443"]
)
async def test_a_service_is_reached_by_names_and_numbers_of_its_ports(
    served: Served, http: aiohttp.ClientSession, name: str
) -> None:
    await put_service(served, endpoints())
    async with http.post(f"{SERVICE.format(name)}/a?b=c", data=b"body") as response:
        lines = (await response.read()).split(b"\n")
    assert (response.status, lines[0], lines[3]) == (200, b"/a?b=c", b"body")
    url = SERVICE.format(name)
    async with http.get(url, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (301, f"{url}/")
    async with http.get(f"{url}/moved?to=/there", allow_redirects=False) as response:
        assert response.headers["Location"] == f"{url}/there"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("shop", 503, 'no endpoints available for service "shop"'),
        ("shop:other", 503, 'no endpoints available for service "shop:other"'),
        ("shop:9", 503, 'no service port 9 found for service "shop"'),
        ("absent", 404, 'endpoints "absent" not found'),
        ("absent:80", 404, 'services "absent" not found'),
        ("a:b:c:d", 400, 'invalid service request "a:b:c:d"'),
        (
            "shop:refused",
            503,
            "error trying to reach service: dial tcp 10.0.0.7:1: connect: connection refused",
        ),
    ],
)
async def test_a_service_that_cannot_be_reached(
    served: Served, http: aiohttp.ClientSession, name: str, code: int, message: str
) -> None:
    await put_service(served, endpoints())
    async with http.get(f"{SERVICE.format(name)}/") as response:
        status = await response.json()
    assert (status["code"], status["message"]) == (code, message)


@pytest.mark.parametrize(
    "item",
    [
        msgspec.convert({"metadata": {"name": "shop", "namespace": "default"}}, Endpoints),
        endpoints(targetRef=None),
        endpoints(ip="10.0.0.8"),
        endpoints(targetRef={"kind": "Pod", "namespace": "other", "name": "web"}),
        endpoints(targetRef={"kind": "Pod", "namespace": "default", "name": "gone"}),
    ],
)
async def test_only_addresses_of_pods_of_the_namespace_are_reached(
    served: Served, http: aiohttp.ClientSession, item: Endpoints
) -> None:
    await put_service(served, item)
    async with http.get(f"{SERVICE.format('shop:http')}/") as response:
        status = await response.json()
    assert status["code"] == 503
    assert status["message"].startswith('no endpoints available for service "shop')


def test_targets_are_parsed_as_by_kubernetes() -> None:
    for text, target in (
        ("a", ProxyTarget("", "a", "")),
        ("a:1", ProxyTarget("", "a", "1")),
        ("a:", ProxyTarget("", "a", "")),
        ("https:a:", ProxyTarget("https", "a", "")),
    ):
        assert parse_target(text, "pod") == target
    for text in ("", ":1", "a:b:c", "https::1", "http:a:1:2"):
        with pytest.raises(StatusError, match="invalid pod request"):
            parse_target(text, "pod")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a?b=c", "/p/a?b=c"),
        ("/p/a", "/p/a"),
        ("a", "a"),
        ("http://10.0.0.7:80/a/", "/p/a/"),
        ("http://api/a", "/p/a"),
        ("http://other/a", "http://other/a"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_locations(location: str, expected: str) -> None:
    assert rewritten_location(location, "/p", ("10.0.0.7:80", "api")) == expected


def test_dial_errors_have_the_words_of_go() -> None:
    def of(cause: Exception) -> EngineError:
        error = EngineError("podtui's words")
        error.__cause__ = cause
        return error

    refused = ConnectionRefusedError(111, "Connection refused")
    assert (
        dial_problem("fd00::1", 1, of(refused))
        == "dial tcp [fd00::1]:1: connect: connection refused"
    )
    assert dial_problem("1.2.3.4", 1, of(TimeoutError())) == "dial tcp 1.2.3.4:1: i/o timeout"
    assert dial_problem("1.2.3.4", 1, of(ValueError())) == "podtui's words"


def test_a_head_is_parsed() -> None:
    head = parse_head(b"HTTP/1.1 200\r\nA:  b \r\na: c\r\n\r\n")
    assert (head.status, head.headers.getall("A")) == (200, ["b", "c"])
    head = parse_head(
        "HTTP/1.1 200\r\nA: é\r\nContent-Length: 2\r\n".encode()
        + b"Content-Length: 2\r\nB: \xff\r\n\r\n"
    )
    assert dict(head.headers) == {"A": "é", "B": "\ufffd", "Content-Length": "2"}
    head = parse_head(b"HTTP/1.1 200\r\nContent-Length: 2\r\nTransfer-Encoding: Chunked\r\n\r\n")
    assert dict(head.headers) == {"Transfer-Encoding": "Chunked"}
    for block in (
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200\r\nA\x00: b\r\n\r\n",
        b"HTTP/1.1 200\r\nA: b\rc\r\n\r\n",
        b"HTTP/1.1 200\r\nA: b\x01c\r\n\r\n",
        b"HTTP/1.1 200\r\nA: b\x7f\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    ):
        with pytest.raises(HttpProblem):
            parse_head(block)


@pytest.mark.virtual_time
async def test_a_server_that_never_answers_has_a_limit_of_time(
    served: Served, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    path = str(tmp_path / "silent")
    served.kubelet.sessions.sockets[9000] = path
    unlimited = aiohttp.ClientTimeout(total=None)
    async with (
        await asyncio.start_unix_server(serve, path),
        http.get(f"{PROXY.format('web:9000')}/", timeout=unlimited) as response,
    ):
        status = await response.json()
    assert response.status == 503
    assert "timeout awaiting response headers" in status["message"]
