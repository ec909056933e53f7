"""Sessions with pods through an API server over TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from cluster_server import Authority, FakeCluster, FrontRules, Handler, cluster_client
from runtime_bench import until
from session_world import SessionWorld, session_world
from simulated import memory

from podtui.client.cluster import ClusterClient
from podtui.client.cluster_connection import PING_SECONDS
from podtui.client.protocol import ExecQuery
from podtui.clock import Clock, SystemClock
from podtui.errors import ApiError, PodtuiError
from podtui.kubeconfig import choose, load
from podtui.runtime.memory import Behaviour, OutputLine
from podtui.wire import channels
from podtui.wire.spdy import Frame, Ping, Spdy

NS = "default"
CAT_AND_FAIL = ("sh", "-c", "cat; echo bad >&2; exit 7")
DECLARED = Behaviour(lines=(OutputLine("bad", "stderr"),), echoes=True, exit_code=7)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    async with session_world(memory(commands={CAT_AND_FAIL: DECLARED}), tmp_path / "s.sock") as it:
        await it.put(c="sleep 300")
        yield it


@pytest.fixture
async def client(world: SessionWorld, tmp_path: Path) -> AsyncIterator[ClusterClient]:
    made = await cluster_client(world.served, tmp_path)
    yield made
    await made.close()


async def test_exec(client: ClusterClient) -> None:
    query = ExecQuery(command=CAT_AND_FAIL, stdin=True)
    found = {"stdout": b"", "stderr": b""}
    async with asyncio.timeout(120), client.exec(NS, "web", query) as session:
        await session.write(b"given\n")
        await session.end_input()
        async for stream, data in session.output():
            found[stream] += data
    assert found == {"stdout": b"given\n", "stderr": b"bad\n"}
    assert session.exit_code() == 7


async def test_a_refused_session_shows_the_servers_message(client: ClusterClient) -> None:
    with pytest.raises(ApiError) as caught:
        async with client.exec(NS, "missing", ExecQuery(command=("true",))):
            pass
    assert (caught.value.code, str(caught.value)) == (404, 'pods "missing" not found')


async def test_port_forward(client: ClusterClient, world: SessionWorld) -> None:
    await world.put(h="httpd -p 8080 -h /etc; sleep 300")
    forward = await client.port_forward(NS, "web", 8080)
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(forward.run())

        async def answered() -> bool:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            writer.write(b"GET /hostname HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer.startswith(b"HTTP/1.")

        await until(answered)
        task.cancel()
    assert forward.problem == ""


async def test_copies_need_tar_in_the_container(tmp_path: Path) -> None:
    missing = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "127"}]},
    }
    done = b"\x03" + json.dumps(missing).encode()
    async with asyncio.timeout(120), socket_server(tmp_path, channels.V5, done) as client:
        with pytest.raises(PodtuiError, match="does not have tar and test"):
            await client.copy_from(NS, "web", "c", "/etc/hosts", tmp_path)
        with pytest.raises(PodtuiError, match="does not have tar and test"):
            await client.copy_to(NS, "web", "c", tmp_path, "/tmp")


@asynccontextmanager
async def socket_server(
    folder: Path, protocol: str, *messages: bytes
) -> AsyncIterator[ClusterClient]:
    """Serve one protocol, with the same messages to every client."""

    async def joined(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        await socket.receive()
        return socket

    async with websocket_server(folder, joined) as client:
        yield client


@asynccontextmanager
async def websocket_server(
    folder: Path, handler: Handler, clock: Clock | None = None
) -> AsyncIterator[ClusterClient]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake_cluster = FakeCluster(
        f"http://127.0.0.1:{runner.addresses[0][1]}", Authority(), FrontRules(), None, folder
    )  # type: ignore[arg-type]
    path = fake_cluster.kubeconfig({}, **{"certificate-authority-data": None})
    client = ClusterClient(choose(load(path, {})), clock=clock)
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


async def test_an_older_server_gets_its_protocol_version(tmp_path: Path) -> None:
    done = b'\x03{"status": "Success"}'
    async with (
        asyncio.timeout(120),
        socket_server(tmp_path, channels.V4, b"\x01", b"\x03", b"\x01hello", done) as client,
        client.exec(NS, "web", ExecQuery(command=("true",))) as session,
    ):
        assert [piece async for piece in session.output()] == [("stdout", b"hello")]
        assert session.exit_code() == 0


async def test_features_missing_in_an_older_server_are_reported(tmp_path: Path) -> None:
    """Before v5 the end of input cannot be sent: tar would wait forever."""
    (tmp_path / "file").write_text("x")
    done = b'\x03{"status": "Success"}'
    async with asyncio.timeout(120), socket_server(tmp_path, channels.V4, done) as client:
        with pytest.raises(PodtuiError, match=r"cannot close the standard input.* 1\.30"):
            await client.copy_to(NS, "web", "", tmp_path / "file", "/tmp/")
        async with client.exec(NS, "web", ExecQuery(command=("cat",), stdin=True)) as session:
            assert not session.can_end_input
            await session.end_input()


async def test_a_kubelet_with_plain_text_errors_is_supported(tmp_path: Path) -> None:
    """Kubelets refuse an upgrade whose client accepts only JSON."""
    taken: list[str] = []

    async def joined(request: web.Request) -> web.StreamResponse:
        taken.append(request.headers["Accept"])
        if "*/*" not in taken[-1]:
            return web.Response(status=406, text="406: Not Acceptable")
        socket = web.WebSocketResponse(protocols=(channels.V4,))
        await socket.prepare(request)
        await socket.send_bytes(b'\x03{"status": "Success"}')
        await socket.receive()
        return socket

    async with (
        asyncio.timeout(120),
        websocket_server(tmp_path, joined) as client,
        client.exec(NS, "web", ExecQuery(command=("true",))) as session,
    ):
        assert [piece async for piece in session.output()] == []
    assert taken == ["*/*"]


class FastClock(SystemClock):
    async def sleep(self, seconds: float) -> None:
        assert seconds == PING_SECONDS
        await super().sleep(0.01)


async def test_an_idle_session_is_not_closed(tmp_path: Path) -> None:
    heard: list[WSMsgType] = []

    async def joined(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(channels.V5,), autoping=False)
        await socket.prepare(request)
        while len(heard) < 2:
            heard.append((await socket.receive()).type)
        await socket.send_bytes(b'\x03{"status": "Success"}')
        await socket.receive()
        return socket

    async with (
        asyncio.timeout(120),
        websocket_server(tmp_path, joined, clock=FastClock()) as client,
        client.exec(NS, "web", ExecQuery(command=("true",))) as session,
    ):
        assert [piece async for piece in session.output()] == []
        assert session.exit_code() == 0
    assert heard == [WSMsgType.PING] * 2


async def test_session_errors_are_passed_on(tmp_path: Path) -> None:
    async with asyncio.timeout(120), socket_server(tmp_path, channels.V5) as client:
        for error in (KeyError("mine"), ApiError(500, "X", "mine")):
            with pytest.raises(type(error), match="mine"):
                async with client.exec(NS, "web", ExecQuery(command=("true",))):
                    raise error


async def test_a_forward_answers_pings(tmp_path: Path) -> None:
    answers: list[Frame] = []

    async def joined(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(channels.PORT_FORWARD,))
        await socket.prepare(request)
        spdy = Spdy()
        await socket.send_bytes(spdy.pong(Ping(2)))
        while not answers:
            frames = spdy.feed((await socket.receive()).data)
            answers.extend(frame for frame in frames if isinstance(frame, Ping))
        await socket.send_bytes(spdy.data(3, b"there", fin=True))
        await socket.receive()
        return socket

    async with websocket_server(tmp_path, joined) as client:
        forward = await client.port_forward(NS, "web", 80)
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            task = group.create_task(forward.run())
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            assert await reader.read() == b"there"
            writer.close()
            task.cancel()
    assert answers == [Ping(2)]
    assert forward.problem == ""


async def test_a_forward_refuses_other_protocols(tmp_path: Path) -> None:
    async with socket_server(tmp_path, channels.V4) as client:
        forward = await client.port_forward(NS, "web", 80)
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            task = group.create_task(forward.run())
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
            assert await reader.read() == b""
            writer.close()
            task.cancel()
        assert "port-forward 1.31" in forward.problem


@pytest.mark.parametrize(("code", "hint"), [(400, True), (403, False)])
async def test_a_server_without_websockets_is_reported(
    tmp_path: Path, code: int, hint: bool
) -> None:
    async def old(request: web.Request) -> web.Response:
        return web.json_response(
            {"kind": "Status", "reason": "X", "message": "Upgrade request required"}, status=code
        )

    async with websocket_server(tmp_path, old) as client:
        with pytest.raises(ApiError) as caught:
            async with client.exec(NS, "web", ExecQuery(command=("true",))):
                pass
    assert str(caught.value).startswith("Upgrade request required")
    assert ("1.30 or newer" in str(caught.value)) is hint
