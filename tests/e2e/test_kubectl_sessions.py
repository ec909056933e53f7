"""Sessions of the real kubectl with a real container through the API."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import socket
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kubectl import NEWEST
from real_kubectl import kubectl
from runtime_bench import until
from session_world import SessionWorld, docker, session_world

from podtui.clock import SystemClock
from podtui.pki.access_point import choose_access_point, write_kubeconfig
from podtui.pki.certificates import server_names
from podtui.pki.pki import Pki
from podtui.server.transport.tls import ServerCertificate, TlsServer

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]
SCRIPT = "httpd -p 127.0.0.1:8080 -h /etc; while sleep 0.2; do echo tick; done"


@pytest.fixture
async def world(tmp_path: Path, engine_url: str) -> AsyncIterator[SessionWorld]:
    async with session_world(docker(engine_url), tmp_path / "s.sock") as it:
        await it.put(c=SCRIPT)
        yield it


SPDY = {
    "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
    "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false",
}


@pytest.fixture(
    params=[(NEWEST, {}), (NEWEST, SPDY), ("1.29", {})], ids=["websocket", "spdy", "kubectl-1.29"]
)
async def start(
    request: pytest.FixtureRequest, world: SessionWorld, tmp_path: Path
) -> AsyncIterator[Start]:
    """Start kubectl, which reaches the API over TLS, by WebSockets or by SPDY."""
    version, switches = request.param
    pki = Pki(tmp_path / "pki", datetime.now(UTC))
    point = choose_access_point(tmp_path, "127.0.0.1", 0)
    certificate = ServerCertificate(pki, server_names(()), clock=SystemClock())
    server = TlsServer(world.served.runner, certificate, point, clock=SystemClock())
    write_kubeconfig(tmp_path / "kubeconfig", point, pki.authority, pki.token)
    running: list[asyncio.subprocess.Process] = []

    async def begin(
        *arguments: str, stdio: int = asyncio.subprocess.PIPE, **environment: str
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            kubectl(version),
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=stdio,
            stdout=stdio,
            stderr=stdio,
            cwd=tmp_path,
            env={
                **os.environ,
                "HOME": str(tmp_path),
                "KUBECONFIG": str(tmp_path / "kubeconfig"),
                "NO_PROXY": "*",
                **switches,
                **environment,
            },
        )
        running.append(process)
        return process

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.run())
        async with asyncio.timeout(120):
            await server.listening.wait()
        yield begin
        for process in running:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        serving.cancel()


async def run(
    start: Start, *arguments: str, given: bytes = b"", **environment: str
) -> tuple[int | None, bytes, bytes]:
    process = await start(*arguments, **environment)
    async with asyncio.timeout(120):
        out, err = await process.communicate(given)
    return process.returncode, out, err


async def test_exec(start: Start) -> None:
    script = "echo out; echo err >&2; exit 7"
    code, out, err = await run(start, "exec", "web", "--", "sh", "-c", script)
    assert (code, out) == (7, b"out\n")
    assert err == b"err\ncommand terminated with exit code 7\n"
    code, out, err = await run(start, "exec", "web", "-c", "c", "--", "true")
    assert (code, out, err) == (0, b"", b"")


async def test_exec_with_input(start: Start) -> None:
    given = os.urandom(3_000_000)
    code, out, err = await run(start, "exec", "-i", "web", "--", "cat", given=given)
    assert (code, err) == (0, b"")
    assert out == given


async def test_exec_at_a_terminal(start: Start) -> None:
    controller, terminal = os.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        process = await start("exec", "-it", "web", "--", "sh", stdio=terminal)
        os.write(controller, b"sleep 0.3; stty size; exit 4\n")
        async with asyncio.timeout(120):
            code = await process.wait()
        os.set_blocking(controller, False)
        output = b""
        with suppress(BlockingIOError):
            while data := os.read(controller, 65536):
                output += data
    finally:
        os.close(controller)
        os.close(terminal)
    assert b"33 99\r\n" in output
    assert code == 4


async def test_exec_without_a_running_container(start: Start) -> None:
    code, _, err = await run(start, "exec", "web", "--", "nosuchcommand")
    assert code == 1
    assert b"error executing command in container" in err
    code, _, err = await run(start, "exec", "missing", "--", "true")
    assert code == 1
    assert b'pods "missing" not found' in err
    code, _, err = await run(start, "exec", "web", "-c", "other", "--", "true")
    assert code == 1
    assert b"container other" in err


async def test_exec_after_the_container_terminated(start: Start, world: SessionWorld) -> None:
    await world.record("web", {"c": "docker://" + "f" * 64})
    code, _, err = await run(start, "exec", "web", "--", "true")
    assert code == 1
    assert b'container not found ("c")' in err


async def test_attach(start: Start) -> None:
    process = await start("attach", "web")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert await process.stdout.readline() == b"tick\n"


async def test_copy(start: Start, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "given").write_bytes(content)
    code, _, err = await run(start, "cp", "given", "web:/tmp/taken")
    assert code == 0, err
    code, _, err = await run(start, "cp", "web:/tmp/taken", "back")
    assert code == 0, err
    assert (tmp_path / "back").read_bytes() == content


async def fetch(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /hostname HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_port_forward(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = await start("port-forward", "web", f"{port}:8080")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert b"Forwarding from 127.0.0.1" in await process.stdout.readline()

        async def answers() -> bool:
            return (await fetch(port)).endswith(b"contract\n")

        await until(answers)
        for _ in range(3):
            answers_ = await asyncio.gather(*(fetch(port) for _ in range(8)))
            assert {one[-9:] for one in answers_} == {b"contract\n"}


async def test_port_forward_under_load(start: Start) -> None:
    """Eight simultaneous connections transfer megabytes; a half-closed one still reads."""
    size = 8 * 1024 * 1024
    make = f"head -c {size} /dev/urandom > /etc/much; md5sum < /etc/much"
    code, sums, err = await run(start, "exec", "web", "--", "sh", "-c", make)
    assert code == 0, err
    process = await start("port-forward", "web", ":8080")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = (await process.stdout.readline()).decode()
        port = int(line.split(" -> ")[0].rpartition(":")[2])

        async def load() -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /much HTTP/1.0\r\n\r\n")
            writer.write_eof()
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
            return hashlib.md5(body, usedforsecurity=False).hexdigest()

        found = await asyncio.gather(*(load() for _ in range(8)))
    assert found == [sums.split()[0].decode()] * 8


async def test_port_forward_to_a_closed_port(start: Start) -> None:
    process = await start("port-forward", "web", ":8099")
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(120):
        line = (await process.stdout.readline()).decode()
        assert await fetch(int(line.split(" -> ")[0].rpartition(":")[2])) == b""
        message = await process.stderr.readline()
    assert b"error forwarding port 8099 to pod web, uid" in message
    assert b"Connection refused" in message
