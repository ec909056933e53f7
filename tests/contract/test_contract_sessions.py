"""Sessions in containers, connections to pods and file copies, on every runtime."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import tarfile
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from runtime_bench import Bench, until
from session_output import MEBIBYTE, echo, output_of

from podtui.errors import EngineConflict, EngineError, EngineNotFound, ExecStartError


async def test_a_command_reads_input_and_writes_output(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    script = "cat; echo wrong >&2; exit 7"
    command = ["sh", "-c", script]
    async with bench.runtime.exec_session(ident, command, stdin=True) as session:
        await session.write(b"one\n")
        await session.write(b"two\n")
        await session.end_input()
        await session.end_input()
        assert await output_of(session) == {"stdout": b"one\ntwo\n", "stderr": b"wrong\n"}
        assert await session.exit_code() == 7


async def test_input_is_delivered_as_it_arrives(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with bench.runtime.exec_session(ident, ["cat"], stdin=True) as session:
        output = session.output()
        async with aclosing(output), asyncio.timeout(120):
            for word in (b"ping", b"pong"):
                await session.write(word)
                assert await anext(output) == ("stdout", word)
            await session.end_input()
            assert [piece async for piece in output] == []
        assert await session.exit_code() == 0


@pytest.mark.engine
async def test_a_shell_at_a_terminal(engine_bench: Bench) -> None:
    ident = await engine_bench.start(await engine_bench.sandbox())
    async with engine_bench.runtime.exec_session(ident, ["sh"], stdin=True, tty=True) as session:
        await session.resize(100, 30)
        await session.write(b"X=deep; echo $X$X\r")
        await session.write(b"echo wrong >&2; exit 3\r")
        output = await output_of(session)
        assert output["stderr"] == b""
        assert b"deepdeep\r\n" in output["stdout"]
        assert b"\nwrong\r\n" in output["stdout"]
        assert await session.exit_code() == 3


@pytest.mark.engine
@pytest.mark.parametrize(
    "script",
    ["command -v bash >/dev/null && exec bash || exec sh", "exec /bin/sh", "nosuch || sh"],
)
async def test_a_script_that_executes_a_shell_gets_typed_input(
    engine_bench: Bench, script: str
) -> None:
    ident = await engine_bench.start(await engine_bench.sandbox())
    command = ["sh", "-c", script]
    async with engine_bench.runtime.exec_session(ident, command, stdin=True, tty=True) as session:
        output = session.output()
        async with aclosing(output), asyncio.timeout(120):
            shown = b""
            async for _, data in output:
                shown += data
                if b"# " in shown:
                    break
            await session.write(b"X=deep; echo $X$X\r")
            await session.write(b"exit 3\r")
            shown = b"".join([data async for _, data in output])
        assert b"deepdeep\r\n" in shown
        assert await session.exit_code() == 3


@pytest.mark.engine
async def test_a_script_that_executes_a_shell_reads_its_input(engine_bench: Bench) -> None:
    ident = await engine_bench.start(await engine_bench.sandbox())
    command = ["sh", "-c", "X=deep; export X; exec sh"]
    async with engine_bench.runtime.exec_session(ident, command, stdin=True) as session:
        await session.write(b"echo $X$X\nexit 4\n")
        await session.end_input()
        assert (await output_of(session))["stdout"] == b"deepdeep\n"
        assert await session.exit_code() == 4


@pytest.mark.engine
async def test_a_terminal_has_a_size(engine_bench: Bench) -> None:
    ident = await engine_bench.start(await engine_bench.sandbox())
    async with engine_bench.runtime.exec_session(ident, ["sh"], stdin=True, tty=True) as session:
        await session.resize(99, 33)
        await session.write(b"stty size; exit\n")
        assert b"33 99\r\n" in (await output_of(session))["stdout"]


async def test_an_unknown_command(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with bench.runtime.exec_session(ident, ["nosuchcommand"]) as session:
        with pytest.raises(ExecStartError, match="not found"):
            await output_of(session)
        assert await session.exit_code() in (126, 127)


async def test_unread_input_loses_no_output(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    command = ["sh", "-c", "echo done; exit 0"]
    async with (
        bench.runtime.exec_session(ident, command, stdin=True) as session,
        asyncio.TaskGroup() as group,
    ):

        async def pour() -> None:
            for _ in range(200):
                await session.write(bytes(64 * 1024))

        task = group.create_task(pour())
        assert (await output_of(session))["stdout"] == b"done\n"
        assert await session.exit_code() == 0
        task.cancel()


async def test_writing_blocks_while_the_command_does_not_read(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with bench.runtime.exec_session(ident, ["sleep", "60"], stdin=True) as session:
        written = 0

        async def pour() -> None:
            nonlocal written
            while True:
                await session.write(bytes(64 * 1024))
                written += 64 * 1024

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pour(), 1.5)
        assert 0 < written < 32 * MEBIBYTE


async def test_large_output_arrives_complete_in_bounded_memory(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with bench.runtime.exec_session(ident, ["cat"], stdin=True) as session:
        assert await echo(session) < 40 * MEBIBYTE


@pytest.mark.engine
async def test_a_command_ends_with_its_session(engine_bench: Bench) -> None:
    ident = await engine_bench.start(await engine_bench.sandbox())
    for tty in (False, True):
        async with engine_bench.runtime.exec_session(ident, ["sleep", "4321"], tty=tty):
            pass

    async def gone() -> bool:
        found = await engine_bench.runtime.exec(ident, ["ps"], timeout=120)
        return b"4321" not in found.output

    await until(gone)
    assert await gone()


async def test_commands_need_a_running_container(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "true")
    await bench.ended(ident)
    for opened in (
        bench.runtime.exec_session(ident, ["true"]),
        bench.runtime.attach_session(ident),
    ):
        with pytest.raises(EngineConflict):
            async with opened:
                pass
    with pytest.raises(EngineNotFound):
        async with bench.runtime.exec_session("f" * 64, ["true"]):
            pass
    with pytest.raises(EngineNotFound):
        async with bench.runtime.attach_session("f" * 64):
            pass


async def test_a_session_ends_with_its_container(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with bench.runtime.exec_session(ident, ["cat"], stdin=True) as session:
        await session.write(b"here")
        output = session.output()
        async with aclosing(output), asyncio.timeout(120):
            assert await anext(output) == ("stdout", b"here")
            await bench.runtime.stop_container(ident, 0)
            assert [piece async for piece in output] == []
            assert await session.exit_code() != 0


@pytest.mark.engine
async def test_attach_streams_new_output(engine_bench: Bench) -> None:
    script = "echo old; until test -f /tmp/go; do sleep 0.05; done; echo new; echo bad >&2"
    ident = await engine_bench.start(await engine_bench.sandbox(), script)
    await engine_bench.shows(ident, "old")
    async with engine_bench.runtime.attach_session(ident) as session:
        await engine_bench.runtime.exec(ident, ["touch", "/tmp/go"], timeout=120)
        assert await output_of(session) == {"stdout": b"new\n", "stderr": b"bad\n"}
        assert await session.exit_code() is None


@pytest.mark.engine
async def test_attach_sends_input(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    ident = await engine_bench.start(sandbox, ["cat"], stdin=True, stdin_once=True)
    async with engine_bench.runtime.attach_session(ident, stdin=True) as session:
        await session.write(b"hello\n")
        await session.end_input()
        assert (await output_of(session))["stdout"] == b"hello\n"
    assert (await engine_bench.ended(ident)).exit_code == 0


@pytest.mark.engine
async def test_end_of_input_keeps_stdin_of_the_container_open(engine_bench: Bench) -> None:
    """As under a kubelet: without ``stdin_once`` the next attached client continues."""
    script = "while read line; do sleep 0.3; echo got $line; done"
    sandbox = await engine_bench.sandbox()
    ident = await engine_bench.start(sandbox, script, stdin=True)
    for word in (b"one", b"two"):
        async with engine_bench.runtime.attach_session(ident, stdin=True) as session:
            await session.write(word + b"\n")
            await session.end_input()
            output = session.output()
            async with aclosing(output), asyncio.timeout(120):
                assert await anext(output) == ("stdout", b"got " + word + b"\n")


async def test_a_container_survives_a_detached_client(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox(), "echo up; sleep 300")
    async with bench.runtime.attach_session(ident):
        pass
    status = await bench.runtime.container_status(ident)
    assert status.record.state == "CONTAINER_RUNNING"


async def fetch(bench: Bench, sandbox: str, port: int) -> bytes:
    async with asyncio.timeout(120), bench.runtime.dial(sandbox, port) as stream:
        await stream.write(b"GET /hostname HTTP/1.0\r\n\r\n")
        found = b""
        while piece := await stream.read():
            found += piece
        await stream.end()
        return found


async def test_connects_to_a_port(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.start(sandbox, "httpd -p 8080 -h /etc; echo up; sleep 300")

    async def answers() -> bool:
        try:
            return (await fetch(bench, sandbox, 8080)).startswith(b"HTTP/1.")
        except EngineError:
            return False

    await until(answers)
    async with asyncio.TaskGroup() as group:
        fetches = [group.create_task(fetch(bench, sandbox, 8080)) for _ in range(8)]
    assert {task.result()[:5] for task in fetches} == {b"HTTP/"}


@pytest.mark.engine
async def test_connects_to_a_port_on_the_pods_loopback(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    await engine_bench.start(sandbox, "httpd -p 127.0.0.1:8080 -h /etc; sleep 300")

    async def answers() -> bool:
        try:
            return (await fetch(engine_bench, sandbox, 8080)).rstrip().endswith(b"contract")
        except EngineError:
            return False

    await until(answers)
    with pytest.raises(EngineError, match=r"port 8081 of the pod: Connection refused"):
        await fetch(engine_bench, sandbox, 8081)


@pytest.mark.engine
async def test_connects_to_a_port_through_a_container(remote_bench: Bench) -> None:
    """As with an engine in a virtual machine, whose networks are not this machine's."""
    sandbox = await remote_bench.sandbox()
    with pytest.raises(EngineError, match="none is running"):
        await fetch(remote_bench, sandbox, 8080)
    await remote_bench.start(sandbox, "httpd -p 127.0.0.1:8080 -h /etc; sleep 300")
    assert (await fetch(remote_bench, sandbox, 8080)).rstrip().endswith(b"contract")
    with pytest.raises(EngineError, match="failed to connect to port 8081 of the pod: "):
        await fetch(remote_bench, sandbox, 8081)
    with pytest.raises(EngineError, match="failed to enter the network namespace of the pod: "):
        await remote_bench.runtime.pod_socket(sandbox, "127.0.0.1")


@pytest.mark.engine
async def test_the_user_of_the_engine_enters_the_network_of_a_pod(
    engine_bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The helper process runs as the user of a rootless engine, and as root with others."""
    from podtui.runtime.docker import dialing

    sandbox = await engine_bench.sandbox()
    await engine_bench.start(sandbox, "httpd -p 8080 -h /etc; sleep 300")
    status = await engine_bench.runtime.sandbox_status(sandbox)
    assert status.enterable is engine_bench.info.local
    if not status.enterable:
        return
    owner = os.stat(f"/proc/{status.pid}").st_uid
    script, pid = tmp_path / "helper.py", tmp_path / "pid"
    script.write_text(
        f"import os, runpy\n"
        f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        f"helper = runpy.run_path({str(dialing.HELPER)!r})\n"
        f"os.setresgid({owner}, {owner}, {owner})\n"
        f"os.setresuid({owner}, {owner}, {owner})\n"
        f"helper['main']()\n"
    )
    monkeypatch.setattr(dialing, "HELPER", script)

    async def answers() -> bool:
        sock = await engine_bench.runtime.pod_socket(sandbox, status.ips[0])
        with sock:
            try:
                await asyncio.get_running_loop().sock_connect(sock, (status.ips[0], 8080))
            except ConnectionRefusedError:
                return False
            return True

    await until(answers)
    # A helper process that has ended is replaced: before a request, or after one that it got.
    os.kill(int(pid.read_text()), signal.SIGKILL)
    with suppress(EngineError):
        (await engine_bench.runtime.pod_socket(sandbox, status.ips[0])).close()
    assert await answers()


async def test_a_stopped_sandbox_has_no_ports(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.runtime.stop_sandbox(sandbox)
    with pytest.raises(EngineConflict):
        await fetch(bench, sandbox, 80)
    await bench.runtime.remove_sandbox(sandbox)
    with pytest.raises(EngineNotFound):
        await fetch(bench, sandbox, 80)


async def test_files_are_copied_in_and_out(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox(), "echo inside > /tmp/f; exit 0")
    await bench.ended(ident)
    assert (await _read(bench, ident, "/tmp/f")) == {"f": b"inside\n"}
    await bench.runtime.write_files(ident, "/tmp", _archive({"d/g": b"given", "h": b"too"}))
    found = await _read(bench, ident, "/tmp")
    assert found == {"tmp/f": b"inside\n", "tmp/d/g": b"given", "tmp/h": b"too"}
    for path in ("/tmp/none", "/tmp/f/.", "/none/"):
        with pytest.raises(EngineError):
            await _read(bench, ident, path)
    for directory in ("/none", "/tmp/f"):
        with pytest.raises(EngineNotFound):
            await bench.runtime.write_files(ident, directory, _archive({"x": b""}))
    with pytest.raises(EngineNotFound):
        await _read(bench, "f" * 64, "/tmp")


async def _read(bench: Bench, ident: str, path: str) -> dict[str, bytes]:
    async with bench.runtime.read_files(ident, path) as pieces:
        whole = b"".join([piece async for piece in pieces])
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        files = ((one.name, tar.extractfile(one)) for one in tar if one.isfile())
        return {name: content.read() for name, content in files if content is not None}


async def _archive(files: dict[str, bytes]) -> AsyncIterator[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    yield buffer.getvalue()


async def test_sessions_end_with_the_connection(bench: Bench) -> None:
    ident = await bench.start(await bench.sandbox())
    async with asyncio.timeout(120):
        try:
            async with bench.runtime.exec_session(ident, ["cat"], stdin=True) as session:
                await bench.runtime.close()
                async for _ in session.output():
                    pass
                await session.exit_code()
        except EngineError:
            return
    pytest.fail("the session went on without the engine")
