"""Exec, attach and port-forward over SPDY/3.1, as kubectl before 1.30 and 1.31 speaks it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import aiohttp
import msgspec
import pytest
from aiohttp import web
from session_world import SessionWorld, session_world
from simulated import COMMANDS, ends, memory

from podtui.runtime.memory import OutputLine
from podtui.server.kubelet_api.remote_command import error_text, failure, outcome
from podtui.server.transport.sockets import DISCONNECT_SECONDS
from podtui.server.transport.spdy_upgrade import STREAMS_SECONDS
from podtui.wire import channels
from podtui.wire.spdy import Data, Opened, Ping, Reset, Spdy

pytestmark = pytest.mark.virtual_time

POD = "/api/v1/namespaces/default/pods/web"
EXEC = f"{POD}/exec?container=c&stdin=true&stdout=true&stderr=true"
CAT = f"{EXEC}&command=cat"
MUCH = ends(*("x" * 1000 for _ in range(4000)))
DECLARED = {
    **COMMANDS,
    ("sh", "-c", "echo out;echo err >&2;exit 3"): ends("out", OutputLine("err", "stderr"), code=3),
    ("much",): MUCH,
}
V4 = [channels.V4, channels.V3, channels.V2, channels.V1]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    async with session_world(memory(commands=DECLARED), tmp_path / "s.sock") as it:
        await it.put(c="sleep 300")
        yield it


class Peer:
    """A client's end of an upgraded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.spdy = Spdy()
        self.names: dict[int, str] = {}
        self.data: dict[str, bytearray] = {}
        self.ended: set[str] = set()
        self.reset: set[int] = set()
        self.pings: set[int] = set()
        self.gone = False

    async def open(self, *names: str, **headers: str) -> None:
        for name in names:
            stream = 2 * len(self.names) + 1
            self.names[stream] = name
            frame = self.spdy.open(stream, {channels.STREAM_TYPE: name, **headers})
            self.writer.write(frame)
        await self.writer.drain()

    def stream(self, name: str) -> int:
        return next(stream for stream, one in self.names.items() if one == name)

    async def send(self, name: str, data: bytes, *, fin: bool = False) -> None:
        for at in range(0, len(data) or 1, 32768):
            piece = data[at : at + 32768]
            last = fin and at + 32768 >= len(data)
            self.writer.write(self.spdy.data(self.stream(name), piece, fin=last))
            await self.writer.drain()

    async def read(self) -> bool:
        """Read the next data; False at the end."""
        async with asyncio.timeout(120):
            received = await self.reader.read(65536)
        for frame in self.spdy.feed(received):
            match frame:
                case Data(stream, payload, fin):
                    name = self.names[stream]
                    self.data.setdefault(name, bytearray()).extend(payload)
                    self.ended |= {name} if fin else set()
                case Reset(stream):
                    self.reset.add(stream)
                case Ping(number):
                    self.pings.add(number)
                case Opened():
                    raise AssertionError
        self.gone = not received
        return not self.gone

    async def until(self, *names: str) -> None:
        while not self.ended >= set(names):
            assert await self.read(), (self.data, self.ended)

    def status(self) -> dict[str, object]:
        return json.loads(self.data["error"])


@asynccontextmanager
async def upgraded(
    world: SessionWorld, path: str, protocols: list[str], expected: str = "", *, tcp: bool = False
) -> AsyncIterator[Peer]:
    if tcp:
        site = web.TCPSite(world.served.runner, "127.0.0.1", 0)
        await site.start()
        port = world.served.runner.addresses[-1][1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    else:
        reader, writer = await asyncio.open_unix_connection(str(world.served.socket))
    lines = [f"POST {path} HTTP/1.1", "Host: podtui", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"X-Stream-Protocol-Version: {one}" for one in protocols]
    writer.write("\r\n".join([*lines, "Content-Length: 0", "", ""]).encode())
    try:
        async with asyncio.timeout(120):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith("http/1.1 101 switching protocols\r\n"), head
        assert "\r\nconnection: upgrade\r\n" in head
        assert "\r\nupgrade: spdy/3.1\r\n" in head
        assert f"\r\nx-stream-protocol-version: {expected or protocols[0]}\r\n" in head
        assert "\r\ntransfer-encoding" not in head
        yield Peer(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (V4, channels.V4),
        ([channels.V5, *V4], channels.V4),
        ([channels.V3], channels.V3),
        ([", ".join(V4[1:])], channels.V3),
        ([channels.V2, channels.V1], channels.V2),
        ([], channels.V1),
    ],
)
async def test_exec(world: SessionWorld, offered: list[str], chosen: str) -> None:
    command = "command=sh&command=-c&command=echo%20out;echo%20err%20%3E%262;exit%203"
    async with upgraded(world, f"{EXEC}&{command}", offered, chosen) as peer:
        await peer.open("error", "stdin", "stdout", "stderr")
        await peer.until("stdout", "stderr", "error")
        assert (peer.data["stdout"], peer.data["stderr"]) == (b"out\n", b"err\n")
        if chosen == channels.V4:
            assert peer.status() == msgspec.to_builtins(outcome(3)) | peer.status()
            assert peer.status()["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}
        else:
            text = b"command terminated with non-zero exit code: exit status 3"
            assert peer.data["error"] == text


async def test_input_is_complete_and_ends(world: SessionWorld) -> None:
    given = os.urandom(3_000_000)
    async with upgraded(world, CAT, V4) as peer, asyncio.TaskGroup() as group:
        await peer.open("error", "stdin", "stdout", "stderr")
        group.create_task(peer.send("stdin", given, fin=True))
        await peer.until("stdout", "stderr", "error")
        assert peer.data["stdout"] == given
        assert peer.status()["status"] == "Success"


async def test_output_is_complete_while_the_client_sends(world: SessionWorld) -> None:
    """The end of a session must not reset the connection before its last bytes are read."""
    async with upgraded(world, f"{EXEC}&command=much", V4) as peer:
        await peer.open("error", "stdin", "stdout", "stderr")
        await peer.send("stdin", bytes(500_000))
        await peer.until("stdout", "error")
        assert len(peer.data["stdout"]) == 4000 * 1001


async def test_streams_opened_one_at_a_time(world: SessionWorld) -> None:
    """Output waits for its stream, and bytes may arrive in any chunks."""
    async with upgraded(world, f"{EXEC}&command=nosuchcommand", V4) as peer:
        for name in ("stderr", "error", "stdin", "stdout"):
            stream = 2 * len(peer.names) + 1
            peer.names[stream] = name
            for byte in peer.spdy.open(stream, {channels.STREAM_TYPE: name}):
                peer.writer.write(bytes([byte]))
                await peer.writer.drain()
                await asyncio.sleep(0)
        await peer.until("error")
        assert b"executable file not found" in peer.data["error"]


async def test_unrequested_streams_are_refused(world: SessionWorld) -> None:
    path = f"{POD}/exec?container=c&stdout=true&command=sleep&command=60"
    async with upgraded(world, path, V4) as peer:
        await peer.open("stdin", "resize", "other", "error", "error", "stdout")
        while peer.reset != {1, 3, 5, 9}:
            assert await peer.read()


async def test_a_terminal_has_a_size(world: SessionWorld) -> None:
    path = f"{POD}/exec?container=c&stdin=true&stdout=true&tty=true&command=cat"
    async with upgraded(world, path, V4) as peer:
        await peer.open("error", "stdin", "stdout", "resize")
        for size in (b'{"Width":99,"Height":33}\n', b"rubbish", b'{"Width":-1,"Height":33}'):
            await peer.send("resize", size)
        await peer.send("stdin", b"hello\n", fin=True)
        await peer.until("stdout", "error")
        assert peer.status()["status"] == "Success"


async def test_pings_are_answered(world: SessionWorld) -> None:
    async with upgraded(world, CAT, V4) as peer:
        peer.writer.write(peer.spdy.pong(Ping(7)))
        while peer.pings != {7}:
            assert await peer.read()


async def test_invalid_spdy_ends_the_session(world: SessionWorld) -> None:
    async with upgraded(world, CAT, V4) as peer:
        await peer.open("error", "stdin", "stdout", "stderr")
        peer.writer.write(b"\x80\x02 this is not SPDY")
        peer.writer.write_eof()
        while await peer.read():
            pass
        assert not await peer.read()


@pytest.mark.parametrize("command", ["nosuchcommand", "much", "sleep&command=3600"])
@pytest.mark.parametrize("names", [(), ("error", "stdin", "stdout")])
async def test_a_client_that_does_not_open_its_streams(
    world: SessionWorld, command: str, names: tuple[str, ...]
) -> None:
    """Also if the command has no output that waits for them."""
    began = asyncio.get_running_loop().time()
    async with upgraded(world, f"{EXEC}&command={command}", V4) as peer:
        await peer.open(*names)
        while await peer.read():
            pass
        assert peer.data == {}
    took = asyncio.get_running_loop().time() - began
    assert STREAMS_SECONDS <= took < STREAMS_SECONDS + 2 * DISCONNECT_SECONDS
    assert not world.served.runner.server.connections


async def test_an_attached_client_that_opens_no_streams(world: SessionWorld) -> None:
    async with upgraded(world, f"{POD}/attach?container=c&stdout=true", V4) as peer:
        while await peer.read():
            pass
    assert not world.served.runner.server.connections


async def test_a_disconnecting_client_ends_the_command(world: SessionWorld) -> None:
    async with upgraded(world, f"{EXEC}&command=sleep&command=60", V4) as peer:
        await peer.open("error", "stdin", "stdout", "stderr")
        await peer.send("stdin", b"x")
    connector = aiohttp.UnixConnector(str(world.served.socket))
    async with (
        asyncio.timeout(120),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
    ):
        # The server still answers other requests.
        async with http.get("/version") as response:
            assert response.status == 200
        while len(world.served.runner.server.connections) > 1:
            async with http.get("/version") as response:
                await response.read()


@pytest.mark.parametrize("tcp", [False, True])
async def test_a_client_that_leaves_unread_input_ends_the_command(
    world: SessionWorld, tcp: bool
) -> None:
    """While the command reads nothing, nothing is read from the client either. Over TCP, the end of
    the connection waits behind the input."""
    async with upgraded(world, f"{EXEC}&command=sleep&command=60", V4, tcp=tcp) as peer:
        await peer.open("error", "stdin", "stdout", "stderr")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.send("stdin", bytes(16 << 20)), 1)
        assert len(world.served.runner.server.connections) == 1
        peer.writer.transport.abort()
        await asyncio.sleep(3 * DISCONNECT_SECONDS)
        assert not world.served.runner.server.connections


async def test_a_slow_client_blocks_the_command(world: SessionWorld) -> None:
    """Its buffers are bounded: the session continues once it reads."""
    async with upgraded(world, f"{EXEC}&command=much", V4) as peer:
        transport = cast("asyncio.Transport", peer.writer.transport)
        transport.pause_reading()
        await peer.open("error", "stdin", "stdout", "stderr")
        connector = aiohttp.UnixConnector(str(world.served.socket))
        async with aiohttp.ClientSession("http://podtui", connector=connector) as http:
            for _ in range(20):
                async with http.get("/version") as response:
                    assert response.status == 200
        transport.resume_reading()
        await peer.until("stdout", "error")
        assert len(peer.data["stdout"]) == 4000 * 1001


async def test_refusals_before_the_upgrade_are_statuses(world: SessionWorld) -> None:
    connector = aiohttp.UnixConnector(str(world.served.socket))
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v9"}
    async with aiohttp.ClientSession("http://podtui", connector=connector) as http:
        async with http.post(CAT, headers=headers) as response:
            found = await response.json()
        assert (found["code"], found["message"]) == (
            403,
            (
                "unable to upgrade: unable to negotiate protocol: client supports [v9], server"
                " accepts [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]"
            ),
        )
        headers["X-Stream-Protocol-Version"] = channels.V4
        async with http.post(CAT.replace("web", "none"), headers=headers) as response:
            assert response.status == 404
            assert (await response.json())["kind"] == "Status"


def test_errors_before_version_4_are_text() -> None:
    assert error_text(channels.V3, outcome(0)) == b""
    assert error_text(channels.V1, failure("gone")) == b"Internal error occurred: gone"
    assert json.loads(error_text(channels.V4, outcome(0))) == {"status": "Success"}


# --- port-forward


async def test_eight_connections_at_once(world: SessionWorld) -> None:
    path = f"{POD}/portforward"
    protocols = [channels.SPDY_PORT_FORWARD]
    async with upgraded(world, path, protocols) as peer:
        for number in range(8):
            for kind in ("error", "data"):
                stream = 2 * len(peer.names) + 1
                peer.names[stream] = f"{kind}{number}"
                headers = {
                    channels.STREAM_TYPE: kind,
                    channels.PORT: "80",
                    channels.REQUEST: str(number),
                }
                peer.writer.write(peer.spdy.open(stream, headers))
        for number in reversed(range(8)):
            await peer.send(f"data{number}", b"GET / HTTP/1.0\r\n\r\n")
        await peer.until(*(f"data{number}" for number in range(8)))
        for number in range(8):
            assert peer.data[f"data{number}"].endswith(b"simulated: contract, port 80\n")
            assert not peer.data.get(f"error{number}")


@pytest.mark.parametrize("kind", ["error", "data"])
async def test_a_connection_without_its_second_stream_is_closed(
    world: SessionWorld, kind: str
) -> None:
    async with upgraded(world, f"{POD}/portforward", [channels.SPDY_PORT_FORWARD]) as peer:
        await peer.open(kind, **{channels.PORT: "80", channels.REQUEST: "7"})
        if kind == "error":
            await peer.until("error")
            assert peer.data["error"] == b"request 7: timed out waiting for streams"
        else:
            while 1 not in peer.reset:
                assert await peer.read()
        # Others can still be opened.
        for name in ("error", "data"):
            peer.names[2 * len(peer.names) + 1] = name
            headers = {
                channels.STREAM_TYPE: name, channels.PORT: "80", channels.REQUEST: "7",
            }  # fmt: skip
            peer.writer.write(peer.spdy.open(max(peer.names), headers))
        peer.writer.write(peer.spdy.data(max(peer.names), b"GET / HTTP/1.0\r\n\r\n"))
        peer.ended.clear()
        await peer.until("data")
        assert peer.data["data"].endswith(b"simulated: contract, port 80\n")


async def test_an_unknown_port_forward_protocol_is_refused(world: SessionWorld) -> None:
    connector = aiohttp.UnixConnector(str(world.served.socket))
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4"}
    async with (
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
        http.post(f"{POD}/portforward", headers=headers) as response,
    ):
        assert response.status == 403
