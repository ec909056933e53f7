"""Exec, attach and port-forward as raw WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from session_world import SessionWorld, session_world
from simulated import COMMANDS, ends, memory
from virtual_time import VirtualClock

from podtui.api import channels
from podtui.api.spdy import Data, Opened, Reset, Spdy
from podtui.runtime.memory import Say
from podtui.server.node.port_forward import Inflow, parse_port
from podtui.server.node.remote_command import failure, outcome, parse_wanted
from podtui.server.node.remote_streams import Resize, parse_size
from podtui.server.status import StatusError
from podtui.server.transport import sockets
from podtui.server.transport.sockets import Sockets

POD = "/api/v1/namespaces/default/pods/web"
EXEC = f"{POD}/exec?container=c&stdin=true&stdout=true&stderr=true"
REFUSED = "OCI runtime exec failed: exec failed: "
DECLARED = {
    **COMMANDS,
    ("sh", "-c", "echo out;echo err >&2;exit 3"): ends("out", Say("err", "stderr"), code=3),
    ("sh", "-c", "echo a;echo b >&2"): ends("a", Say("b", "stderr")),
    ("echo", "hi"): ends("hi"),
    ("refused",): ends(f"{REFUSED}no such file", code=127),
    ("cat", "report"): ends(f"{REFUSED}no such file"),
    ("cat", "log"): ends(f"{REFUSED}no such file", Say("more", "stderr"), code=1),
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    async with session_world(memory(commands=DECLARED), tmp_path / "s.sock") as it:
        await it.put(c="sleep 300")
        yield it


@pytest.fixture
async def http(world: SessionWorld) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(str(world.served.socket))
    async with aiohttp.ClientSession("http://podtui", connector=connector) as session:
        yield session


async def received(socket: aiohttp.ClientWebSocketResponse) -> list[bytes]:
    async with asyncio.timeout(10):
        return [
            message.data async for message in socket if message.type is aiohttp.WSMsgType.BINARY
        ]


@pytest.mark.parametrize("protocol", [channels.V5, channels.V4])
async def test_channels(http: aiohttp.ClientSession, protocol: str) -> None:
    path = f"{EXEC}&command=sh&command=-c&command=echo+out;echo+err+>%262;exit+3"
    async with http.ws_connect(path, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        await socket.send_bytes(b"\xff\x00")
        *said, last = await received(socket)
        assert socket.close_code == 1000
    assert said == [b"\x01out\n", b"\x02err\n"]
    assert last[0] == channels.ERROR
    assert json.loads(last[1:]) == {
        "status": "Failure",
        "message": "command terminated with non-zero exit code: exit status 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


async def test_unknown_messages_are_ignored(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        await socket.send_str("text")
        for message in (b"", b"\x07?", b"\x04{", b"\x04{}", b"\xff", b"\xff\x04", b"\x00still"):
            await socket.send_bytes(message)
        await socket.send_bytes(b"\xff\x00")
        said = await received(socket)
    assert said[0] == b"\x01still"
    assert json.loads(said[-1][1:])["status"] == "Success"


async def test_only_requested_streams_are_opened(http: aiohttp.ClientSession) -> None:
    path = f"{POD}/exec?container=c&stderr=true&command=sh&command=-c&command=echo+a;echo+b+>%262"
    async with http.ws_connect(path, protocols=(channels.V5,)) as socket:
        first, _ = await received(socket)
    assert first == b"\x02b\n"


async def test_the_kubelets_own_paths(http: aiohttp.ClientSession) -> None:
    path = "/exec/default/web/c?command=echo&command=hi&output=1"
    async with http.ws_connect(path, protocols=(channels.V4,)) as socket:
        assert (await received(socket))[0] == b"\x01hi\n"


@pytest.mark.parametrize(
    ("path", "upgrade", "code", "words"),
    [
        (f"{EXEC}&command=true", "", 400, "Upgrade request required"),
        (f"{EXEC}&command=true", "SPDY/3", 400, "Upgrade request required"),
        (f"{EXEC}&command=true", "websocket", 400, "protocols offered: none; served: v5"),
        (EXEC, "", 400, "at least one command"),
        (f"{POD}/exec?command=true", "", 400, "at least 1 of stdin, stdout, stderr"),
        (f"{POD}/exec?command=true&stdout=perhaps", "", 400, "invalid value for stdout"),
        (f"{POD}/attach?container=z&stdout=1", "", 400, "container z is not valid for pod web"),
        (f"{POD}/portforward", "", 400, "Upgrade request required"),
        (POD.replace("web", "none") + "/portforward", "", 404, 'pod "none" does not exist'),
    ],
)
async def test_refusals(
    http: aiohttp.ClientSession, path: str, upgrade: str, code: int, words: str
) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": upgrade} if upgrade else {}
    for method in ("GET", "POST"):
        async with http.request(method, path, headers=headers) as response:
            status = json.loads(await response.read())
        assert (response.status, status["code"], status["kind"]) == (code, code, "Status")
        assert words in status["message"]


async def test_too_many_sessions(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_OPEN", 1)
    path = f"{EXEC}&command=cat"
    async with http.ws_connect(path, protocols=(channels.V5,)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(path, protocols=(channels.V5,))
        assert caught.value.status == 429
    # The place is free again once the first has gone.
    async with asyncio.timeout(10):
        while True:
            try:
                async with http.ws_connect(path, protocols=(channels.V5,)):
                    return
            except aiohttp.WSServerHandshakeError:
                await asyncio.sleep(0.01)


async def test_a_lost_engine_is_reported(http: aiohttp.ClientSession, world: SessionWorld) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        await socket.send_bytes(b"\x00here")
        assert await socket.receive_bytes(timeout=10) == b"\x01here"
        world.bench.runtime.stop_engine()  # type: ignore[attr-defined]
        (last,) = await received(socket)
        world.bench.runtime.start_engine()  # type: ignore[attr-defined]
    status = json.loads(last[1:])
    assert (status["reason"], status["code"]) == ("InternalError", 500)


async def test_a_stopping_server_reports_it(
    http: aiohttp.ClientSession, world: SessionWorld
) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        await world.served.app.shutdown()
        assert await received(socket) == []
        assert socket.close_code == aiohttp.WSCloseCode.GOING_AWAY


@pytest.mark.virtual_time
async def test_an_idle_session_is_closed() -> None:
    clock = VirtualClock()
    socket = sockets.Socket(web.WebSocketResponse(), clock)
    began = clock.monotonic()
    forever = asyncio.Event()

    async def wait() -> None:
        await forever.wait()

    await Sockets(clock).run(socket, wait())
    assert clock.monotonic() - began == pytest.approx(sockets.IDLE_SECONDS)


# --- port-forward


class Forwarder:
    """kubectl's end of a port-forward."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.spdy = Spdy()
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()

    async def open(self, stream: int, kind: str, port: str, request: str) -> None:
        headers = {
            channels.STREAM_TYPE: kind,
            channels.PORT: port,
            channels.REQUEST: request,
        }
        await self.socket.send_bytes(self.spdy.open(stream, headers, fin=kind == "error"))

    async def until(self, *, ended: int = 0, reset: int = 0) -> None:
        async with asyncio.timeout(10):
            while ended not in self.ended and reset not in self.reset:
                for frame in self.spdy.feed(await self.socket.receive_bytes()):
                    match frame:
                        case Data(stream, payload, fin):
                            self.data[stream] = self.data.get(stream, b"") + payload
                            self.ended |= {stream} if fin else set()
                        case Reset(stream):
                            self.reset.add(stream)
                        case Opened() | _:
                            pass


async def test_two_connections_in_one_socket(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{POD}/portforward", protocols=(channels.PORT_FORWARD,)) as socket:
        peer = Forwarder(socket)
        for first, request in ((1, "0"), (5, "1")):
            await peer.open(first, "error", "80", request)
            await peer.open(first + 2, "data", "80", request)
        for stream in (7, 3):
            await socket.send_bytes(peer.spdy.data(stream, b"GET / HTTP/1.0\r\n\r\n"))
            await peer.until(ended=stream)
            assert peer.data[stream].endswith(b"simulated: contract, port 80\n")
        await peer.until(ended=1)


async def test_a_missing_sandbox_is_reported_on_the_error_stream(
    http: aiohttp.ClientSession, world: SessionWorld
) -> None:
    await world.bench.runtime.stop_sandbox(world.sandbox)
    async with http.ws_connect(f"{POD}/portforward", protocols=(channels.PORT_FORWARD,)) as socket:
        peer = Forwarder(socket)
        await peer.open(1, "error", "80", "0")
        await peer.open(3, "data", "80", "0")
        await peer.until(ended=1)
        assert (
            peer.data[1]
            == (
                f"error forwarding port 80 to pod web, uid {world.bench.uid}:"
                " pod web has no sandbox that runs"
            ).encode()
        )


async def test_unknown_streams_are_reset(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{POD}/portforward", protocols=(channels.PORT_FORWARD,)) as socket:
        peer = Forwarder(socket)
        await peer.open(1, "error", "0", "0")
        await peer.until(reset=1)
        await peer.open(3, "other", "80", "0")
        await peer.until(reset=3)
        await socket.send_bytes(peer.spdy.data(99, b"for nobody"))
        await socket.send_bytes(b"\x80\x02 this is not SPDY")
        assert await received(socket) == []


async def test_an_abandoned_connection(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{POD}/portforward", protocols=(channels.PORT_FORWARD,)) as socket:
        peer = Forwarder(socket)
        for first in (1, 5):
            await peer.open(first, "error", "80", str(first))
            await peer.open(first + 2, "data", "80", str(first))
        await socket.send_bytes(peer.spdy.reset(3, 5))
        await socket.send_bytes(peer.spdy.data(7, b"GET / HTTP/1.0\r\n\r\n"))
        await peer.until(ended=7)
        assert 3 not in peer.data


async def test_a_full_buffer_blocks_its_writer_until_read_or_closed() -> None:
    inflow = Inflow()
    big = bytes(400 * 1024)
    await inflow.put(big)
    for relief in ("read", "close"):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(inflow.put(big))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
            if relief == "read":
                assert await inflow.get() == big
            else:
                inflow.close()
    await inflow.put(big)
    inflow.end()
    assert await inflow.get() == b""


@pytest.mark.parametrize(
    ("text", "port"),
    [("80", 80), ("65535", 65535), ("0", None), ("65536", None), ("", None), ("-1", None),
     ("http", None), ("٣", None), ("9" * 99, None)],
)  # fmt: skip
def test_ports(text: str, port: int | None) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b'{"Width":80,"Height":24}', Resize(80, 24)),
        (b'{"Width":0,"Height":24}', None),
        (b'{"Width":-1,"Height":24}', None),
        (b'{"Width":99999,"Height":24}', None),
        (b'{"Width":"x"}', None),
        (b"", None),
    ],
)
def test_sizes(data: bytes, size: Resize | None) -> None:
    assert parse_size(data) == size


def test_a_terminal_has_no_separate_stderr() -> None:
    request = make_mocked_request("GET", "/x?stdout=1&stderr=1&tty=1")
    assert not parse_wanted(request).stderr
    with pytest.raises(StatusError):
        parse_wanted(make_mocked_request("GET", "/x?stdout=0"))


def test_outcomes() -> None:
    assert msgspec.json.encode(outcome(0)) == b'{"status":"Success"}'
    assert outcome(None).status == "Success"
    assert failure("gone").message == "Internal error occurred: gone"


@pytest.mark.parametrize(
    ("command", "channel", "text"),
    [
        ("command=refused", channels.ERROR, b"failed to start exec: OCI runtime exec failed"),
        ("command=cat&command=report", channels.STDOUT, b"OCI runtime exec failed"),
        ("command=cat&command=log", channels.STDOUT, b"OCI runtime exec failed"),
    ],
)
async def test_only_a_command_that_cannot_start_is_an_error(
    http: aiohttp.ClientSession, command: str, channel: int, text: bytes
) -> None:
    """Its output may resemble the engine's refusal without being one."""
    async with http.ws_connect(f"{EXEC}&{command}", protocols=[channels.V5]) as socket:
        frames = await received(socket)
    of_text = {frame[0] for frame in frames if text in frame}
    assert of_text == {channel}
