"""Terminals connected to containers, and ports and paths that users type."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tui_records import ordered_pod
from tui_scene import pod, status

from podtui.api.pods import container_names, container_statuses
from podtui.api.v1 import Container, ContainerPort, Pod
from podtui.client.protocol import Output
from podtui.errors import AgentUnavailable, UsageError
from podtui.tui.commands.copy_files import Transfer, parse_transfer, transfer_problem
from podtui.tui.commands.port_forward import PortPair, declared_ports, parse_ports, ports_problem
from podtui.tui.commands.raw_terminal import DETACH, DetachKeys, SessionResult, run_session
from podtui.tui.commands.restart import restartable_names
from podtui.tui.commands.shell import running_names


class Echo:
    """A process that echoes its input, and ends with ``.``."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent = b""
        self.sizes: list[tuple[int, int]] = []
        self.ended = False

    async def output(self) -> AsyncIterator[Output]:
        yield "stdout", b"$ "
        while (data := await self.queue.get()) is not None:
            yield "stdout", data

    async def write(self, data: bytes) -> None:
        self.sent += data
        await self.queue.put(None if data.endswith(b".") else data)

    @property
    def can_end_input(self) -> bool:
        return True

    async def end_input(self) -> None:
        self.ended = True

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def exit_code(self) -> int:
        return 0


@pytest.fixture
def terminal() -> AsyncIterator[tuple[int, int]]:  # type: ignore[misc]
    """Return the user's end and the program's end."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


async def shown(master: int, text: bytes) -> bytes:
    """Read the screen until it has a text."""
    seen = b""
    async with asyncio.timeout(120):
        while text not in seen:
            seen += await asyncio.to_thread(os.read, master, 1000)
    return seen


async def test_keys_and_output_are_passed_on_unchanged(terminal: tuple[int, int]) -> None:
    master, slave = terminal
    before = termios.tcgetattr(slave)
    session = Echo()
    termios.tcsetwinsize(slave, (33, 99))
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        talking = group.create_task(run_session(session, typed=slave, shown=slave))
        await shown(master, b"$ ")
        os.write(master, b"\x03\x1b[A")
        await shown(master, b"\x03\x1b[A")
        os.write(master, b".")
        assert await talking == SessionResult(typed=True)
    assert session.sent == b"\x03\x1b[A."
    assert session.sizes == [(99, 33)]
    assert termios.tcgetattr(slave) == before, "the terminal is as it was"


async def test_detach_keys_detach_and_are_not_passed_on(terminal: tuple[int, int]) -> None:
    master, slave = terminal
    session = Echo()
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        talking = group.create_task(
            run_session(session, keys=DETACH, tty=False, typed=slave, shown=slave)
        )
        await shown(master, b"$ ")
        # Without a terminal, a process ends its lines with a line feed only.
        os.write(master, b"\n")
        await shown(master, b"\r\n")
        os.write(master, b"ab\x10")
        await shown(master, b"ab")
        os.write(master, b"\x11")
        assert await talking == SessionResult(typed=True, left=True)
    assert session.sent == b"\nab"
    assert session.sizes == []


async def test_a_broken_session_is_an_error_and_restores_the_terminal(
    terminal: tuple[int, int],
) -> None:
    _, slave = terminal
    before = termios.tcgetattr(slave)

    class Broken(Echo):
        async def output(self) -> AsyncIterator[Output]:
            raise AgentUnavailable("the agent closed the connection")
            yield "stdout", b""

    with pytest.raises(AgentUnavailable, match="closed the connection"):
        await run_session(Broken(), typed=slave, shown=slave)
    assert termios.tcgetattr(slave) == before


@given(st.lists(st.binary(max_size=4)))
def test_any_input_without_detach_keys_is_passed_on(pieces: list[bytes]) -> None:
    text = b"".join(pieces).replace(DETACH, b"")
    wanted, passed = DetachKeys(DETACH), b""
    rest = text
    for piece in pieces:
        data, leave = wanted.feed(rest[: len(piece)])
        rest = rest[len(piece) :]
        passed += data
        assert not leave
    data, leave = wanted.feed(rest + b"z")
    assert (passed + data, leave) == (text + b"z", False)


@given(st.binary(max_size=6), st.integers(0, 3))
def test_detach_keys_are_found_in_any_chunks(before: bytes, cut: int) -> None:
    text = before.replace(DETACH[:1], b"") + DETACH
    wanted = DetachKeys(DETACH)
    first, left = wanted.feed(text[: len(text) - cut])
    rest, leave = (b"", True) if left else wanted.feed(text[len(text) - cut :])
    assert leave
    assert first + rest == text[: -len(DETACH)]


def with_ports(*ports: ContainerPort) -> Pod:
    found = pod("web", status("app"))
    spec = structs.replace(found.spec, containers=(Container(name="app", ports=ports),))
    return structs.replace(found, spec=spec)


WEB = with_ports(
    ContainerPort(containerPort=8080, name="http"),
    ContainerPort(containerPort=53, protocol="UDP", name="dns"),
)


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8080", PortPair(8080, 8080)),
        ("http", PortPair(8080, 8080)),
        ("9000:8080", PortPair(9000, 8080)),
        ("9000:http", PortPair(9000, 8080)),
        (":80", PortPair(0, 80)),
        (" 1:2 ", PortPair(1, 2)),
        pytest.param("0" * 5000 + "1:080", PortPair(1, 80), id="many noughts"),
    ],
)
def test_ports_have_kubectls_syntax(text: str, ports: PortPair) -> None:
    assert parse_ports(text, WEB) == ports
    assert ports_problem(text, WEB) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "0",
        "65536",
        "a",
        "dns",
        "1:",
        "x:80",
        "1:2:3",
        "٣",
        pytest.param("9" * 5000, id="many digits"),
    ],
)
def test_invalid_ports_are_refused_with_a_message(text: str) -> None:
    with pytest.raises(UsageError):
        parse_ports(text, WEB)
    assert ports_problem(text, WEB)


def test_only_tcp_ports_are_offered() -> None:
    assert declared_ports(WEB) == [("http", 8080)]


@pytest.mark.parametrize(
    ("text", "transfer"),
    [
        (":/etc/hosts .", Transfer(True, Path("."), "/etc/hosts")),
        ("./a.txt :/tmp/", Transfer(False, Path("a.txt"), "/tmp/")),
        ("':/with space' 'to here'", Transfer(True, Path("to here"), "/with space")),
        ("~/x :/y", Transfer(False, Path("~/x").expanduser(), "/y")),
    ],
)
def test_a_transfer_has_two_sides(text: str, transfer: Transfer) -> None:
    assert parse_transfer(text) == transfer
    assert transfer_problem(text) == ""


@pytest.mark.parametrize(
    "text", ["", ":/a", "a b", ":/a :/b", ":a b", "a b :/c", "'a :/b", ":/a ~no-such-user"]
)
def test_invalid_transfers_are_refused_with_a_message(text: str) -> None:
    assert transfer_problem(text)


def test_containers_are_listed_in_the_order_of_the_manifest() -> None:
    found = ordered_pod()
    assert container_names(found) == ["setup", "mesh", "zeta", "api", "debugger-1"]
    assert [one.name for one in container_statuses(found)] == container_names(found)
    assert running_names(found) == ["mesh", "zeta", "api", "debugger-1"]
    assert restartable_names(found) == ["mesh", "zeta", "api"]


def test_only_running_containers_can_be_attached() -> None:
    assert running_names(pod("web", status("a"), status("b"))) == ["a", "b"]
    assert running_names(pod("none", phase="Pending")) == []
