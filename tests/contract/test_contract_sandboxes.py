"""Sandboxes and pod volumes, on every runtime."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from runtime_bench import Bench, now, rooted, until

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.protocol import (
    ContainerState,
    DnsConfig,
    Mount,
    NamespaceMode,
    PodVolume,
    PortMapping,
    SandboxState,
    VolumeFile,
)

DATA = (Mount(container_path="/data", volume="data"),)


async def test_connect_returns_the_engines_version(bench: Bench) -> None:
    again = await bench.runtime.connect()
    await bench.runtime.ping()
    assert again.name == bench.info.name
    assert again.name in ("docker", "podman", "memory")
    assert again.cpus > 0
    assert again.memory > 0
    assert again.version
    assert again.os == "linux"


async def test_a_sandbox_is_listed_with_its_configuration(bench: Bench) -> None:
    before = now()
    labels = {"app": "web", "io.kubernetes.pod.name": "contract"}
    ident = await bench.sandbox(2, labels=labels, annotations={"note": 'any "text", really'})
    (record,) = (await bench.runtime.list()).sandboxes
    assert record.id == ident
    assert (record.name, record.namespace, record.uid) == ("contract", "default", bench.uid)
    assert (record.attempt, record.state) == (2, SandboxState.READY)
    assert labels.items() <= record.labels.items()
    assert record.annotations["note"] == 'any "text", really'
    assert before - timedelta(seconds=2) <= record.created_at <= now() + timedelta(seconds=2)
    status = await bench.runtime.sandbox_status(ident)
    assert status.record.id == ident
    assert status.record.state is SandboxState.READY
    assert len(status.ips) >= 1
    assert not status.host_network


async def test_sandboxes_of_other_roots_are_listed_as_foreign(bench: Bench) -> None:
    ident = await bench.sandbox(1, annotations={"note": "mine"})
    other = await bench.open(rooted())
    assert ident not in {one.record.id for one in await bench.runtime.list_foreign()}
    (found,) = [one for one in await other.list_foreign() if one.record.id == ident]
    assert found.root_dir == bench.root
    assert (found.record.name, found.record.uid) == ("contract", bench.uid)
    assert found.record.annotations["note"] == "mine"


async def test_a_sandbox_on_the_host_network_has_no_address(bench: Bench) -> None:
    ident = await bench.sandbox(network=NamespaceMode.NODE, hostname="")
    status = await bench.runtime.sandbox_status(ident)
    assert (status.ips, status.host_network) == ((), True)


@pytest.mark.engine
async def test_containers_of_a_pod_on_the_host_network(engine_bench: Bench) -> None:
    dns = DnsConfig(servers=("192.0.2.53",), searches=("a.example",), options=("ndots:3",))
    show = "readlink /proc/self/ns/net; cat /etc/resolv.conf"
    sandbox = await engine_bench.sandbox(network=NamespaceMode.NODE, hostname="", dns=dns)
    other = await engine_bench.sandbox(1, network=NamespaceMode.NODE, hostname="")
    code, lines = await engine_bench.run(sandbox, show)
    assert code == 0
    assert {"nameserver 192.0.2.53", "search a.example", "options ndots:3"} <= set(lines)
    _, neighbour = await engine_bench.run(other, show, name="other", attempt=1)
    assert neighbour[0] == lines[0]
    # A new agent learns the DNS options from the engine.
    new = await engine_bench.open(engine_bench.root)
    config = engine_bench.container_config(show, name="new")
    created = await new.create_container(sandbox, config)
    await new.start_container(created.id)
    assert (await engine_bench.ended(created.id)).exit_code == 0
    assert await engine_bench.text(created.id) == lines


async def test_stopping_a_sandbox_stops_its_containers(bench: Bench) -> None:
    ident = await bench.sandbox()
    container = await bench.start(ident, "trap '' TERM; sleep 300")
    for _ in range(2):
        await bench.runtime.stop_sandbox(ident)
    status = await bench.runtime.sandbox_status(ident)
    assert (status.record.state, status.ips) == (SandboxState.NOT_READY, ())
    assert (await bench.ended(container)).record.sandbox_id == ident
    (record,) = (await bench.runtime.list(bench.uid)).sandboxes
    assert record.state is SandboxState.NOT_READY


async def test_removing_a_sandbox_removes_its_containers(bench: Bench) -> None:
    ident = await bench.sandbox()
    container = await bench.start(ident)
    for _ in range(2):
        await bench.runtime.remove_sandbox(ident)
    snapshot = await bench.runtime.list()
    assert (snapshot.sandboxes, snapshot.containers) == ((), ())
    with pytest.raises(EngineNotFound):
        await bench.runtime.sandbox_status(ident)
    with pytest.raises(EngineNotFound):
        await bench.runtime.container_status(container)


async def test_stopping_a_missing_sandbox_succeeds(bench: Bench) -> None:
    missing = "f" * 64
    await bench.runtime.stop_sandbox(missing)
    await bench.runtime.remove_sandbox(missing)
    await bench.runtime.stop_container(missing, 1)
    await bench.runtime.remove_container(missing)
    await bench.runtime.remove_pod_data("00000000-no-such-pod")
    with pytest.raises(EngineNotFound):
        await bench.runtime.sandbox_status(missing)


async def test_a_pod_may_have_sandboxes_of_several_attempts(bench: Bench) -> None:
    first = await bench.sandbox(0)
    await bench.runtime.stop_sandbox(first)
    second = await bench.sandbox(1)
    sandboxes = (await bench.runtime.list(bench.uid)).sandboxes
    newest, oldest = sorted(sandboxes, key=lambda s: (s.attempt, s.created_at), reverse=True)
    assert (newest.id, newest.state) == (second, SandboxState.READY)
    assert (oldest.id, oldest.state) == (first, SandboxState.NOT_READY)
    assert oldest.created_at <= newest.created_at
    assert (await bench.runtime.list("another-pod")).sandboxes == ()


@pytest.mark.engine
async def test_volumes_survive_sandboxes_but_not_the_pod(engine_bench: Bench) -> None:
    volumes = (PodVolume(name="data"),)
    first = await engine_bench.sandbox(0, volumes=volumes)
    code, _ = await engine_bench.run(first, "echo kept > /data/file", mounts=DATA)
    assert code == 0
    await engine_bench.runtime.remove_sandbox(first)
    second = await engine_bench.sandbox(1, volumes=volumes)
    assert await engine_bench.run(second, "cat /data/file", mounts=DATA) == (0, ["kept"])
    await engine_bench.runtime.remove_sandbox(second)
    assert engine_bench.uid in await engine_bench.runtime.pod_data()
    await engine_bench.runtime.remove_pod_data(engine_bench.uid)
    assert engine_bench.uid not in await engine_bench.runtime.pod_data()
    third = await engine_bench.sandbox(2, volumes=volumes)
    code, _ = await engine_bench.run(third, "cat /data/file", mounts=DATA)
    assert code == 1


@pytest.mark.engine
async def test_volumes_have_initial_files_and_are_shared(engine_bench: Bench) -> None:
    files = (
        VolumeFile(path="real/labels", content=b"app=web\n"),
        VolumeFile(path="labels", target="real/labels"),
        VolumeFile(path="empty"),
    )
    volumes = (PodVolume(name="data", files=files), PodVolume(name="fast", memory=True))
    sandbox = await engine_bench.sandbox(volumes=volumes)
    mounts = (
        *DATA,
        Mount(container_path="/frozen", volume="data", read_only=True),
        Mount(container_path="/below", volume="data", sub_path="sub/dir"),
        Mount(container_path="/fast", volume="fast"),
    )
    script = (
        "cat /data/labels /frozen/real/labels; test -f /data/empty && echo empty;"
        "echo up > /below/file; cat /data/sub/dir/file;"
        "echo quick > /fast/file; cat /fast/file;"
        "echo no > /frozen/file || echo refused"
    )
    container = await engine_bench.start(sandbox, script, mounts=mounts)
    assert (await engine_bench.ended(container)).exit_code == 0
    messages = [
        line.content.decode()
        for line in await engine_bench.lines(container)
        if line.stream == "stdout"
    ]
    assert messages == ["app=web", "app=web", "empty", "up", "quick", "refused"]
    other = await engine_bench.run(sandbox, "cat /data/sub/dir/file", name="other", mounts=DATA)
    assert other == (0, ["up"])


async def test_a_sandbox_that_cannot_start_leaves_nothing(bench: Bench) -> None:
    ports = (PortMapping(container_port=80, host_port=39017),)
    first = await bench.sandbox(0, ports=ports)
    with pytest.raises(EngineError, match=r"39017|in use|allocated"):
        await bench.sandbox(1, ports=ports)
    assert [s.id for s in (await bench.runtime.list()).sandboxes] == [first]
    await bench.runtime.remove_sandbox(first)
    second = await bench.sandbox(1, ports=ports)
    assert [s.id for s in (await bench.runtime.list()).sandboxes] == [second]


async def test_two_root_directories_are_isolated(bench: Bench) -> None:
    other = await bench.open(rooted())
    sandbox = await bench.sandbox()
    await bench.start(sandbox)
    snapshot = await other.list()
    assert (snapshot.sandboxes, snapshot.containers) == ((), ())
    await other.run_sandbox(bench.sandbox_config(0, uid=f"{bench.uid}-other"))
    assert [s.uid for s in (await bench.runtime.list()).sandboxes] == [bench.uid]
    assert [s.uid for s in (await other.list()).sandboxes] == [f"{bench.uid}-other"]


@pytest.mark.engine
async def test_a_later_runtime_adopts_the_root_directory(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox(volumes=(PodVolume(name="data"),))
    container = await engine_bench.start(sandbox, "echo here > /data/f; sleep 300", mounts=DATA)
    await engine_bench.runtime.close()
    await engine_bench.runtime.close()
    engine_bench.runtime = await engine_bench.open(engine_bench.root)
    snapshot = await engine_bench.runtime.list(engine_bench.uid)
    assert [s.id for s in snapshot.sandboxes] == [sandbox]
    assert [(c.id, c.state) for c in snapshot.containers] == [(container, ContainerState.RUNNING)]
    again = await engine_bench.run(sandbox, "cat /data/f", name="late", mounts=DATA)
    assert again == (0, ["here"])
    await engine_bench.runtime.stop_container(container, 0)
    assert (await engine_bench.ended(container)).exit_code == 137


@pytest.mark.parametrize("after", [0.0, 0.02, 0.2])
async def test_a_cancelled_start_is_complete_or_undone(bench: Bench, after: float) -> None:
    async def begin() -> None:
        await bench.sandbox(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(begin())
        await asyncio.sleep(after)
        task.cancel()

    async def settled() -> bool:
        states = [s.state for s in (await bench.runtime.list()).sandboxes]
        return states in ([], [SandboxState.READY])

    assert await until(settled)
    for record in (await bench.runtime.list()).sandboxes:
        await bench.runtime.remove_sandbox(record.id)
    later = await bench.sandbox(1)
    assert [s.id for s in (await bench.runtime.list()).sandboxes] == [later]
