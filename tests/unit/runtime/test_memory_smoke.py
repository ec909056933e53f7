"""The simulated engine in virtual time: the behaviour that kubelet tests rely on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from virtual_time import VirtualClock, VirtualLoop

from podtui.errors import EngineError, EngineUnavailable, ExecTimeout, ImagePullError
from podtui.runtime.memory import Behaviour, MemoryRuntime, OutputLine, simulated_runtime
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerState,
    LogOptions,
    Mount,
    PodVolume,
    Runtime,
    RuntimeEvent,
    SandboxConfig,
    SandboxState,
)

pytestmark = pytest.mark.virtual_time


def sandbox(uid: str = "u1", attempt: int = 0) -> SandboxConfig:
    return SandboxConfig(name="web", namespace="default", uid=uid, attempt=attempt)


def container(image_id: str, name: str = "app", attempt: int = 0, uid: str = "u1", **more: object):
    return ContainerConfig(
        name=name,
        attempt=attempt,
        image="busybox:1.36",
        image_id=image_id,
        pod_name="web",
        pod_namespace="default",
        pod_uid=uid,
        **more,  # type: ignore[arg-type]
    )


async def start(runtime: MemoryRuntime, **more: object) -> str:
    image = await runtime.pull_image("busybox:1.36")
    snapshot = await runtime.list("u1")
    made = snapshot.sandboxes[0].id if snapshot.sandboxes else None
    pod = made or (await runtime.run_sandbox(sandbox())).id
    created = await runtime.create_container(pod, container(image.id, **more))
    return (await runtime.start_container(created.id)).id


async def test_is_a_runtime(virtual_clock: VirtualClock) -> None:
    runtime: Runtime = MemoryRuntime(clock=virtual_clock)
    info = await runtime.connect()
    assert (info.name, info.version) == ("memory", "SIMULATED")


async def test_exits_at_its_declared_time(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(
        clock=virtual_clock, behave=lambda _: Behaviour(exit_after=30, exit_code=3)
    )
    ident = await start(runtime)
    await virtual_clock.sleep(29.9)
    assert (await runtime.container_status(ident)).record.state is ContainerState.RUNNING
    await virtual_clock.sleep(0.2)
    status = await runtime.container_status(ident)
    assert (status.exit_code, status.reason) == (3, "Error")
    assert status.started_at is not None
    assert status.finished_at is not None
    assert (status.finished_at - status.started_at).total_seconds() == pytest.approx(30)


async def test_a_stop_terminates_or_kills(virtual_clock: VirtualClock) -> None:
    kinds = {
        "obeys": Behaviour(),
        "lingers": Behaviour(term_after=4, term_code=5),
        "ignores": Behaviour(ignores_term=True),
    }
    runtime = MemoryRuntime(clock=virtual_clock, behave=lambda config: kinds[config.name])
    ends = {}
    for name in kinds:
        ident = await start(runtime, name=name)
        before = virtual_clock.monotonic()
        await runtime.stop_container(ident, 10)
        status = await runtime.container_status(ident)
        ends[name] = (status.exit_code, round(virtual_clock.monotonic() - before, 3))
    assert ends == {"obeys": (0, 0), "lingers": (5, 4), "ignores": (137, 10)}


async def test_out_of_memory_is_simulated(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock, behave=lambda _: Behaviour(exit_after=1, oom=True))
    events = runtime.events()
    first = asyncio.timeout(120)
    async with first:
        seen: list[str] = []
        pending = anext(events)
        ident = ""

        async def act() -> None:
            nonlocal ident
            ident = await start(runtime)

        async with asyncio.TaskGroup() as group:
            group.create_task(act())
            seen.append((await pending).action)
        while seen[-1] != "die":
            seen.append((await anext(events)).action)
    await events.aclose()
    assert seen == ["create", "start", "create", "start", "oom", "die"]
    status = await runtime.container_status(ident)
    assert (status.reason, status.exit_code) == ("OOMKilled", 137)


async def test_logs_are_generated_on_read(virtual_clock: VirtualClock) -> None:
    behaviour = Behaviour(lines=("up",), loop=("round {n}",), period=2)
    runtime = MemoryRuntime(clock=virtual_clock, behave=lambda _: behaviour)
    ident = await start(runtime)
    await virtual_clock.sleep(5)
    lines = [line async for batch in runtime.logs(ident, LogOptions()) for line in batch]
    assert [line.content for line in lines] == [b"up", b"round 1", b"round 2"]
    assert lines[1].timestamp == "2026-01-01T00:00:02.000000000Z"
    tail = [batch async for batch in runtime.logs(ident, LogOptions(tail=1))]
    assert [[line.content for line in batch] for batch in tail] == [[b"round 2"]]


async def test_follow_ends_with_the_container(virtual_clock: VirtualClock) -> None:
    behaviour = Behaviour(lines=("up",), loop=("round {n}",), period=2, exit_after=7)
    runtime = MemoryRuntime(clock=virtual_clock, behave=lambda _: behaviour)
    ident = await start(runtime)
    seen = [
        (line.content, virtual_clock.monotonic())
        async for batch in runtime.logs(ident, LogOptions(follow=True))
        for line in batch
    ]
    assert seen == [(b"up", 0), (b"round 1", 2), (b"round 2", 4), (b"round 3", 6)]
    assert virtual_clock.monotonic() == 7


async def test_declared_faults_occur(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    runtime.faults.fail("list", EngineError("no"), times=2)
    for _ in range(2):
        with pytest.raises(EngineError, match="no"):
            await runtime.list()
    assert await runtime.list()
    assert runtime.faults.calls["list"] == 3


async def test_an_engine_that_becomes_unavailable(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    ident = await start(runtime)
    events = runtime.events()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_drain(events))
        await virtual_clock.sleep(1)
        runtime.stop_engine(containers_die=True)
    assert "Cannot connect" in task.result()
    with pytest.raises(EngineUnavailable):
        await runtime.ping()
    runtime.start_engine()
    await runtime.connect()
    status = await runtime.container_status(ident)
    assert (status.exit_code, status.reason) == (137, "Error")
    assert (await runtime.list()).sandboxes[0].state is SandboxState.NOT_READY


async def _drain(events) -> str:
    seen: list[RuntimeEvent] = []
    try:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - the error below ends it
    except EngineUnavailable as error:
        return str(error)
    return "ended without an error"


async def test_a_failed_pull(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    with pytest.raises(ImagePullError, match="manifest unknown"):
        await runtime.pull_image("podtui-sample/nosuch:1")


async def test_an_exec_that_times_out(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(
        clock=virtual_clock, exec_behave=lambda _, command: Behaviour(lines=command)
    )
    ident = await start(runtime)
    with pytest.raises(ExecTimeout, match="timed out after 3s"):
        await runtime.exec(ident, ["probe"], timeout=3)
    assert virtual_clock.monotonic() == 3


async def test_a_thousand_pods_need_no_timers(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    image = await runtime.pull_image("busybox:1.36")
    for number in range(1000):
        uid = f"u{number}"
        pod = await runtime.run_sandbox(sandbox(uid))
        made = await runtime.create_container(pod.id, container(image.id, uid=uid))
        await runtime.start_container(made.id)
    snapshot = await runtime.list()
    assert len(snapshot.containers) == 1000
    assert len({(await runtime.sandbox_status(s.id)).ips for s in snapshot.sandboxes}) == 1000
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    assert not loop.pending_timers()


async def test_prints_the_command_that_it_would_run(virtual_clock: VirtualClock) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    ident = await start(runtime, command=("sh", "-c", "while :; do\n  echo 'a b'; done"))
    await virtual_clock.sleep(3600)
    batches = runtime.logs(ident, LogOptions())
    lines = [line.content.decode() async for batch in batches for line in batch]
    assert lines == ["""simulated: busybox:1.36 sh -c 'while :; do echo '"'"'a b'"'"'; done'"""]
    result = await runtime.exec(ident, ["pg_isready", "-q"], timeout=1)
    assert (result.exit_code, result.output) == (0, b"simulated: pg_isready -q\n")
    assert (await runtime.exec(ident, ["tar", "cf", "-"], timeout=1)).exit_code == 127
    await runtime.stop_container(ident, 10)
    assert (await runtime.container_status(ident)).exit_code == 0


async def test_declared_lines_streams_and_files_are_written(
    virtual_clock: VirtualClock,
) -> None:
    behaviour = Behaviour(
        lines=("up",),
        loop=(OutputLine("{n}", "stderr"),),
        exit_after=2.5,
        files={"/tmp/f": b"given"},
    )
    runtime = MemoryRuntime(clock=virtual_clock, behave=lambda _: behaviour)
    ident = await start(runtime)
    await virtual_clock.sleep(10)
    batches = runtime.logs(ident, LogOptions())
    lines = [(line.stream, line.content) async for batch in batches for line in batch]
    assert lines == [("stdout", b"up"), ("stderr", b"1"), ("stderr", b"2")]
    async with runtime.read_files(ident, "/tmp/f") as pieces:
        assert b"given" in b"".join([piece async for piece in pieces])


async def test_volumes_survive_sandboxes_but_not_the_pod(virtual_clock: VirtualClock) -> None:
    mounts = (Mount(container_path="/data", volume="data"),)
    runtime = MemoryRuntime(
        clock=virtual_clock, behave=lambda _: Behaviour(exit_after=0.0, files={"/data/f": b"kept"})
    )
    volumes = (PodVolume(name="data"),)
    first = (await runtime.run_sandbox(replace(sandbox(), volumes=volumes))).id
    await start(runtime, mounts=mounts)
    await runtime.remove_sandbox(first)
    second = (await runtime.run_sandbox(replace(sandbox(attempt=1), volumes=volumes))).id
    assert await runtime.read_volume(second, "data", "f", 10) == b"kept"
    await runtime.remove_sandbox(second)
    await runtime.remove_pod_data("u1")
    assert await runtime.pod_data() == ()


async def test_its_options_set_the_machine_and_whether_containers_complete(
    virtual_clock: VirtualClock,
) -> None:
    options = {"cpu": "64", "memory": "1Ti", "user": "65532", "completion": "true"}
    runtime = simulated_runtime("root", virtual_clock, options)
    info = await runtime.connect()
    assert (info.cpus, info.memory) == (64, 1 << 40)
    assert (await runtime.pull_image("busybox:1.36")).user == "65532"
    ends = await start(runtime, name="setup", command=("sleep", "60"), completes=True)
    runs = await start(runtime, name="app", command=("/server",))
    await virtual_clock.sleep(1)
    status = await runtime.container_status(ends)
    assert (status.record.state, status.exit_code) == (ContainerState.EXITED, 0)
    assert (await runtime.container_status(runs)).record.state is ContainerState.RUNNING


async def test_without_options_a_container_runs_although_its_pod_waits_for_its_end(
    virtual_clock: VirtualClock,
) -> None:
    runtime = simulated_runtime("root", virtual_clock, {})
    info = await runtime.connect()
    assert (info.cpus, info.memory) == (8, 32 << 30)
    runs = await start(runtime, command=("/migrate",), completes=True)
    await virtual_clock.sleep(1)
    assert (await runtime.container_status(runs)).record.state is ContainerState.RUNNING
