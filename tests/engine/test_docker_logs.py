"""Logs with rotation on the real engine."""

from __future__ import annotations

import gzip
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from leftovers import leftovers
from runtime_bench import Bench

from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime, LogLimits
from podtui.runtime.protocol import LogOptions

LINES = 3000
WRITE = (
    f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1));"
    " [ $((i % 100)) = 0 ] && sleep 0.02; done"
)


@pytest.fixture
async def short_bench(engine_url: str, raw: Any) -> AsyncIterator[Bench]:
    """A driver that keeps little of each log: about 500 lines per file."""
    limits = LogLimits(size=40_000, files=5)
    bench = Bench(
        lambda root: DockerRuntime(engine_url, root=root, clock=SystemClock(), log_limits=limits)
    )
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()
        assert leftovers(raw, bench.root) == []


@pytest.mark.parametrize("tty", [False, True], ids=["streams", "terminal"])
async def test_follow_neither_loses_nor_repeats_lines_across_rotations(
    short_bench: Bench, tty: bool
) -> None:
    sandbox = await short_bench.sandbox()
    container = await short_bench.start(sandbox, WRITE, tty=tty)
    lines = [
        int(line.content)
        async for lines in short_bench.runtime.logs(container, LogOptions(follow=True))
        for line in lines
    ]
    assert lines == list(range(LINES))


async def test_follow_from_the_end_skips_older_lines(short_bench: Bench) -> None:
    sandbox = await short_bench.sandbox()
    script = f"echo old; echo older; echo ready; read go; {WRITE}"
    container = await short_bench.start(
        sandbox, f"mkfifo /go; ({script}) < /go & exec 3> /go; sleep 300"
    )
    await short_bench.shows(container, "ready")
    seen: list[bytes] = []
    async for lines in short_bench.runtime.logs(container, LogOptions(follow=True, tail=1)):
        seen += [line.content for line in lines]
        if seen == [b"ready"]:
            await short_bench.runtime.exec(container, ["sh", "-c", "echo > /go"], timeout=120)
        if seen[-1] == str(LINES - 1).encode():
            break
    assert seen == [b"ready", *(str(n).encode() for n in range(LINES))]


@pytest.mark.skipif(os.geteuid() != 0, reason="the engine's files are not readable here")
async def test_a_long_log_is_rotated_and_old_files_are_compressed(short_bench: Bench) -> None:
    sandbox = await short_bench.sandbox()
    container = await short_bench.start(sandbox, WRITE)
    status = await short_bench.ended(container)
    kept = sorted(Path(status.log_path).parent.glob("*-json.log*"))
    assert [path.name.removeprefix(container) for path in kept] == [
        "-json.log",
        *(f"-json.log.{number}.gz" for number in range(1, 5)),
    ]
    for path in kept[1:]:
        assert b'"log":' in gzip.decompress(path.read_bytes())
    text = await short_bench.text(container)
    assert text[-1] == str(LINES - 1)
    assert text == [str(number) for number in range(LINES - len(text), LINES)]
