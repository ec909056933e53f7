"""Requests that are too large, too slow, too many or ambiguous, over raw TLS connections."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec import structs
from served import pod
from tls_world import TlsWorld, tls_world

from podtui.server.limits import LARGEST_BODY, Limits
from podtui.server.transport.streams import LIMIT, STREAMS
from podtui.server.transport.unix import CONNECTION_LIMITS

LIST = "/api/v1/pods"
ECHO = "/apis/example.org/v1/echoes"
WAIT = "/apis/example.org/v1/waits"
LOST = "/apis/example.org/v1/losses"


class Handlers:
    """``echo`` returns the length of the body, ``wait`` answers when released, ``lose`` after the
    connection is closed."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.entered = asyncio.Semaphore(0)

    async def echo(self, request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async def wait(self, request: web.Request) -> web.Response:
        self.entered.release()
        await self.go.wait()
        return web.Response(text="gone")

    async def lose(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response(text="lost")

    def options(self, **limits: Any) -> dict[str, Any]:
        routes = [
            web.get(LOST, self.lose),
            web.post(ECHO, self.echo),
            web.get(WAIT, self.wait),
            web.get(f"{WAIT}/x/log", self.wait),
        ]
        return {"extra_routes": routes, "limits": Limits(**limits)}


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
async def world(tmp_path: Path, handlers: Handlers) -> AsyncIterator[TlsWorld]:
    async with tls_world(tmp_path, **handlers.options()) as it:
        yield it


def head(world: TlsWorld, method: str, path: str, *lines: str) -> bytes:
    """A request's head with the owner's token, which closes the connection."""
    first = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    auth = f"Authorization: Bearer {world.pki.token}"
    return "\r\n".join([*first, auth, *lines, "", ""]).encode()


def code_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def status_of(answer: bytes) -> dict[str, Any]:
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


async def first_answer(world: TlsWorld, data: bytes) -> bytes:
    """Return the answer without waiting for the server to close."""

    def ask() -> bytes:
        with world.raw() as connection:
            connection.sendall(data)
            return connection.recv(65536)

    return await asyncio.to_thread(ask)


async def test_bodies_up_to_3_mib(world: TlsWorld) -> None:
    async with world.client() as client:
        async with client.post(ECHO, data=io.BytesIO(bytes(LARGEST_BODY))) as response:
            assert await response.text() == str(LARGEST_BODY)
        async with client.post(ECHO, data=io.BytesIO(bytes(LARGEST_BODY + 1))) as response:
            found = await response.json()
    assert (found["code"], found["reason"]) == (413, "RequestEntityTooLarge")
    assert found["message"] == "Request entity too large: limit is 3145728"


async def test_a_chunked_body_has_the_same_limit(world: TlsWorld) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(49):
            yield bytes(65536)

    async with world.client() as client, client.post(ECHO, data=pieces()) as response:
        assert response.status == 413


async def test_an_announced_body_is_refused_before_it_arrives(world: TlsWorld) -> None:
    answer = await first_answer(world, head(world, "POST", ECHO, "Content-Length: 99999999999"))
    assert status_of(answer)["code"] == 413


async def test_no_body_is_read_without_credentials(world: TlsWorld) -> None:
    data = b"POST /api/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    assert status_of(await first_answer(world, data))["code"] == 403


async def test_a_body_has_a_time_limit(tmp_path: Path, handlers: Handlers) -> None:
    async with tls_world(tmp_path, **handlers.options(body_seconds=0.05)) as world:
        data = head(world, "POST", ECHO, "Content-Length: 9") + b"half"
        found = status_of(await first_answer(world, data))
        assert (found["code"], found["message"]) == (
            408, "the request's body did not arrive in time",
        )  # fmt: skip


async def test_a_compressed_body_is_not_unpacked(world: TlsWorld) -> None:
    """A few bytes could become gigabytes."""
    packed = gzip.compress(bytes(10_000_000))
    headers = {"Content-Encoding": "gzip"}
    async with world.client() as client, client.post(ECHO, data=packed, headers=headers) as found:
        assert await found.text() == str(len(packed))


async def test_a_head_has_a_limit_of_size(world: TlsWorld) -> None:
    line = CONNECTION_LIMITS["max_line_size"]
    async with world.client() as client:
        async with client.get(LIST, params={"labelSelector": "a=" + "b" * 60}) as response:
            assert response.status == 200
        long = "/apis/x/v1/" + "b" * (line // 2)
        async with client.get(long) as response:
            assert response.status == 404
    for lines in (
        ["X: " + "y" * 2 * CONNECTION_LIMITS["max_field_size"]],
        [f"X-{number}: y" for number in range(2 * CONNECTION_LIMITS["max_headers"])],
    ):
        assert code_of(await world.exchange(head(world, "GET", LIST, *lines))) == 400
    assert code_of(await world.exchange(head(world, "GET", "/" + "b" * 2 * line))) == 400


async def test_a_head_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that arrive slowly do not extend it."""
    monkeypatch.setitem(CONNECTION_LIMITS, "keepalive_timeout", 0.3)
    async with tls_world(tmp_path) as world:

        def trickle() -> int:
            with world.raw() as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n")
                connection.settimeout(0.01)
                for sent in range(10_000):
                    try:
                        connection.sendall(b"X: y\r\n")
                        if connection.recv(100) == b"":
                            return sent
                    except TimeoutError:
                        pass
                    except (ssl.SSLError, ConnectionError):
                        return sent
            return -1

        assert await asyncio.to_thread(trickle) > 0


async def test_too_many_requests(tmp_path: Path, handlers: Handlers) -> None:
    """Watches and streams have a separate limit, so that short requests are accepted."""
    async with (
        tls_world(tmp_path, **handlers.options(most=2, most_long=1, reserved=0)) as world,
        world.client() as client,
        asyncio.TaskGroup() as group,
    ):

        async def ask(path: str) -> tuple[int, str | None]:
            async with client.get(path) as response:
                return response.status, response.headers.get("Retry-After")

        long = group.create_task(ask(f"{WAIT}/x/log"))
        await handlers.entered.acquire()
        assert await ask(f"{LIST}?watch=true") == (429, "1")
        short = [group.create_task(ask(WAIT)) for _ in range(2)]
        for _ in short:
            await handlers.entered.acquire()
        async with client.get(LIST) as response:
            found = await response.json()
        assert (found["code"], found["reason"]) == (429, "TooManyRequests")
        assert found["message"] == "Too many requests, please try again later."
        handlers.go.set()
        assert [await one for one in (long, *short)] == [(200, None)] * 3
        assert (await ask(LIST))[0] == 200


async def test_one_client_cannot_take_all_watches(tmp_path: Path, handlers: Handlers) -> None:
    options = handlers.options(most_long=4, most_long_each=2, reserved=0)
    async with tls_world(tmp_path, **options) as world, AsyncExitStack() as stack:

        async def watch(client: aiohttp.ClientSession) -> int:
            response = await stack.enter_async_context(client.get(f"{LIST}?watch=true"))
            return response.status

        one, other, third = [
            await stack.enter_async_context(world.client(**{"User-Agent": name}))
            for name in ("one/1", "other/1", "third/1")
        ]
        assert [await watch(one) for _ in range(3)] == [200, 200, 429]
        assert [await watch(other) for _ in range(3)] == [200, 200, 429]
        assert await watch(third) == 429
        async with one.get(LIST) as response:
            assert response.status == 200


async def test_clients_with_the_token_cannot_lock_out_the_owner(
    tmp_path: Path, handlers: Handlers
) -> None:
    """Neither from watches, with any number of User-Agents, nor from other requests."""
    options = handlers.options(most=4, most_long=4, most_long_each=2, reserved=1)
    async with (
        tls_world(tmp_path, **options) as world,
        AsyncExitStack() as stack,
        asyncio.TaskGroup() as group,
    ):
        connector = aiohttp.UnixConnector(str(world.served.socket))
        owner = await stack.enter_async_context(
            aiohttp.ClientSession("http://podtui", connector=connector)
        )

        async def watch(client: aiohttp.ClientSession) -> int:
            return (await stack.enter_async_context(client.get(f"{LIST}?watch=true"))).status

        async def ask(client: aiohttp.ClientSession, path: str) -> int:
            async with client.get(path) as response:
                return response.status

        others = [
            await stack.enter_async_context(world.client(**{"User-Agent": f"n/{number}"}))
            for number in range(6)
        ]
        assert [await watch(client) for client in others] == [200] * 3 + [429] * 3
        assert await watch(owner) == 200
        waiting = [group.create_task(ask(client, WAIT)) for client in others[:3]]
        for _ in waiting:
            await handlers.entered.acquire()
        assert await ask(others[3], LIST) == 429
        assert await ask(owner, LIST) == 200
        handlers.go.set()
        assert [await one for one in waiting] == [200] * 3


async def silent(world: TlsWorld, path: str) -> asyncio.StreamWriter:
    """Send a request on the unix socket, and read none of the response."""
    _, writer = await asyncio.open_unix_connection(str(world.served.socket), limit=1024)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await writer.drain()
    return writer


async def until_disconnected(world: TlsWorld) -> None:
    server = world.served.runner.server
    assert server is not None
    async with asyncio.timeout(120):
        while server.connections:  # noqa: ASYNC110 - nothing tells when a client is disconnected
            await asyncio.sleep(0.01)


async def test_a_client_has_a_time_limit_to_read_a_list(tmp_path: Path, handlers: Handlers) -> None:
    async with tls_world(tmp_path, **handlers.options(send_seconds=0.05)) as world:
        for number in range(20):
            one = pod(f"p{number}")
            labels = {"padding": "x" * 100_000}
            meta = structs.replace(one.metadata, annotations=labels)
            await world.served.store.put("pods", structs.replace(one, metadata=meta))
        async with world.client() as client, client.get(LIST) as response:
            assert len((await response.json())["items"]) == 20
        writer = await silent(world, LIST)
        await until_disconnected(world)
        writer.transport.abort()


async def test_a_client_that_disconnects_before_its_response_is_no_error(
    tmp_path: Path, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_world(tmp_path, **handlers.options()) as world:
        with caplog.at_level(logging.DEBUG):
            async with world.client() as client:
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await client.get(LOST)
            await until_disconnected(world)
        assert f"the client of {LOST} disconnected before the response" in caplog.text
        assert "Traceback" not in caplog.text


async def test_a_stream_waits_a_limited_time_for_its_client(
    tmp_path: Path, handlers: Handlers
) -> None:
    async with tls_world(tmp_path, **handlers.options(stalled_seconds=0.05)) as world:
        writer = await silent(world, f"{LIST}?watch=true")
        for number in range(20):
            one = pod("big")
            annotations = {"padding": "x" * 100_000, "n": str(number)}
            meta = structs.replace(one.metadata, annotations=annotations)
            await world.served.store.put("pods", structs.replace(one, metadata=meta))
            await asyncio.sleep(0)
        await until_disconnected(world)
        assert len(world.served.app[STREAMS]) == 0
        writer.transport.abort()


async def test_a_request_has_a_time_limit_and_a_stream_has_none(
    tmp_path: Path, handlers: Handlers
) -> None:
    async with (
        tls_world(tmp_path, **handlers.options(seconds=0.05)) as world,
        world.client() as client,
        asyncio.TaskGroup() as group,
    ):

        async def stream() -> int:
            async with client.get(f"{WAIT}/x/log") as response:
                return response.status

        streaming = group.create_task(stream())
        async with client.get(WAIT) as response:
            found = await response.json()
        assert (found["code"], found["reason"]) == (504, "Timeout")
        assert "did not complete within the allotted timeout" in found["message"]
        assert not streaming.done()
        handlers.go.set()
        assert await streaming == 200


SMUGGLED = "GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n"


AMBIGUOUS = [
    ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 5"],
    ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: 5", "Content-Length: 5"],
    ["Content-Length: 5, 5"],
    ["Content-Length: +5"],
    ["Content-Length: -5"],
    ["Content-Length: 0x5"],
    ["Content-Length : 5"],
    ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding:\x0bchunked"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ["X: a", " folded: b"],
    ["X: a", "\tfolded"],
    ["Host: other"],
    ["X: a\x00b"],
    ["X\x00: a"],
    ["X: a\rb: c"],
    [": empty"],
    ["no colon"],
]


async def test_ambiguous_requests_are_refused(world: TlsWorld) -> None:
    """One 4xx response, and the connection ends: nothing after it is parsed as a request."""
    accepted = []
    for lines in AMBIGUOUS:
        data = head(world, "POST", ECHO, *lines).replace(b"Connection: close\r\n", b"")
        answer = await world.exchange(data + b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED.encode())
        if not (answer.count(b"HTTP/1.") == 1 and 400 <= code_of(answer) < 500):
            accepted.append((lines, answer))
    assert accepted == []


@pytest.mark.parametrize(
    "chunk", ["g\r\n", "-1\r\n", "5 \r\nhello\r\n", "5\nhello\n", "f" * 17 + "\r\n"]
)
async def test_broken_chunks_end_the_connection(world: TlsWorld, chunk: str) -> None:
    data = head(world, "POST", ECHO, "Transfer-Encoding: chunked")
    answer = await world.exchange(data + chunk.encode() + b"0\r\n\r\n" + SMUGGLED.encode())
    assert b"nodes" not in answer
    assert not answer or 400 <= code_of(answer) < 500, answer


async def test_malformed_requests_are_not_quoted_in_the_log(
    world: TlsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await world.exchange(head(world, "GET", "/", "X\x00: tell-tale"))
        await world.exchange(b"GET / HTTP/9.9\r\nAuthorization: Bearer tell-tale\r\n\r\n")
    assert "tell-tale" not in caplog.text
    assert world.pki.token not in caplog.text


async def test_pipelined_requests_are_answered_in_order(world: TlsWorld) -> None:
    keep = head(world, "GET", "/version").replace(b"Connection: close\r\n", b"")
    answer = await world.exchange(keep * 3 + head(world, "GET", "/healthz"))
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 4


async def test_a_disconnected_client_frees_its_place(tmp_path: Path, handlers: Handlers) -> None:
    async with tls_world(tmp_path, **handlers.options(most=1, reserved=0)) as world:
        async with world.client() as client:
            with pytest.raises(TimeoutError):
                await client.get(WAIT, timeout=aiohttp.ClientTimeout(total=0.1))
        async with world.client() as client, asyncio.timeout(120):
            while True:
                async with client.get(LIST) as response:
                    if response.status == 200:
                        break


async def test_a_watcher_that_does_not_read_costs_bounded_memory(world: TlsWorld) -> None:
    """20 MB of changes wait unread: another watcher gets each of them in order."""
    store, server = world.served.store, world.served.runner.server
    assert server is not None
    changes, padding = 200, "x" * 100_000
    ready = asyncio.Event()

    async def follow() -> list[str]:
        async with world.client() as client, client.get(f"{LIST}?watch=true") as response:
            ready.set()
            found: list[str] = []
            while len(found) < changes:
                line = await response.content.readuntil(b"\n")
                found.append(json.loads(line)["object"]["metadata"]["labels"]["n"])
            return found

    def stuck() -> ssl.SSLSocket:
        connection = world.raw()
        connection.sendall(head(world, "GET", f"{LIST}?watch=true"))
        assert connection.recv(1)
        return connection

    connection = await asyncio.to_thread(stuck)
    with connection:
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            await ready.wait()
            for number in range(changes):
                one = pod("big", n=str(number))
                noted = structs.replace(one.metadata, annotations={"padding": padding})
                await store.put("pods", structs.replace(one, metadata=noted))
                await asyncio.sleep(0)
            assert await following == [str(number) for number in range(changes)]
        assert world.served.app[STREAMS].waiting < LIMIT + 2 * len(padding)
        waiting = [
            one.transport.get_write_buffer_size()
            for one in server.connections
            if one.transport is not None
        ]
    assert max(waiting) < 2 * 1024 * 1024, waiting
