"""Containers from creation to removal, on every runtime."""

from __future__ import annotations

import asyncio

import pytest
from runtime_bench import IMAGE, Bench, rooted

from podtui.errors import (
    ContainerStartError,
    EngineConflict,
    EngineNotFound,
)
from podtui.runtime.protocol import ContainerState, Resources


async def test_container_lifecycle(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    labels = {"io.kubernetes.container.name": "app", "any": "label"}
    ident = await bench.create(
        sandbox, "exit 3", attempt=4, labels=labels, annotations={"hash": "1a2b"}
    )
    created = await bench.runtime.container_status(ident)
    assert created.record.state is ContainerState.CREATED
    assert (created.started_at, created.finished_at) == (None, None)
    await bench.runtime.start_container(ident)
    status = await bench.ended(ident)
    assert (status.exit_code, status.reason, status.pid) == (3, "Error", None)
    assert status.started_at is not None
    assert status.finished_at is not None
    assert status.record.created_at <= status.started_at <= status.finished_at
    assert status.image_id == bench.image.id
    (record,) = (await bench.runtime.list(bench.uid)).containers
    assert (record.id, record.sandbox_id, record.pod_uid) == (ident, sandbox, bench.uid)
    assert (record.name, record.attempt, record.image) == ("app", 4, IMAGE)
    assert (record.pod_name, record.pod_namespace) == ("contract", "default")
    assert record.state is ContainerState.EXITED
    assert labels.items() <= record.labels.items()
    assert record.annotations["hash"] == "1a2b"


async def test_reasons_of_running_and_successful_containers(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    running = await bench.runtime.container_status(await bench.start(sandbox))
    assert running.record.state is ContainerState.RUNNING
    assert (running.exit_code, running.reason, running.finished_at) == (0, "", None)
    assert running.pid
    done = await bench.ended(await bench.start(sandbox, "true", name="other"))
    assert (done.exit_code, done.reason) == (0, "Completed")


async def test_a_missing_command(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.create(sandbox, ["/nosuch"])
    with pytest.raises(ContainerStartError, match="nosuch"):
        await bench.runtime.start_container(ident)
    status = await bench.runtime.container_status(ident)
    assert status.record.state is ContainerState.EXITED
    assert (status.reason, status.exit_code) == ("StartError", 128)
    assert status.started_at is None
    assert status.finished_at is not None
    assert "nosuch" in status.message


async def test_creation_needs_sandbox_image_and_unused_name(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.create(sandbox, "true")
    with pytest.raises(EngineConflict):
        await bench.create(sandbox, "true")
    with pytest.raises(EngineNotFound):
        await bench.create(sandbox, "true", name="b", image_id="sha256:" + "0" * 64)
    with pytest.raises(EngineNotFound):
        await bench.create("f" * 64, "true", name="c")
    assert [c.name for c in (await bench.runtime.list()).containers] == ["app"]


async def test_every_attempt_is_a_separate_container(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    for attempt in range(2):
        code, lines = await bench.run(sandbox, f"echo try {attempt}; exit 1", attempt=attempt)
        assert (code, lines) == (1, [f"try {attempt}"])
    records = (await bench.runtime.list(bench.uid)).containers
    newest, oldest = sorted(records, key=lambda c: (c.attempt, c.created_at), reverse=True)
    assert (newest.attempt, oldest.attempt) == (1, 0)
    assert oldest.created_at <= newest.created_at
    assert newest.id != oldest.id


@pytest.mark.engine
async def test_arguments_and_environment(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    code, lines = await engine_bench.run(
        sandbox,
        ["sh", "-c"],
        args=('echo "$WORD" "$EMPTY" "${LATE}"; pwd; exit 7',),
        env=(("WORD", "two words"), ("EMPTY", ""), ("LATE", "a"), ("LATE", "b=c")),
        working_dir="/tmp",
    )
    assert (code, lines) == (7, ["two words  b=c", "/tmp"])


@pytest.mark.engine
async def test_the_command_of_the_image_runs(engine_bench: Bench) -> None:
    """The sample image's own command is ``sh``, which ends at once; simulated ones have none."""
    bench = engine_bench
    sandbox = await bench.sandbox()
    assert await bench.run(sandbox, (), command=None) == (0, [])
    arguments = {"command": None, "args": ("echo", "from", "args"), "name": "args"}
    assert await bench.run(sandbox, (), **arguments) == (0, ["from args"])
    dropped = {"command": ("echo",), "args": None, "name": "dropped"}
    assert await bench.run(sandbox, (), **dropped) == (0, [""])


async def test_containers_of_other_roots_use_their_images(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.start(sandbox)
    ours = {one.name for one in await bench.runtime.list_other_containers()}
    other = await bench.open(rooted())
    found = [one for one in await other.list_other_containers() if one.name not in ours]
    assert bench.image.id in {one.image_id for one in found}


@pytest.mark.engine
@pytest.mark.parametrize("grace", [25.0, float(2**63 - 1)])
async def test_a_stop_within_the_grace_period(engine_bench: Bench, grace: float) -> None:
    sandbox = await engine_bench.sandbox()
    script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 1 & wait $!; done"
    ident = await engine_bench.start(sandbox, script)
    await engine_bench.shows(ident, "ready")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await engine_bench.runtime.stop_container(ident, grace)
    status = await engine_bench.runtime.container_status(ident)
    assert loop.time() - started < 20
    assert (status.record.state, status.exit_code) == (ContainerState.EXITED, 5)
    assert (await engine_bench.text(ident))[-1] == "bye"
    await engine_bench.runtime.stop_container(ident, grace)


async def test_a_stop_after_the_grace_period_kills(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "trap '' TERM; echo ready; while :; do sleep 1; done")
    await bench.shows(ident, "ready")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await bench.runtime.stop_container(ident, 1)
    assert loop.time() - started >= 0.9
    status = await bench.runtime.container_status(ident)
    assert (status.record.state, status.exit_code) == (ContainerState.EXITED, 137)
    assert status.reason == "Error"


async def test_a_cancelled_stop_leaves_it_running_or_stopped(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "trap '' TERM; echo ready; while :; do sleep 1; done")
    await bench.shows(ident, "ready")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await bench.runtime.stop_container(ident, 30)
    status = await bench.runtime.container_status(ident)
    assert status.record.state is ContainerState.RUNNING
    await bench.runtime.stop_container(ident, 0)
    assert (await bench.runtime.container_status(ident)).exit_code == 137


async def test_removal_of_a_running_container(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, "trap '' TERM; sleep 300")
    for _ in range(2):
        await bench.runtime.remove_container(ident)
    with pytest.raises(EngineNotFound):
        await bench.runtime.container_status(ident)
    assert (await bench.runtime.list()).containers == ()
    code, _ = await bench.run(sandbox, "true")
    assert code == 0


async def test_termination_messages(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    place = {"termination_message_path": "/dev/termination-log"}
    message = bench.runtime.termination_message
    first = await bench.start(sandbox, "echo 0123456789 > /dev/termination-log; exit 1", **place)
    await bench.ended(first)
    assert await message(first, 4096) == b"0123456789\n"
    assert await message(first, 4) == b"789\n"
    fresh = await bench.start(sandbox, "cat /dev/termination-log; exit 1", attempt=1, **place)
    await bench.ended(fresh)
    assert await message(fresh, 4096) == b""
    assert await bench.text(fresh) == []
    without = await bench.start(sandbox, "true", attempt=2)
    await bench.ended(without)
    assert await message(without, 4096) == b""


async def test_out_of_memory(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(
        sandbox,
        "echo filling; tail /dev/zero; sleep 1; exit 137",
        resources=Resources(memory=16 << 20),
    )
    status = await bench.ended(ident)
    assert (status.exit_code, status.reason) == (137, "OOMKilled")
