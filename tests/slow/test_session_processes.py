"""Session commands in separate processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from session_world import SessionWorld, session_world
from simulated import COMMANDS, memory

from podtui.runtime.memory import Behaviour, OutputLine

CAT_AND_FAIL = ("sh", "-c", "cat; echo bad >&2; exit 5")
DECLARED = {
    **COMMANDS,
    CAT_AND_FAIL: Behaviour(lines=(OutputLine("bad", "stderr"),), echoes=True, exit_code=5),
    ("sh",): Behaviour(lines=("/ # ",), echoes=True),
}
Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


def _reset_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    async with session_world(memory(commands=DECLARED), tmp_path / "podtui.sock") as it:
        await it.put(c="sleep 300")
        yield it


@pytest.fixture
async def start(world: SessionWorld, tmp_path: Path) -> AsyncIterator[Start]:
    running: list[asyncio.subprocess.Process] = []

    async def begin(
        *arguments: str, stdio: int = asyncio.subprocess.PIPE, stdin: int | None = None
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "podtui",
            f"--root-dir={tmp_path}",
            *arguments,
            stdin=stdio if stdin is None else stdin,
            stdout=stdio,
            stderr=stdio,
            cwd=tmp_path,
            # In a background job SIGINT is ignored, and child processes inherit that.
            preexec_fn=_reset_interrupts,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run(start: Start, *arguments: str, given: bytes = b"") -> tuple[int | None, bytes, bytes]:
    process = await start(*arguments)
    async with asyncio.timeout(120):
        out, err = await process.communicate(given)
    return process.returncode, out, err


async def test_exec(start: Start) -> None:
    found = await run(start, "exec", "-i", "web", "--", *CAT_AND_FAIL, given=b"given\n")
    assert found == (5, b"given\n", b"bad\n")


async def test_a_stopping_agent_is_reported(start: Start, world: SessionWorld) -> None:
    process = await start("exec", "-i", "web", "--", "cat")
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(120):
        process.stdin.write(b"here")
        assert await process.stdout.readexactly(4) == b"here"
        await world.served.app.shutdown()
        assert await process.wait() == 3
        assert process.stderr is not None
        assert await process.stderr.read() == b"podtui: the agent closed the connection\n"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The user's side of a pseudo-terminal, which does not block, and that of a process."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def _shows(ours: int, text: bytes) -> None:
    output = b""
    while text not in output:
        output += _read(ours)
        await asyncio.sleep(0.02)


async def test_exec_at_a_terminal(start: Start, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    before = termios.tcgetattr(theirs)
    process = await start("exec", "-it", "web", "--", "sh", stdio=theirs)
    async with asyncio.timeout(120):
        await _shows(ours, b"/ # ")
        os.write(ours, b"typed")
        await _shows(ours, b"typed")
        os.write(ours, b"\x03")
        assert await process.wait() == 130
    assert termios.tcgetattr(theirs) == before


async def test_sigterm_restores_the_terminal(start: Start, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    before = termios.tcgetattr(theirs)
    process = await start("exec", "-it", "web", "--", "sh", stdio=theirs)
    async with asyncio.timeout(120):
        await _shows(ours, b"/ # ")
        assert termios.tcgetattr(theirs) != before
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 128 + signal.SIGTERM
    assert termios.tcgetattr(theirs) == before
    assert b"Traceback" not in _read(ours)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


async def test_port_forward(start: Start) -> None:
    process = await start("port-forward", "web", ":80")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = (await process.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:")
        assert line.endswith(" -> 80\n")
        port = int(line.split(":")[1].split()[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert b"simulated: contract, port 80" in await reader.read()
        writer.close()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130


async def test_a_forward_to_a_pending_pod_says_so(start: Start, world: SessionWorld) -> None:
    record = world.statuses.pods["default", "web"]
    pending = replace(record, status=replace(record.status, phase="Pending"))
    await world.served.store.put("pods", pending)
    process = await start("port-forward", "web", ":80")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert (await process.stdout.readline()).startswith(b"Forwarding from ")
        assert b'pod "web" is Pending' in await process.stdout.readline()
