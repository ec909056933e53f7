"""Exec, attach and port-forward as raw WebSockets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from socket import socketpair
from types import SimpleNamespace

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from session_world import SessionWorld, session_world
from simulated import COMMANDS, ends, memory
from virtual_time import VirtualClock

from podtui.api.v1 import Container, ObjectMeta, Pod, PodSpec
from podtui.runtime.memory import Behaviour, OutputLine
from podtui.server.kubelet_api.port_forward import Inflow, parse_port
from podtui.server.kubelet_api.remote_command import (
    Resize,
    failure,
    outcome,
    parse_size,
    parse_wanted,
)
from podtui.server.status import StatusError
from podtui.server.transport import sockets
from podtui.server.transport.sockets import Sockets
from podtui.wire import channels
from podtui.wire.spdy import Data, Opened, Reset, Spdy

POD = "/api/v1/namespaces/default/pods/web"
EXEC = f"{POD}/exec?container=c&stdin=true&stdout=true&stderr=true"
DECLARED = {
    **COMMANDS,
    ("sh", "-c", "echo out;echo err >&2;exit 3"): ends("out", OutputLine("err", "stderr"), code=3),
    ("sh", "-c", "echo a;echo b >&2"): ends("a", OutputLine("b", "stderr")),
    ("echo", "hi"): ends("hi"),
    ("refused",): Behaviour(start_error="failed to start exec: no such file"),
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
    async with asyncio.timeout(120):
        return [
            message.data async for message in socket if message.type is aiohttp.WSMsgType.BINARY
        ]


@pytest.mark.parametrize("protocol", [channels.V5, channels.V4])
async def test_channels(http: aiohttp.ClientSession, protocol: str) -> None:
    path = f"{EXEC}&command=sh&command=-c&command=echo+out;echo+err+>%262;exit+3"
    async with http.ws_connect(path, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        await socket.send_bytes(b"\xff\x00")
        *messages, last = await received(socket)
        assert socket.close_code == 1000
    assert messages == [b"\x01", b"\x01out\n", b"\x02err\n"]
    assert last[0] == channels.ERROR
    assert json.loads(last[1:]) == {
        "status": "Failure",
        "message": "command terminated with non-zero exit code: exit status 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


def decoded(message: aiohttp.WSMessage) -> bytes:
    """Return the channel's number and the data of a message of the base64 protocols."""
    assert message.type is aiohttp.WSMsgType.TEXT
    return bytes([int(message.data[0])]) + base64.b64decode(message.data[1:], validate=True)


@pytest.mark.parametrize("protocol", [channels.BASE64_V4, channels.BASE64_V1])
async def test_base64_channels(http: aiohttp.ClientSession, protocol: str) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        await socket.send_str("0!!")
        await socket.send_str("é")
        await socket.send_str("0" + base64.b64encode(b"hello\xff").decode())
        async with asyncio.timeout(120):
            assert decoded(await socket.receive()) == b"\x01"
            assert decoded(await socket.receive()) == b"\x01hello\xff"


@pytest.mark.parametrize("protocol", [channels.V1, channels.BASE64_V1, channels.NONE])
@pytest.mark.parametrize("error", [True, False])
async def test_protocols_before_version_4_report_only_failures(
    http: aiohttp.ClientSession, protocol: str, error: bool
) -> None:
    path = f"{POD}/exec?container=c&stdout=true&stderr=true&command=sh&command=-c&command="
    path += "echo+out;echo+err+>%262;exit+3" if error else "echo+a;echo+b+>%262"
    async with (
        asyncio.timeout(120),
        http.ws_connect(path, protocols=(protocol,) if protocol else ()) as socket,
    ):
        assert (socket.protocol or "") == protocol
        base64_protocol = protocol == channels.BASE64_V1
        messages = [decoded(one) if base64_protocol else one.data async for one in socket]
        assert socket.close_code == 1000
    output = [b"\x01out\n", b"\x02err\n"] if error else [b"\x01a\n", b"\x02b\n"]
    text = b"\x03command terminated with non-zero exit code: exit status 3"
    assert messages == [b"\x01", *output, *([text] if error else [])]


async def test_the_clients_first_supported_protocol_is_used(http: aiohttp.ClientSession) -> None:
    offers = {
        ("v9", channels.V4, channels.V5): channels.V4,
        (channels.BASE64_V1, channels.V4): channels.BASE64_V1,
        (channels.V5, channels.V4): channels.V5,
    }
    for offer, chosen in offers.items():
        async with http.ws_connect(f"{EXEC}&command=cat", protocols=offer) as socket:
            assert socket.protocol == chosen


async def test_an_unsupported_websocket_protocol_is_refused(http: aiohttp.ClientSession) -> None:
    headers = {"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"}
    supported = {
        f"{EXEC}&command=true": "v5.channel.k8s.io v4.channel.k8s.io v4.base64.channel.k8s.io"
        " channel.k8s.io base64.channel.k8s.io",
        f"{POD}/portforward?ports=80": "SPDY/3.1+portforward.k8s.io v4.channel.k8s.io"
        " v4.base64.channel.k8s.io",
        f"{POD}/log": "binary.k8s.io base64.binary.k8s.io",
    }
    for path, names in supported.items():
        offered = {**headers, "Sec-WebSocket-Protocol": "v9, binary"}
        async with http.get(path, headers=offered) as response:
            status = await response.json()
        assert (response.status, status["message"]) == (
            403, f"requested protocol(s) are not supported: [v9 binary]; supports [{names}]",
        )  # fmt: skip


async def test_only_version_5_ends_a_channel(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V4,)) as socket:
        for message in (b"\xff\x00", b"\x00still"):
            await socket.send_bytes(message)
        assert await socket.receive_bytes(timeout=120) == b"\x01"
        assert await socket.receive_bytes(timeout=120) == b"\x01still"


async def test_frames_without_a_mask_end_the_session(world: SessionWorld) -> None:
    """Close code 1002, after the messages before them (RFC 6455 section 5.1)."""
    reader, writer = await asyncio.open_unix_connection(str(world.served.socket))
    lines = [f"GET {EXEC}&command=cat HTTP/1.1", "Host: podtui", "Upgrade: websocket"]
    lines += ["Connection: Upgrade", f"Sec-WebSocket-Protocol: {channels.V5}"]
    lines += [f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}"]
    lines += ["Sec-WebSocket-Version: 13", "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(120):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x82\x83" + bytes(4) + b"\x00hi" + b"\x82\x03\x00no")
        frames = await reader.read()
    assert frames == b"\x82\x01\x01" + b"\x88\x02\x03\xea" or frames == (
        b"\x82\x01\x01" + b"\x82\x03\x01hi" + b"\x88\x02\x03\xea"
    )
    writer.close()


async def test_unknown_messages_are_ignored(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        await socket.send_str("text")
        for message in (b"", b"\x07?", b"\x04{", b"\x04{}", b"\xff", b"\xff\x04", b"\x00still"):
            await socket.send_bytes(message)
        await socket.send_bytes(b"\xff\x00")
        messages = await received(socket)
    assert messages[:2] == [b"\x01", b"\x01still"]
    assert json.loads(messages[-1][1:])["status"] == "Success"


async def test_only_requested_streams_are_opened(http: aiohttp.ClientSession) -> None:
    path = f"{POD}/exec?container=c&stderr=true&command=sh&command=-c&command=echo+a;echo+b+>%262"
    async with http.ws_connect(path, protocols=(channels.V5,)) as socket:
        opened, first, _ = await received(socket)
    assert (opened, first) == (b"\x02", b"\x02b\n")


async def test_the_kubelets_own_paths(http: aiohttp.ClientSession) -> None:
    path = "/exec/default/web/c?command=echo&command=hi&output=1"
    async with http.ws_connect(path, protocols=(channels.V4,)) as socket:
        assert (await received(socket))[1] == b"\x01hi\n"


@pytest.mark.parametrize(
    ("path", "upgrade", "code", "words"),
    [
        (f"{EXEC}&command=true", "", 400, "Upgrade request required"),
        (f"{EXEC}&command=true", "SPDY/3", 400, "Upgrade request required"),
        (EXEC, "", 400, "at least one command"),
        (f"{POD}/exec?command=true", "", 400, "at least 1 of stdin, stdout, stderr"),
        (f"{POD}/exec?command=true&stdout=0", "", 400, "at least 1 of stdin, stdout, stderr"),
        (f"{POD}/exec?command=true&stdout=perhaps", "", 400, "Upgrade request required"),
        (f"{POD}/attach?container=z&stdout=1", "", 400, "container z is not valid for pod web"),
        (f"{POD}/portforward", "", 400, "Upgrade request required"),
        (POD.replace("web", "none") + "/portforward", "", 404, 'pods "none" not found'),
        (POD.replace("web", "none") + "/exec", "", 404, 'pods "none" not found'),
        ("/portForward/default/none", "", 404, 'pod "none" does not exist'),
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


async def test_a_pod_without_a_node_has_no_sessions(
    world: SessionWorld, http: aiohttp.ClientSession
) -> None:
    one = Pod(
        metadata=ObjectMeta(name="late", namespace="default"),
        spec=PodSpec(
            initContainers=(Container(name="first"),),
            containers=(Container(name="a"), Container(name="b")),
        ),
    )
    await world.served.store.put("pods", one)
    path = POD.replace("web", "late")
    expected = {
        "exec?container=a&command=true&stdout=1": "pod late does not have a host assigned",
        "attach?container=b&stdout=1": "pod late does not have a host assigned",
        "portforward": "pod late does not have a host assigned",
        "exec?container=c&command=true&stdout=1": "container c is not valid for pod late",
        "exec?command=true&stdout=1": "a container name must be specified for pod late, choose one"
        " of: [first a b]",
    }
    for query, text in expected.items():
        async with http.post(f"{path}/{query}") as response:
            status = await response.json()
        assert (response.status, status["message"]) == (400, text)


async def test_a_pod_on_another_node_has_no_sessions(
    world: SessionWorld, http: aiohttp.ClientSession
) -> None:
    one = Pod(
        metadata=ObjectMeta(name="distant", namespace="default"),
        spec=PodSpec(nodeName="far", containers=(Container(name="a"),)),
    )
    await world.served.store.put("pods", one)
    path = POD.replace("web", "distant")
    for query in ("exec?command=true&stdout=1", "attach?stdout=1", "portforward"):
        async with http.post(f"{path}/{query}") as response:
            status = await response.json()
        assert (response.status, status["reason"]) == (500, "InternalError")
        assert 'pod "distant" is bound to node "far"' in status["message"]


async def test_too_many_sessions(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_OPEN", 1)
    path = f"{EXEC}&command=cat"
    async with http.ws_connect(path, protocols=(channels.V5,)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(path, protocols=(channels.V5,))
        assert caught.value.status == 429
    # Another session can start once the first has ended.
    async with asyncio.timeout(120):
        while True:
            try:
                async with http.ws_connect(path, protocols=(channels.V5,)):
                    return
            except aiohttp.WSServerHandshakeError:
                await asyncio.sleep(0.01)


async def test_a_lost_engine_is_reported(http: aiohttp.ClientSession, world: SessionWorld) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        await socket.send_bytes(b"\x00here")
        assert await socket.receive_bytes(timeout=120) == b"\x01"
        assert await socket.receive_bytes(timeout=120) == b"\x01here"
        world.bench.runtime.stop_engine()  # type: ignore[attr-defined]
        (last,) = await received(socket)
        world.bench.runtime.start_engine()  # type: ignore[attr-defined]
    status = json.loads(last[1:])
    assert (status["reason"], status["code"]) == ("InternalError", 500)


async def test_a_stopping_server_reports_it(
    http: aiohttp.ClientSession, world: SessionWorld
) -> None:
    async with http.ws_connect(f"{EXEC}&command=cat", protocols=(channels.V5,)) as socket:
        assert await socket.receive_bytes(timeout=120) == b"\x01"
        await world.served.app.shutdown()
        assert await received(socket) == []
        assert socket.close_code == aiohttp.WSCloseCode.GOING_AWAY


class SilentSocket(sockets.Socket):
    """Sends no pings."""

    async def ping(self) -> None:
        return


@pytest.mark.virtual_time
async def test_an_idle_session_is_closed() -> None:
    clock = VirtualClock()
    socket = SilentSocket(web.WebSocketResponse(), clock)
    began = clock.monotonic()
    forever = asyncio.Event()

    async def wait() -> None:
        await forever.wait()

    client, server = socketpair()
    known = {"socket": server}
    transport = SimpleNamespace(get_extra_info=known.get, is_closing=lambda: False)
    request = make_mocked_request("GET", "/", transport=transport)
    with client, server:
        await Sockets(clock).run(request, socket, wait())
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
        async with asyncio.timeout(120):
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


@pytest.mark.parametrize("protocol", [channels.V4, channels.BASE64_V4, channels.NONE])
@pytest.mark.parametrize("query", ["ports=80&ports=81", "ports=80,81"])
async def test_a_channel_for_each_port(
    http: aiohttp.ClientSession, protocol: str, query: str
) -> None:
    """As the clients of Python and JavaScript, and kr8s, forward ports."""
    in_base64 = protocol == channels.BASE64_V4
    async with (
        asyncio.timeout(120),
        http.ws_connect(
            f"{POD}/portforward?{query}", protocols=(protocol,) if protocol else ()
        ) as socket,
    ):
        for channel in (2, 0):
            await send(socket, channel, b"GET / HTTP/1.0\r\n\r\n", in_base64)
        messages = [decoded(one) if in_base64 else one.data async for one in socket]
        assert socket.close_code == 1000
    assert messages[:4] == [b"\0\x50\0", b"\1\x50\0", b"\2\x51\0", b"\3\x51\0"]
    answers = dict.fromkeys(range(4), b"")
    for message in messages[4:]:
        answers[message[0]] += message[1:]
    assert answers[0].endswith(b"simulated: contract, port 80\n")
    assert answers[2].endswith(b"simulated: contract, port 81\n")
    assert answers[1] == answers[3] == b""


async def send(
    socket: aiohttp.ClientWebSocketResponse, channel: int, data: bytes, in_base64: bool
) -> None:
    if in_base64:
        await socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
    else:
        await socket.send_bytes(bytes([channel]) + data)


async def test_the_kubelets_own_port_forward_path(http: aiohttp.ClientSession) -> None:
    path = "/portForward/default/web?port=80"
    async with http.ws_connect(path, protocols=(channels.V4,)) as socket:
        assert await socket.receive_bytes(timeout=120) == b"\0\x50\0"


async def test_an_error_of_a_port_is_on_its_channel(
    http: aiohttp.ClientSession, world: SessionWorld
) -> None:
    await world.bench.runtime.stop_sandbox(world.sandbox)
    path = f"{POD}/portforward?ports=80"
    async with http.ws_connect(path, protocols=(channels.V4,)) as socket:
        messages = await received(socket)
    assert messages[2:] == [
        b"\1error forwarding port 80 to pod web, uid " + world.bench.uid.encode()
        + b": pod web has no running sandbox"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", 'query parameter "port" is required'),
        ("ports=", 'unable to parse "" as a port'),
        ("ports=x", 'unable to parse "x" as a port'),
        ("ports=80,0", 'unable to parse "0" as a port'),
        ("ports=70000", 'unable to parse "70000" as a port'),
        ("ports=" + ",".join(["80"] * 129), "more than 128 ports"),
    ],
)
async def test_invalid_ports(http: aiohttp.ClientSession, query: str, words: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with http.get(f"{POD}/portforward?{query}", headers=headers) as response:
        status = await response.json()
    assert (response.status, status["message"]) == (400, words)


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
                " pod web has no running sandbox"
            ).encode()
        )


async def test_unknown_streams_are_reset(
    http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    async with http.ws_connect(f"{POD}/portforward", protocols=(channels.PORT_FORWARD,)) as socket:
        peer = Forwarder(socket)
        await peer.open(1, "error", "0", "0")
        await peer.until(reset=1)
        await peer.open(3, "other", "80", "0")
        await peer.until(reset=3)
        for stream in (5, 7, 2):
            await peer.open(stream, "error", "80", "0")
        await peer.until(reset=7)
        await peer.until(reset=2)
        assert 5 not in peer.reset
        await socket.send_bytes(peer.spdy.data(99, b"for no stream"))
        await socket.send_bytes(b"\x80\x02 this is not SPDY")
        assert await received(socket) == []
    assert "broke off: a frame of " in caplog.text


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


async def test_a_command_that_cannot_start_is_an_error(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{EXEC}&command=refused", protocols=[channels.V5]) as socket:
        _, frame = await received(socket)
    assert frame[0] == channels.ERROR
    assert json.loads(frame[1:])["message"] == (
        "Internal error occurred: Internal error occurred: error executing command in container:"
        " failed to start exec: no such file"
    )
