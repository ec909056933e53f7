"""Logs, exec, events and counters, on every runtime."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from runtime_bench import Bench, moment, until

from podtui.errors import EngineError, EngineNotFound, EngineUnavailable, ExecTimeout
from podtui.runtime.protocol import LogOptions


async def test_logs_in_order_with_their_streams(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    script = "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo; echo '  é tail  '; printf end"
    ident = await bench.start(sandbox, script)
    await bench.ended(ident)
    lines = await bench.lines(ident)
    assert [(line.stream, line.content.decode()) for line in lines] == [
        ("stdout", "one"),
        ("stderr", "two"),
        ("stdout", ""),
        ("stdout", "  é tail  "),
        ("stdout", "end"),
    ]
    times = [moment(line.timestamp) for line in lines]
    assert times == sorted(times)


async def test_parts_of_a_log(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "for i in 1 2 3; do echo $i; sleep 0.2; done")
    await bench.ended(ident)
    assert await bench.text(ident, tail=2) == ["2", "3"]
    assert await bench.text(ident, tail=0) == []
    assert await bench.text(ident, tail=99) == ["1", "2", "3"]
    times = [moment(line.timestamp) for line in await bench.lines(ident)]
    # On an engine that writes whole seconds, more lines have the same time.
    later = [text for text, time in zip("123", times, strict=True) if time >= times[1]]
    assert await bench.text(ident, since=times[1]) == later
    assert await bench.text(ident, until=times[0] - timedelta(seconds=5)) == []
    assert await bench.text(ident, until=times[2] + timedelta(seconds=5)) == ["1", "2", "3"]


async def test_a_log_reports_where_older_lines_were_rotated_away(rotating_bench: Bench) -> None:
    bench = rotating_bench
    sandbox = await bench.sandbox()
    short = await bench.start(sandbox, "echo one; echo two")
    await bench.ended(short)
    assert [line.gap for line in await bench.lines(short, gaps=True)] == ["", ""]

    long = await bench.start(sandbox, "seq 6000; seq 6001 12000", name="long")
    await bench.ended(long)
    lines = await bench.lines(long, gaps=True)
    assert lines[0].content != b"1"
    assert lines[-1].content == b"12000"
    assert lines[0].gap.startswith("Older lines ")
    assert not any(line.gap for line in lines[1:])
    early = moment(lines[0].timestamp) - timedelta(seconds=5)
    assert (await bench.lines(long, gaps=True, since=early))[0].gap == lines[0].gap
    late = moment(lines[-1].timestamp) + timedelta(seconds=5)
    assert await bench.lines(long, gaps=True, since=late) == []
    assert [line.gap for line in await bench.lines(long, gaps=True, tail=2)] == ["", ""]
    kept = len(lines)
    assert (await bench.lines(long, gaps=True, tail=kept))[0].gap == ""
    short_tail = await bench.lines(long, gaps=True, tail=kept + 1)
    assert [line.gap for line in short_tail] == [line.gap for line in lines], (
        "fewer lines than requested"
    )


async def test_lines_since_a_time_are_complete_across_rotations(
    rotating_bench: Bench,
) -> None:
    sandbox = await rotating_bench.sandbox()
    script = "for i in 1 2 3 4 5 6; do seq -w ${i}0000 ${i}0090; sleep 0.1; done"
    ident = await rotating_bench.start(sandbox, script)
    await rotating_bench.ended(ident)
    lines = await rotating_bench.lines(ident)
    since = moment(lines[len(lines) // 3].timestamp)
    wanted = [line.content for line in lines if moment(line.timestamp) >= since]
    found = await rotating_bench.lines(ident, since=since, gaps=True)
    assert [line.content for line in found] == wanted
    assert not any(line.gap for line in found)


async def test_a_long_line_may_arrive_in_parts(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    text = "x" * 40_000
    ident = await bench.start(sandbox, f"echo {text}; echo after")
    await bench.ended(ident)
    *pieces, after = await bench.lines(ident)
    assert b"".join(piece.content for piece in pieces).decode() == text
    assert [piece.partial for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert (after.content, after.partial) == (b"after", False)


@pytest.mark.engine
async def test_follow_streams_new_lines_and_ends(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    script = "echo old; while ! test -f /tmp/go; do sleep 0.05; done; echo new; exit 0"
    ident = await engine_bench.start(sandbox, script)
    await engine_bench.shows(ident, "old")
    seen: list[bytes] = []
    async with asyncio.timeout(120):
        async for lines in engine_bench.runtime.logs(ident, LogOptions(follow=True)):
            seen += [line.content for line in lines]
            if seen == [b"old"]:
                await engine_bench.runtime.exec(ident, ["touch", "/tmp/go"], timeout=120)
    assert seen == [b"old", b"new"]


async def test_follow_can_be_cancelled(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "echo only; sleep 300")
    await bench.shows(ident, "only")
    seen: list[bytes] = []

    async def follow() -> None:
        async for lines in bench.runtime.logs(ident, LogOptions(follow=True)):
            seen.extend(line.content for line in lines)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())

        async def came() -> bool:
            return bool(seen)

        await until(came)
        task.cancel()
    assert seen == [b"only"]
    await bench.runtime.ping()


async def test_the_engines_information_can_be_read_again(bench: Bench) -> None:
    assert await bench.runtime.read_info() == bench.info


async def test_logs_of_a_missing_container(bench: Bench) -> None:
    with pytest.raises(EngineNotFound):
        await bench.lines("f" * 64)


@pytest.mark.engine
async def test_exec(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    ident = await engine_bench.start(sandbox, "echo inside > /tmp/f; echo ready; sleep 300")
    await engine_bench.shows(ident, "ready")
    execute = engine_bench.runtime.exec
    result = await execute(ident, ["sh", "-c", "cat /tmp/f; exit 3"], timeout=120)
    assert (result.exit_code, result.output) == (3, b"inside\n")
    both = "echo wrong >&2; echo right; echo again >&2"
    result = await execute(ident, ["sh", "-c", both], timeout=120)
    assert (result.exit_code, result.output) == (0, b"right\nwrong\nagain\n")
    assert result.stderr == b"wrong\nagain\n"
    result = await execute(ident, ["seq", "5000"], timeout=120, limit=64)
    assert result.output == "".join(f"{n}\n" for n in range(1, 5001)).encode()[:64]
    with pytest.raises(ExecTimeout):
        await execute(ident, ["sleep", "30"], timeout=0.3)


async def test_exec_needs_a_running_container(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "true")
    await bench.ended(ident)
    with pytest.raises(EngineError):
        await bench.runtime.exec(ident, ["true"], timeout=120)
    with pytest.raises(EngineNotFound):
        await bench.runtime.exec("f" * 64, ["true"], timeout=120)


async def test_counters_of_running_containers(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    running = await bench.start(sandbox)
    done = await bench.start(sandbox, "true", name="done")
    await bench.ended(done)
    asked = (done, running, "0" * 64)
    ((identity, stats),) = (await bench.runtime.stats(asked)).items()
    assert identity == running
    assert stats.memory > 0
    later = (await bench.runtime.stats(asked))[running]
    assert later.cpu >= stats.cpu >= 0
    assert later.timestamp >= stats.timestamp


async def test_disks_and_networks_are_counted(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    running = await bench.start(sandbox, "head -c 3000000 /dev/zero > /file; sleep 300")

    async def kept() -> bool:
        return (await bench.runtime.layer_sizes()).get(running, 0) > 0

    await until(kept)
    stats = await bench.runtime.stats([running])
    assert [*stats] == ([running] if bench.info.counts_usage else [])
    for counters in stats.values():
        assert (counters.read is None) == (counters.written is None)
        assert min(counters.read or 0, counters.written or 0) >= 0
    network = (await bench.runtime.sandbox_stats([sandbox]))[sandbox]
    assert network.interfaces is not None
    assert "lo" not in {one.name for one in network.interfaces}
    assert all(min(one.received, one.sent) >= 0 for one in network.interfaces)
    await bench.runtime.stop_sandbox(sandbox)
    assert await bench.runtime.sandbox_stats([sandbox]) == {}
    assert await bench.runtime.layer_sizes() == {}


async def test_events_name_the_changed_sandbox(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    async with bench.watching(sandbox) as seen:
        del seen[:]
        ident = await bench.start(sandbox, "true")
        await bench.ended(ident)
        await bench.runtime.remove_container(ident)

        async def complete() -> bool:
            return {"start", "die", "destroy"} <= {event.action for event in seen}

        await until(complete)
        actions = [event.action for event in seen]
        assert actions.index("start") < actions.index("die")
        assert {event.pod_uid for event in seen} == {bench.uid}


async def test_events_end_with_the_connection(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    opened = asyncio.Event()

    async def drain() -> str:
        try:
            async for _ in bench.runtime.events():
                opened.set()
        except EngineUnavailable as error:
            return f"unavailable: {error}"
        return "ended"

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(drain())
        for attempt in range(50):
            await bench.runtime.remove_container(
                await bench.create(sandbox, "true", name="knock", attempt=attempt)
            )
            if opened.is_set():
                break
            await asyncio.sleep(0.05)
        await bench.runtime.close()
    assert task.result().startswith("unavailable")
