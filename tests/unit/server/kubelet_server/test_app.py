"""The paths of the kubelet server, over real TLS and with simulated containers."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cluster_server import Authority
from kubelet_server_world import (
    FakeReviewer,
    KubeletServerWorld,
    ask,
    kubelet_server_world,
    write_certificate,
)
from session_world import SessionWorld, session_world
from simulated import COMMANDS, ends, memory
from tls_world import ShiftedClock

from podtui.clock import SystemClock
from podtui.errors import PodtuiError
from podtui.runtime.memory import OutputLine
from podtui.server.kubelet_api import remote_command
from podtui.server.kubelet_server.server import KubeletServer
from podtui.server.transport.certificate_files import CertificateFiles
from podtui.wire import channels
from podtui.wire.spdy import Data, Spdy

NOT_FOUND = (404, "404: Page Not Found")
DECLARED = {
    **COMMANDS,
    ("both",): ends("out", OutputLine("err", "stderr"), "more"),
    ("fails",): ends("out", OutputLine("err", "stderr"), code=3),
    ("much",): ends(*("x" * 1000 for _ in range(100))),
}
EXEC = "?input=1&output=1&error=1&command=fails"
NO_COMMAND = EXEC.replace("fails", "nosuchcommand")
HTTP = b"GET / HTTP/1.0\r\n\r\n"


@asynccontextmanager
async def with_pod(folder: Path) -> AsyncIterator[tuple[KubeletServerWorld, SessionWorld]]:
    """Serve the pod ``web`` with the container ``c``."""
    async with session_world(memory(commands=DECLARED), folder / "s.sock") as sessions:
        await sessions.put(c="sleep 300")
        kubelet = sessions.served.kubelet
        async with kubelet_server_world(
            folder, FakeReviewer(), kubelet=kubelet, clock=SystemClock()
        ) as world:
            yield world, sessions


async def test_figures_and_health(tmp_path: Path) -> None:
    async with kubelet_server_world(tmp_path, FakeReviewer()) as world, world.robot() as client:
        for path, text in {
            "/healthz": "ok",
            "/healthz/ping": "ok",
            "/healthz/syncloop": "ok",
            "/metrics": "metrics",
            "/metrics/cadvisor": "cadvisor",
            "/metrics/probes": "probes",
            "/metrics/resource": "resource",
            "/metrics/slis": "slis",
            "/configz": "{}",
        }.items():
            assert await ask(client, path) == (200, text), path
        code, text = await ask(client, "/stats/summary")
        assert (code, json.loads(text)["node"]["nodeName"]) == (200, "node")
        code, text = await ask(client, "/pods")
        assert [pod["metadata"]["name"] for pod in json.loads(text)["items"]] == ["web"]
        code, text = await ask(client, "/runningpods/")
        assert (code, json.loads(text)["items"]) == (200, [])
        world.kubelet.health["syncloop"] = "it is stuck"
        code, text = await ask(client, "/healthz")
        assert code == 500
        assert "[-]syncloop failed: reason withheld\n" in text


async def test_no_objects_of_the_api_are_served(tmp_path: Path) -> None:
    async with kubelet_server_world(tmp_path, FakeReviewer()) as world, world.robot() as client:
        for path in (
            "/",
            "/api",
            "/apis",
            "/api/v1/pods",
            "/api/v1/secrets",
            "/api/v1/nodes/node/proxy/pods",
            "/api/v1/namespaces/default/pods/web/exec",
            "/apis/podtui.dev/v1/namespaces/default/pods/web/insight",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "/openapi/v2",
            "/version",
            "/livez",
            "/readyz",
            "/exec/default",
            "/pods/web",
        ):
            for method in ("GET", "POST"):
                assert await ask(client, path, method) == NOT_FOUND, path
        assert await ask(client, "/pods", "POST") == (405, "405: Method Not Allowed")


async def test_disabled_endpoints(tmp_path: Path) -> None:
    async with kubelet_server_world(tmp_path, FakeReviewer()) as world, world.robot() as client:
        for path in ("/logs/", "/logs/syslog"):
            assert await ask(client, path) == (405, "logs endpoint is disabled.\n")
        assert await ask(client, "/debug/pprof/heap") == (405, "profiling endpoint is disabled.\n")
        assert await ask(client, "/debug/flags/v", "PUT") == (405, "flags endpoint is disabled.\n")


async def test_checkpoints_are_not_supported(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, _), world.robot() as client:
        unimplemented = (
            "rpc error: code = Unimplemented desc = method CheckpointContainer not implemented"
        )
        for path, answer in {
            "web/c": (500, f"checkpointing of default/web/c failed ({unimplemented})"),
            "web/x": (404, "container x does not exist"),
            "none/c": (404, "pod does not exist"),
        }.items():
            assert await ask(client, f"/checkpoint/default/{path}", "POST") == answer


async def test_logs(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, sessions), world.robot() as client:
        path = "/containerLogs/default/web"
        sessions.served.kubelet.lines = []
        assert await ask(client, f"{path}/c?tailLines=5&timestamps=true") == (200, "")
        [(namespace, pod, container, previous, options)] = sessions.served.kubelet.log_requests
        assert (namespace, pod, container, previous, options.tail) == (
            "default", "web", "c", False, 5,
        )  # fmt: skip
        # Errors are plain text: the API server puts them into the message of a Status.
        async with client.get(f"{path}/missing") as response:
            assert response.content_type == "text/plain"
            assert (response.status, await response.text()) == (
                404, 'container "missing" not found in pod "web"',
            )  # fmt: skip


async def test_a_followed_log_ends_with_the_server(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, sessions):
        async with world.robot() as client:
            path = "/containerLogs/default/web/c?follow=true"
            async with client.get(path) as response, asyncio.timeout(120):
                assert response.status == 200
                world.task.cancel()
                assert await response.read() == b""
        assert sessions.served.kubelet.closed_logs == 1


async def test_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_pod(tmp_path) as (world, sessions), world.robot() as client:
        path, uid = "/run/default/web", sessions.bench.uid
        for target in (f"{path}/c", f"{path}/{uid}/c"):
            assert await ask(client, f"{target}?cmd=both", "POST") == (200, "out\nmore\nerr\n")
        for target, answer in {
            "web/c?cmd=fails": (500, "command 'fails' exited with 3: err\n"),
            "web/c?cmd=a%20b": (200, "simulated: a b\n"),
            "web/other/c?cmd=both": (500, 'container not found ("c")'),
            "none/c?cmd=both": (404, 'pod "none" does not exist'),
        }.items():
            assert await ask(client, f"/run/default/{target}", "POST") == answer, target
        monkeypatch.setattr(remote_command, "MOST_RUN_OUTPUT", 2500)
        code, text = await ask(client, f"{path}/c?cmd=much", "POST")
        assert (code, len(text)) == (200, 2500)


async def test_exec_over_a_websocket(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, sessions), world.robot() as client:
        for target in ("c", f"{sessions.bench.uid}/c"):
            path = f"/exec/default/web/{target}{EXEC}"
            async with client.ws_connect(path, protocols=(channels.V5,)) as ws:
                received = [message.data async for message in ws]
            assert b"\x01out\n" in received
            assert b"\x02err\n" in received
            assert json.loads(received[-1][1:])["details"]["causes"] == [
                {"reason": "ExitCode", "message": "3"}
            ]


async def test_a_token_in_the_protocols_of_a_websocket(tmp_path: Path) -> None:
    token = base64.urlsafe_b64encode(b"robot-token").rstrip(b"=").decode()
    async with with_pod(tmp_path) as (world, _), world.client() as client:
        path = f"/exec/default/web/c{EXEC}"
        protocols = (channels.V5, f"base64url.bearer.authorization.k8s.io.{token}")
        async with client.ws_connect(path, protocols=protocols) as ws:
            assert ws.protocol == channels.V5
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect(path, protocols=(channels.V5,))
        assert caught.value.status == 401


class Peer:
    """An API server's end of a SPDY connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._spdy = Spdy()
        self._ended: set[int] = set()
        self.data: dict[int, bytes] = {}

    def open(self, stream: int, kind: str, **headers: str) -> None:
        self._writer.write(self._spdy.open(stream, {channels.STREAM_TYPE: kind, **headers}))

    def send(self, stream: int, data: bytes) -> None:
        self._writer.write(self._spdy.data(stream, data))

    async def until_end(self, *streams: int) -> None:
        async with asyncio.timeout(120):
            while not self._ended >= set(streams):
                received = await self._reader.read(65536)
                assert received, self.data
                for frame in self._spdy.feed(received):
                    if isinstance(frame, Data):
                        before = self.data.get(frame.stream, b"")
                        self.data[frame.stream] = before + frame.payload
                        self._ended |= {frame.stream} if frame.fin else set()


@asynccontextmanager
async def upgraded(world: KubeletServerWorld, path: str, protocol: str) -> AsyncIterator[Peer]:
    """Connect with a client certificate, as an API server does."""
    trust = world.trust(world.clients.issue("kube-apiserver-kubelet-client"))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=trust)
    lines = [f"POST {path} HTTP/1.1", "Host: node", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"X-Stream-Protocol-Version: {protocol}", "Content-Length: 0"]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        async with asyncio.timeout(120):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 101 "), head
        yield Peer(reader, writer)
    finally:
        writer.close()


async def test_exec_over_spdy(tmp_path: Path) -> None:
    async with (
        with_pod(tmp_path) as (world, _),
        upgraded(world, f"/exec/default/web/c{EXEC}", channels.V4) as peer,
    ):
        for number, kind in enumerate(("error", "stdin", "stdout", "stderr")):
            peer.open(2 * number + 1, kind)
        await peer.until_end(1, 5, 7)
        assert (peer.data[5], peer.data[7]) == (b"out\n", b"err\n")
        assert json.loads(peer.data[1])["reason"] == "NonZeroExitCode"


async def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """The API server that translates the streams of SPDY names the internal error once more."""
    async with (
        with_pod(tmp_path) as (world, _),
        upgraded(world, f"/exec/default/web/c{NO_COMMAND}", channels.V4) as peer,
    ):
        for number, kind in enumerate(("error", "stdin", "stdout", "stderr")):
            peer.open(2 * number + 1, kind)
        await peer.until_end(1)
        message = json.loads(peer.data[1])["message"]
        assert message.startswith("Internal error occurred: error executing command in container: ")


async def test_attach(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, _), world.robot() as client:
        path = "/attach/default/web/c?output=1&error=1"
        async with client.ws_connect(path, protocols=(channels.V4,)) as ws, asyncio.timeout(120):
            assert await ws.receive_bytes() == b"\x01"


async def test_port_forward_over_spdy(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, sessions):
        for target in ("web", f"web/{sessions.bench.uid}"):
            path = f"/portForward/default/{target}"
            async with upgraded(world, path, channels.SPDY_PORT_FORWARD) as peer:
                headers = {channels.PORT: "80", channels.REQUEST: "0"}
                peer.open(1, "error", **headers)
                peer.open(3, "data", **headers)
                peer.send(3, HTTP)
                await peer.until_end(1, 3)
                assert peer.data[3].endswith(b"simulated: contract, port 80\n")


async def test_port_forward_over_a_websocket(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, _), world.robot() as client:
        path = "/portForward/default/web"
        spdy = Spdy()
        async with client.ws_connect(path, protocols=(channels.PORT_FORWARD,)) as ws:
            for stream, kind in ((1, "error"), (3, "data")):
                headers = {
                    channels.STREAM_TYPE: kind, channels.PORT: "80", channels.REQUEST: "0",
                }  # fmt: skip
                await ws.send_bytes(spdy.open(stream, headers))
            await ws.send_bytes(spdy.data(3, HTTP))
            data = b""
            async with asyncio.timeout(120):
                while not data.endswith(b"simulated: contract, port 80\n"):
                    for frame in spdy.feed(await ws.receive_bytes()):
                        data += frame.payload if isinstance(frame, Data) else b""
        async with client.ws_connect(f"{path}?port=80", protocols=(channels.V4,)) as ws:
            assert await ws.receive_bytes(timeout=120) == b"\0\x50\0"


async def test_refused_sessions(tmp_path: Path) -> None:
    async with with_pod(tmp_path) as (world, _), world.robot() as client:
        for path, answer in {
            "/exec/default/web/c": (400, "you must specify at least 1 of stdin, stdout, stderr"),
            f"/exec/default/web/c{EXEC}": (400, "Upgrade request required"),
            f"/exec/default/web/other/c{EXEC}": (500, 'container not found ("c")'),
            f"/attach/default/none/c{EXEC}": (404, 'pod "none" does not exist'),
            "/portForward/default/web/other": (404, "pod not found"),
        }.items():
            assert await ask(client, path) == answer, path


async def test_a_port_in_use_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ShiftedClock()
    write_certificate(tmp_path, Authority())
    files = CertificateFiles(lambda: (tmp_path / "server.crt", tmp_path / "server.key"))
    with socket.create_server(("127.0.0.1", 0)) as occupied, caplog.at_level(logging.WARNING):
        port = occupied.getsockname()[1]
        server = KubeletServer(web.Application, files, "127.0.0.1", port, clock=clock)
        async with asyncio.TaskGroup() as group, asyncio.timeout(120):
            task = group.create_task(server.run())
            await clock.waiting.wait()
            occupied.close()
            clock.ticks.set()
            await server.listening.wait()
            task.cancel()
    assert f"cannot serve the kubelet server on 127.0.0.1 port {port}" in caplog.text


async def test_a_missing_certificate_is_an_error(tmp_path: Path) -> None:
    files = CertificateFiles(lambda: (tmp_path / "server.crt", tmp_path / "server.crt"))
    server = KubeletServer(web.Application, files, "127.0.0.1", 1, clock=ShiftedClock())
    with pytest.raises(PodtuiError, match=r"cannot load the certificate .*server\.crt: "):
        await server.run()
