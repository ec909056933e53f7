"""Sockets in pod networks: the helper process and its answers.

Entering a network needs a real engine: tests/contract/test_contract_sessions.py.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from podtui.runtime.docker import dialing, netns_helper
from podtui.runtime.docker.dialing import PodNamespaces
from podtui.runtime.docker.netns_helper import Failed, forget_flows, is_local

ANSWER = """
import os, socket
channel = socket.socket(fileno=0)
while channel.recv(4096):
    {answer}
"""


@pytest.fixture
async def sockets() -> AsyncIterator[PodNamespaces]:
    opener = PodNamespaces()
    yield opener
    await opener.close()


def helper_that(answer: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    script = folder / "helper.py"
    script.write_text(ANSWER.format(answer=answer))
    monkeypatch.setattr(dialing, "HELPER", script)


async def ask(sockets: PodNamespaces) -> socket.socket:
    return await sockets.open(os.getpid(), ["127.0.0.1"], "socket", socket.AF_INET)


async def test_a_socket_comes_from_the_helper(
    sockets: PodNamespaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = "s = socket.socket(); socket.send_fds(channel, [b'[0, 0]'], [s.fileno()])"
    pid = tmp_path / "pid"
    helper_that(f"open({str(pid)!r}, 'w').write(str(os.getpid())); {answer}", monkeypatch, tmp_path)
    for _ in range(2):
        with await ask(sockets) as sock:
            assert (sock.family, sock.type) == (socket.AF_INET, socket.SOCK_STREAM)
            assert not sock.getblocking()
    helper = pid.read_text()
    os.kill(int(helper), 0)
    await sockets.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(helper), 0)
    # The next socket starts another helper.
    with await ask(sockets):
        assert pid.read_text() != helper


async def test_the_helper_refuses(
    sockets: PodNamespaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    helper_that(f"channel.send(b'[{errno.EPERM}, 0]')", monkeypatch, tmp_path)
    for _ in range(2):
        with pytest.raises(PermissionError):
            await ask(sockets)


async def test_a_helper_that_ended_is_replaced(
    sockets: PodNamespaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    helper_that("os._exit(3)", monkeypatch, tmp_path)
    # The end of the helper may be seen when sending or when receiving.
    with pytest.raises(ConnectionError):
        await ask(sockets)
    helper_that(f"channel.send(b'[{errno.ENXIO}, 0]')", monkeypatch, tmp_path)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is compared
        await ask(sockets)
    assert caught.value.errno == errno.ENXIO


async def test_a_socket_that_arrives_after_cancellation_is_closed(
    sockets: PodNamespaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = "s = socket.socket(); socket.send_fds(channel, [b'[0, 0]'], [s.fileno()])"
    helper_that(answer, monkeypatch, tmp_path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await ask(sockets)
    # Requests are served in order. An unclosed socket fails the test with a ResourceWarning.
    with await ask(sockets):
        pass


async def test_an_ended_process(sockets: PodNamespaces) -> None:
    with pytest.raises(FileNotFoundError):
        await sockets.open(2**22 + 1, [], "socket", socket.AF_INET)


def test_an_ip_of_an_interface() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")


def test_the_helper_process_ends_quietly_if_the_agent_is_killed() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(dialing.HELPER), str(os.getpid())],
            stdin=far.fileno(),
            stderr=subprocess.PIPE,
        )
    with near:
        for _ in range(2):
            near.send(json.dumps(["socket", 0, ["127.0.0.1"], int(socket.AF_INET)]).encode())
    assert helper.communicate(timeout=60) == (None, b"")
    assert helper.returncode == 0


@pytest.mark.parametrize(
    ("output", "code", "problem"),
    [
        ("conntrack v1: 2 flow entries have been deleted.", 0, None),
        ("conntrack v1: 0 flow entries have been deleted.", 1, None),
        ("conntrack v1: Operation failed: no capability", 1, "Operation failed: no capability"),
        ("", 2, "conntrack ended with 2"),
    ],
)
def test_a_failure_of_conntrack_is_told_from_no_flows(
    output: str, code: int, problem: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "conntrack"
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setattr(netns_helper, "CONNTRACK", (str(program),))
    with pytest.raises(Failed, match=problem) if problem else nullcontext():
        forget_flows("127.0.0.1", 53)
