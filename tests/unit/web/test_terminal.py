"""Programs on separate terminals: their input, and the end of all their processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from terminal_programs import owning

from podtui.web import terminal as module
from podtui.web.run import child_words
from podtui.web.terminal import Terminal, terminal_environment

CHILD = child_words([])
ENVIRONMENT = {"PATH": os.environ["PATH"], "TERM": "xterm"}


@asynccontextmanager
async def started(*words: str, columns: int = 80, rows: int = 24) -> AsyncIterator[Terminal]:
    terminal = await Terminal.start(
        owning(*words), columns=columns, rows=rows, environment=ENVIRONMENT
    )
    try:
        yield terminal
    finally:
        await terminal.end()


async def shown(terminal: Terminal, word: bytes) -> bytes:
    """Return the output up to ``word``."""
    seen = b""
    async with asyncio.timeout(120):
        while word not in seen:
            data = await terminal.read()
            assert data, f"ended before {word!r}: {seen!r}"
            seen += data
    return seen


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pid: int) -> None:
    """Wait until a process that was killed, and that is not ours to wait for, has ended."""
    async with asyncio.timeout(120):
        while alive(pid):  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.01)


async def test_a_program_has_a_terminal_of_the_requested_size() -> None:
    async with started("sh", "-c", "stty size; read x; stty size", columns=100, rows=30) as one:
        assert b"30 100" in await shown(one, b"100")
        one.resize(132, 43)
        await one.write(b"\n")
        assert b"43 132" in await shown(one, b"132")
        async with asyncio.timeout(120):
            while await one.read():
                pass
            assert await one.wait() == 0


async def test_large_input_arrives_complete() -> None:
    text = b"0123456789abcde\n" * 4096
    async with started("sh", "-c", "stty -echo raw; echo go; head -c 65536 | sha256sum") as one:
        await shown(one, b"go")
        await one.write(text)
        seen = await shown(one, b" -")
    assert hashlib.sha256(text).hexdigest().encode() in seen


async def test_a_program_that_does_not_read_does_not_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.2)
    async with started("sh", "-c", "stty raw -echo; echo go; sleep 60") as one:
        await shown(one, b"go")
        with pytest.raises(TimeoutError):
            await one.write(b"x" * 1_000_000)


async def test_closing_sends_a_hang_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANG_UP_SECONDS", 3600.0)
    async with started("sleep", "60") as one:
        pid = one.pid
        assert alive(pid)
    assert not alive(pid)


async def test_a_session_that_ignores_a_hang_up_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HANG_UP_SECONDS", 0.2)
    script = "trap '' HUP; sleep 61 & echo child=$!.; sleep 60; sleep 60"
    async with started("sh", "-c", script) as one:
        seen = await shown(one, b".")
        child = int(seen.split(b"child=")[1].split(b".")[0])
        assert alive(child)
    assert not alive(one.pid)
    await gone(child)


async def test_processes_in_their_own_session_are_not_killed() -> None:
    """Such as the agent, which `podtui` starts and leaves running."""
    script = "setsid sh -c 'echo own=$$.; exec sleep 60' & sleep 60"
    async with started("sh", "-c", script) as one:
        own = int((await shown(one, b".")).split(b"own=")[1].split(b".")[0])
    try:
        assert alive(own)
    finally:
        os.kill(own, signal.SIGKILL)


async def test_closing_returns_the_status_and_is_idempotent() -> None:
    async with started("sh", "-c", "exit 7") as one:
        assert await one.wait() == 7
        assert await one.end() == 7
        assert await one.end() == 7


async def test_a_missing_program_is_an_error_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="nothing-of-this-name"):
        await Terminal.start(["/nothing-of-this-name"], columns=1, rows=1, environment={})
    assert len(os.listdir("/proc/self/fd")) == before


async def test_the_child_is_podtui() -> None:
    one = await Terminal.start([*CHILD, "--version"], columns=80, rows=24, environment=ENVIRONMENT)
    try:
        assert b"podtui " in await shown(one, b"\n")
        async with asyncio.timeout(120):
            assert await one.wait() == 0
    finally:
        await one.end()


async def test_the_child_runs_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("argparse", "termios", "yaml", "podtui"):
        (tmp_path / f"{name}.py").write_text("print('run', __name__, flush=True); raise SystemExit")
    monkeypatch.chdir(tmp_path)
    one = await Terminal.start([*CHILD, "--version"], columns=80, rows=24, environment=ENVIRONMENT)
    try:
        assert (await shown(one, b"\n")).startswith(b"podtui ")
    finally:
        await one.end()


async def test_the_child_owns_its_terminal() -> None:
    """Only its own terminal sends hang-ups, sizes and interrupts."""
    script = (
        "import os; from podtui.web import child;"
        " os.execv = lambda *_: print('own', os.tcgetpgrp(0) == os.getpid()); child.main()"
    )
    words = [sys.executable, "-c", script]
    one = await Terminal.start(words, columns=80, rows=24, environment=ENVIRONMENT)
    try:
        assert b"own True" in await shown(one, b"\n")
    finally:
        await one.end()


def test_the_terminal_environment_is_that_of_the_page() -> None:
    found = terminal_environment(
        {"TERM": "screen", "TMUX": "/tmp/x", "COLUMNS": "10", "PAGER": "most", "EDITOR": "nano"},
        readonly=False,
    )
    assert found == {
        "TERM": "xterm-256color", "COLORTERM": "truecolor", "TERM_PROGRAM": "podtui-web",
        "PAGER": "most", "EDITOR": "nano",
    }  # fmt: skip


def test_a_read_only_session_gets_a_restricted_pager() -> None:
    found = terminal_environment({"PAGER": "vim", "LESSOPEN": "|x"}, readonly=True)
    assert found["PAGER"] == "less"
    assert found["LESSSECURE"] == "1"
