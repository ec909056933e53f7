"""Limits and users of containers, and their updates, on every runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runtime_bench import Bench

from podtui.errors import (
    ContainerCreateError,
    ContainerStartError,
    EngineError,
    EngineNotFound,
)
from podtui.runtime.protocol import (
    NO_USER_NAMESPACES,
    ContainerState,
    Mount,
    PodVolume,
    Resources,
    SecurityContext,
    no_runtime,
)

MIB = 1 << 20
HELD = Resources(
    cpu_shares=512,
    cpu_quota=50_000,
    cpu_period=100_000,
    memory=64 * MIB,
    oom_score_adj=300,
    pids=200,
)


async def test_statuses_report_the_limits_of_a_container(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, resources=HELD)
    assert (await bench.runtime.container_status(ident)).resources == HELD
    free = await bench.start(sandbox, name="free")
    held = (await bench.runtime.container_status(free)).resources
    assert held is not None
    # Podman sets its own process limit.
    assert replace(held, pids=0) == Resources()


async def test_a_container_runs_on_its_cpus_and_can_be_moved(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    script = "grep Cpus_allowed_list /proc/self/status"
    _, lines = await bench.run(sandbox, script, resources=Resources(cpuset_cpus="0"))
    assert lines == ["Cpus_allowed_list:\t0"]
    ident = await bench.start(sandbox, name="moved", resources=Resources(cpuset_cpus="0"))
    await bench.runtime.update_container(ident, Resources(cpuset_cpus="0-1", cpuset_mems="0"))
    resources = (await bench.runtime.container_status(ident)).resources
    assert resources is not None
    assert (resources.cpuset_cpus, resources.cpuset_mems) == ("0-1", "0")


async def test_limits_of_a_running_container_are_updated(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, resources=HELD)
    started = (await bench.runtime.container_status(ident)).started_at
    more = Resources(cpu_shares=1024, cpu_quota=80_000, cpu_period=100_000, memory=96 * MIB)
    await bench.runtime.update_container(ident, more)
    status = await bench.runtime.container_status(ident)
    assert status.resources == Resources(
        cpu_shares=1024,
        cpu_quota=80_000,
        cpu_period=100_000,
        memory=96 * MIB,
        oom_score_adj=300,
        pids=200,
    )
    assert status.started_at == started
    await bench.runtime.update_container(ident, Resources(memory=48 * MIB))
    held = (await bench.runtime.container_status(ident)).resources
    assert held is not None
    assert (held.memory, held.cpu_shares, held.cpu_quota) == (48 * MIB, 1024, 80_000)
    await bench.runtime.update_container(ident, Resources(cpu_quota=-1))
    held = (await bench.runtime.container_status(ident)).resources
    assert held is not None
    assert (held.memory, held.cpu_shares, held.cpu_quota) == (48 * MIB, 1024, 0)
    await bench.runtime.update_container(ident, Resources(memory=-1, cpu_quota=-1))
    lifted = (await bench.runtime.container_status(ident)).resources
    assert lifted is not None
    assert (lifted.memory, lifted.cpu_shares, lifted.cpu_quota) == (0, 1024, 0)


async def test_an_unsupported_update_is_refused_and_changes_nothing(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, resources=HELD)
    held = (await bench.runtime.container_status(ident)).resources
    with pytest.raises(EngineError, match=r"(?i)minimum memory"):
        await bench.runtime.update_container(ident, Resources(memory=1 * MIB))
    assert (await bench.runtime.container_status(ident)).resources == held
    with pytest.raises(EngineNotFound):
        await bench.runtime.update_container("f" * 64, HELD)


@pytest.mark.parametrize(
    ("security", "user"),
    [
        (SecurityContext(), (0, 0, (0,))),
        (SecurityContext(user="1000:3000", groups=(2000, 3000)), (1000, 3000, (3000, 2000))),
        (SecurityContext(user="1234", groups=(5,)), (1234, 0, (0, 5))),
    ],
)
async def test_statuses_report_the_user(
    bench: Bench, security: SecurityContext, user: tuple[int, int, tuple[int, ...]]
) -> None:
    sandbox = await bench.sandbox()
    ident = await bench.start(sandbox, security=security)
    assert (await bench.runtime.container_status(ident)).user == user


async def test_the_target_container_must_run(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    target = await bench.start(sandbox, "true")
    await bench.ended(target)
    late = await bench.create(sandbox, "true", name="late", target_container_id=target)
    with pytest.raises(ContainerStartError):
        await bench.runtime.start_container(late)


async def test_a_sandbox_can_have_each_runtime_of_the_engine(bench: Bench) -> None:
    assert bench.info.runtimes
    for attempt, name in enumerate(bench.info.runtimes):
        sandbox = await bench.sandbox(attempt, runtime_handler=name)
        container = await bench.start(sandbox)
        status = await bench.runtime.container_status(container)
        assert status.record.state is ContainerState.RUNNING


async def test_features_that_the_engine_lacks_are_refused(bench: Bench) -> None:
    if not bench.info.user_namespaces:
        with pytest.raises(EngineError) as refused:
            await bench.sandbox(host_users=False)
        assert str(refused.value) == NO_USER_NAMESPACES
        assert (await bench.runtime.list()).sandboxes == ()
    with pytest.raises(EngineError) as refused:
        await bench.sandbox(runtime_handler="nope")
    assert str(refused.value) == no_runtime("nope", bench.info.runtimes)
    assert (await bench.runtime.list()).sandboxes == ()
    if not bench.info.recursive_read_only:
        sandbox = await bench.sandbox(volumes=(PodVolume(name="v"),))
        mount = Mount(container_path="/v", volume="v", read_only=True, recursive_read_only=True)
        with pytest.raises(ContainerCreateError, match="recursive"):
            await bench.create(sandbox, "true", mounts=(mount,))
    assert not bench.info.supplemental_groups_policy
