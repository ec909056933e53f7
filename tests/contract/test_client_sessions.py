"""The client's sessions, forwards and copies against the API, with and without an engine."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from runtime_bench import until
from session_output import MEBIBYTE, echo, output_of
from session_world import SessionWorld, docker, session_world
from simulated import COMMANDS, memory

from podtui.api.v1 import ContainerState, ContainerStateTerminated
from podtui.client.protocol import AttachQuery, ExecQuery, PortForward
from podtui.client.unix import UnixClient
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.runtime.memory import Behaviour, MemoryRuntime, OutputLine

NS = "default"
ASKED = b"GET /hostname HTTP/1.0\r\n\r\n"
TWO_FILES = "mkdir -p /tmp/in; echo one > /tmp/in/a; echo two > /tmp/in/b; sleep 300"
ONE_FILE = "echo one > /tmp/a; sleep 300"
SCRIPTS = {
    TWO_FILES: Behaviour(files={"/tmp/in/a": b"one\n", "/tmp/in/b": b"two\n"}),
    ONE_FILE: Behaviour(files={"/tmp/a": b"one\n"}),
}
CAT_AND_FAIL = ("sh", "-c", "cat; echo bad >&2; exit 7")
DECLARED = {
    **COMMANDS,
    CAT_AND_FAIL: Behaviour(lines=(OutputLine("bad", "stderr"),), echoes=True, exit_code=7),
}


@pytest.fixture(params=["memory", pytest.param("engine", marks=pytest.mark.engine)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionWorld]:
    simulate = request.param == "memory"
    make = memory(SCRIPTS, DECLARED) if simulate else docker(request.getfixturevalue("engine_url"))
    async with session_world(make, tmp_path / "s.sock") as it:
        yield it


@pytest.fixture
async def simulated(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    async with session_world(memory(SCRIPTS, DECLARED), tmp_path / "s.sock") as it:
        await it.put(c="sleep 300")
        yield it


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Callable[[], UnixClient]]:
    clients: list[UnixClient] = []

    def make() -> UnixClient:
        clients.append(UnixClient(tmp_path / "s.sock"))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


Connect = Callable[[], UnixClient]


async def test_exec(world: SessionWorld, connect: Connect) -> None:
    await world.put(c="sleep 300")
    query = ExecQuery(command=CAT_AND_FAIL, stdin=True)
    async with connect().exec(NS, "web", query) as session:
        await session.write(b"given\n")
        await session.end_input()
        assert await output_of(session) == {"stdout": b"given\n", "stderr": b"bad\n"}
        assert session.exit_code() == 7


@pytest.mark.engine
async def test_exec_at_a_terminal(tmp_path: Path, engine_url: str, connect: Connect) -> None:
    async with session_world(docker(engine_url), tmp_path / "s.sock") as world:
        await world.put(c="sleep 300")
        query = ExecQuery(command=("sh",), stdin=True, tty=True)
        async with connect().exec(NS, "web", query) as session:
            await session.resize(99, 33)
            await session.write(b"X=deep; echo $X$X; exit 3\r")
            output = await output_of(session)
        assert b"deepdeep\r\n" in output["stdout"]
        assert output["stderr"] == b""
        assert session.exit_code() == 3


async def test_attach(world: SessionWorld, connect: Connect) -> None:
    script = "until test -f /tmp/go; do sleep 0.05; done; echo new"
    ids = await world.put(c=script)
    async with connect().attach(NS, "web", AttachQuery()) as session:
        runtime = world.bench.runtime
        if isinstance(runtime, MemoryRuntime):
            runtime.write_log(ids["c"], "new")
            runtime.kill(ids["c"], 0)
        else:
            await runtime.exec(ids["c"], ["touch", "/tmp/go"], timeout=120)
        assert (await output_of(session))["stdout"] == b"new\n"
        assert session.exit_code() == 0


async def test_refusals_have_messages(world: SessionWorld, connect: Connect) -> None:
    await world.put(a="sleep 300", b="sleep 300")
    client = connect()

    async def refusal(pod: str, container: str) -> tuple[int, str]:
        query = ExecQuery(container=container, command=("true",))
        with pytest.raises(ApiError) as caught:
            async with client.exec(NS, pod, query):
                pass
        return caught.value.code, str(caught.value)

    assert await refusal("missing", "") == (404, 'pods "missing" not found')
    assert await refusal("web", "z") == (400, "container z is not valid for pod web")
    code, text = await refusal("web", "")
    assert (code, "choose one of: [a b]" in text) == (400, True)
    ended = ContainerState(terminated=ContainerStateTerminated(exitCode=0))
    await world.record("web", {"c": "docker://x"}, ended)
    assert await refusal("web", "c") == (400, 'container not found ("c")')


async def test_large_output_arrives_complete(world: SessionWorld, connect: Connect) -> None:
    await world.put(c="sleep 300")
    query = ExecQuery(command=("cat",), stdin=True)
    async with connect().exec(NS, "web", query) as session:
        assert await echo(session) < 48 * MEBIBYTE


@pytest.mark.engine
async def test_a_disconnecting_client_ends_its_command(
    tmp_path: Path, engine_url: str, connect: Connect
) -> None:
    async with session_world(docker(engine_url), tmp_path / "s.sock") as world:
        ids = await world.put(c="sleep 300")
        query = ExecQuery(command=("sleep", "4321"))

        async def runs() -> bool:
            found = await world.bench.runtime.exec(ids["c"], ["ps"], timeout=120)
            return b"4321" in found.output

        async def gone() -> bool:
            return not await runs()

        # Before the command has started, and while it runs.
        async with connect().exec(NS, "web", query):
            pass
        async with connect().exec(NS, "web", query):
            await until(runs)
        await until(gone)


async def test_a_stopping_server_ends_sessions(simulated: SessionWorld, connect: Connect) -> None:
    query = ExecQuery(command=("cat",), stdin=True)
    async with connect().exec(NS, "web", query) as session:
        await simulated.served.app.shutdown()
        with pytest.raises(AgentUnavailable):
            await output_of(session)


# --- port-forward


@asynccontextmanager
async def forwarding(client: UnixClient, port: int) -> AsyncIterator[PortForward]:
    forward = await client.port_forward(NS, "web", port)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(forward.run())
        yield forward
        task.cancel()


async def fetch(port: int) -> bytes:
    async with asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(ASKED)
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


async def answered(port: int) -> None:
    async def answers() -> bool:
        return (await fetch(port)).startswith(b"HTTP/1.")

    await until(answers)


async def test_port_forward(world: SessionWorld, connect: Connect) -> None:
    await world.put(c="httpd -p 8080 -h /etc; sleep 300")
    async with forwarding(connect(), 8080) as forward:
        await answered(forward.local_port)
        before = forward.accepted
        answers = await asyncio.gather(*(fetch(forward.local_port) for _ in range(8)))
        assert {answer[:5] for answer in answers} == {b"HTTP/"}
        assert forward.accepted == before + 8
        assert forward.sent == forward.accepted * len(ASKED)
        assert forward.received >= sum(map(len, answers))
        assert forward.problem == ""

        async def idle() -> bool:
            return forward.connections == 0

        await until(idle)


async def test_a_forward_follows_its_pod(world: SessionWorld, connect: Connect) -> None:
    ids = await world.put(c="httpd -p 8080 -h /etc; sleep 300")
    bench = world.bench
    async with forwarding(connect(), 8080) as forward:
        await answered(forward.local_port)
        await bench.runtime.remove_container(ids["c"])
        await bench.runtime.remove_sandbox(world.sandbox)
        assert await fetch(forward.local_port) == b""
        assert "has no running sandbox" in forward.problem
        world.sandbox = await bench.sandbox(attempt=1)
        await world.put(c="httpd -p 8080 -h /etc; sleep 300")
        await answered(forward.local_port)
        assert forward.problem == ""


async def test_a_port_in_use_is_reported(simulated: SessionWorld, connect: Connect) -> None:
    client = connect()
    first = await client.port_forward(NS, "web", 80)
    try:
        with pytest.raises(PodtuiError, match=f"127.0.0.1:{first.local_port}.*in use"):
            await client.port_forward(NS, "web", 80, local_port=first.local_port)
        with pytest.raises(PodtuiError, match="no such port"):
            await client.port_forward(NS, "web", 80, local_port=70000)
    finally:
        first.close()


@pytest.mark.engine
async def test_large_data_passes_a_port_forward(
    tmp_path: Path, engine_url: str, connect: Connect
) -> None:
    """A listener that echoes: data in both directions at once, and both ends are closed
    correctly.
    """
    async with session_world(docker(engine_url), tmp_path / "s.sock") as world:
        await world.put(c="nc -ll -p 9000 -e cat")
        content = os.urandom(20 * MEBIBYTE)
        async with forwarding(connect(), 9000) as forward:

            async def echo() -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
                came = b""
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(_pour(writer, content))
                        came = await reader.read()
                except* OSError:
                    # Nothing listens yet.
                    pass
                finally:
                    writer.close()
                return came if came == content else b""

            assert await until(echo) == content


async def _pour(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    await writer.drain()
    writer.write_eof()


# --- copies


async def copied(run: Awaitable[object]) -> object:
    async with asyncio.timeout(120):
        return await run


async def test_copies(world: SessionWorld, connect: Connect, tmp_path: Path) -> None:
    """On the engine with tar in the container, on the simulated one without."""
    await world.put(c=TWO_FILES)
    client, here = connect(), tmp_path / "here"
    here.mkdir()

    async def written() -> bool:
        return (await client.copy_from(NS, "web", "c", "/tmp/in", tmp_path / "probe")).files == 2

    await until(written)
    found = await client.copy_from(NS, "web", "c", "/tmp/in", here)
    assert (found.files, found.bytes, found.skipped) == (2, 8, 0)
    assert (here / "in" / "a").read_text() == "one\n"
    await client.copy_from(NS, "web", "c", "/tmp/in/b", here / "named")
    assert (here / "named").read_text() == "two\n"
    content = os.urandom(700_000)
    (here / "in" / "more").write_bytes(content)
    sent = await client.copy_to(NS, "web", "c", here / "in", "/tmp")
    assert (sent.files, sent.bytes) == (3, 700_008)
    sent = await client.copy_to(NS, "web", "c", here / "in" / "more", "/tmp/renamed")
    for path in ("/tmp/in/more", "/tmp/renamed"):
        await client.copy_from(NS, "web", "c", path, here / "back")
        assert (here / "back").read_bytes() == content
    with pytest.raises(PodtuiError, match=r"(?i)no such file"):
        await client.copy_from(NS, "web", "c", "/tmp/none", here)
    with pytest.raises(PodtuiError, match=r"(?i)no such file|can't cd|cannot open"):
        await client.copy_to(NS, "web", "c", here / "named", "/tmp/none/deep")
    with pytest.raises(PodtuiError, match="must be absolute"):
        await client.copy_from(NS, "web", "c", "tmp", here)
    with pytest.raises(PodtuiError, match="cannot read"):
        await client.copy_to(NS, "web", "c", here / "missing", "/tmp")


class _Full(io.BytesIO):
    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _no_place() -> io.BytesIO:
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


@pytest.mark.parametrize(
    ("spool", "words"), [(_Full, "No space left"), (_no_place, "No usable temporary directory")]
)
async def test_a_full_disk_during_a_copy_is_reported(
    world: SessionWorld,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spool: Callable[[], io.BytesIO],
    words: str,
) -> None:
    await world.put(c=ONE_FILE)
    client = connect()

    async def written() -> bool:
        return (await client.copy_from(NS, "web", "c", "/tmp/a", tmp_path / "a")).files == 1

    await until(written)
    monkeypatch.setattr(tempfile, "TemporaryFile", spool)
    with pytest.raises(PodtuiError, match=f"TMPDIR.*{words}") as caught:
        await copied(client.copy_from(NS, "web", "c", "/tmp/a", tmp_path / "b"))
    assert not isinstance(caught.value, AgentUnavailable)


@pytest.mark.engine
async def test_copies_from_a_terminated_container(
    tmp_path: Path, engine_url: str, connect: Connect
) -> None:
    async with session_world(docker(engine_url), tmp_path / "s.sock") as world:
        ids = await world.put(c="echo last > /tmp/words")
        await world.bench.ended(ids["c"])
        ended = ContainerState(
            terminated=ContainerStateTerminated(exitCode=0, containerID=f"docker://{ids['c']}")
        )
        await world.record("web", {"c": f"docker://{ids['c']}"}, ended)
        client = connect()
        await client.copy_from(NS, "web", "c", "/tmp/words", tmp_path / "words")
        assert (tmp_path / "words").read_text() == "last\n"
        (tmp_path / "words").write_text("changed\n")
        await client.copy_to(NS, "web", "c", tmp_path / "words", "/tmp")
        await client.copy_from(NS, "web", "c", "/tmp/words", tmp_path / "again")
        assert (tmp_path / "again").read_text() == "changed\n"
