"""Limits that change while containers run, and debug containers that join them, on the real
engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from engine_world import EngineWorld

from podtui.api.v1 import EphemeralContainer, PodStatus

MI = 1024**2
MEMORY = "cat /sys/fs/cgroup/memory.max 2>&- || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
QUOTA = "cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>&- || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
IDLE = "exec sleep 4321"


@pytest.fixture
async def world(engine_url: str) -> AsyncIterator[EngineWorld]:
    made = EngineWorld(engine_url, error_backoff=1.0)
    async with made.running():
        yield made


def sized(memory: str, cpu: str, *, script: str = IDLE, policy: str = "") -> str:
    """Return a pod with a fixed UID, so that another manifest updates it."""
    amounts = f"{{memory: {memory}, cpu: {cpu}}}"
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: sized, uid: fixed-uid}\n"
        "spec:\n  terminationGracePeriodSeconds: 1\n  containers:\n"
        "  - name: c\n    image: busybox:1.36\n    imagePullPolicy: Never\n"
        f"    command: [sh, -ec, '{script}']\n"
        f"    resources: {{limits: {amounts}, requests: {amounts}}}\n{policy}"
    )


def is_running(status: PodStatus) -> bool:
    return all(one.state.running for one in status.containerStatuses) and bool(
        status.containerStatuses
    )


def is_settled(status: PodStatus) -> bool:
    """Return whether no resize is in progress."""
    return not any(one.type.startswith("PodResize") for one in status.conditions)


def has(memory: str, cpu: str) -> object:
    """Return whether the engine has set these limits and the resize is over."""

    def is_resized(status: PodStatus) -> bool:
        resources = status.containerStatuses[0].resources
        return (
            is_running(status)
            and is_settled(status)
            and resources is not None
            and resources.limits == {"memory": memory, "cpu": cpu}
        )

    return is_resized


async def inside(world: EngineWorld, status: PodStatus, command: str) -> str:
    ident = status.containerStatuses[0].containerID.partition("://")[2]
    result = await world.runtime.exec(ident, ["sh", "-c", command], timeout=120)
    assert result.exit_code == 0, result.output
    return result.output.decode().strip()


async def test_limits_of_a_running_container_are_raised_and_lowered(world: EngineWorld) -> None:
    world.add(sized("32Mi", "100m"))
    first = await world.until(is_running, "sized")
    assert await inside(world, first, MEMORY) == str(32 * MI)
    assert await inside(world, first, QUOTA) == "10000"
    for memory, cpu, quota in (("64Mi", "300m", "30000"), ("24Mi", "50m", "5000")):
        world.add(sized(memory, cpu))
        status = await world.until(has(memory, cpu), "sized")
        assert status.containerStatuses[0].containerID == first.containerStatuses[0].containerID
        assert status.containerStatuses[0].restartCount == 0
        assert await inside(world, status, MEMORY) == str(int(memory[:-2]) * MI)
        assert await inside(world, status, QUOTA) == quota
    world.add(sized("24Mi", "50m").replace("limits: {memory: 24Mi, cpu: 50m}, ", ""))
    status = await world.until(
        lambda s: s.qosClass == "Burstable" and is_running(s) and is_settled(s), "sized"
    )
    assert int(await inside(world, status, QUOTA)) == -1
    assert int(await inside(world, status, MEMORY)) > 2**40
    assert status.containerStatuses[0].containerID == first.containerStatuses[0].containerID
    assert (await world.wait_for_event("sized", "ResizeStarted")).type == "Normal"
    assert (await world.wait_for_event("sized", "ResizeCompleted")).message.startswith(
        'Pod resize completed: {"containers":[{"name":"c","resources":{"limits":{"cpu":"300m",'
    )


async def test_a_restart_container_policy_restarts_on_resize(world: EngineWorld) -> None:
    policy = "    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]\n"
    world.add(sized("32Mi", "100m", policy=policy))
    first = await world.until(is_running, "sized")
    world.add(sized("32Mi", "200m", policy=policy))
    second = await world.until(has("32Mi", "200m"), "sized")
    assert second.containerStatuses[0].containerID == first.containerStatuses[0].containerID
    world.add(sized("64Mi", "200m", policy=policy))
    third = await world.until(has("64Mi", "200m"), "sized")
    assert third.containerStatuses[0].restartCount == 1
    assert third.podIP == first.podIP
    assert await inside(world, third, MEMORY) == str(64 * MI)
    assert (
        await world.wait_for_event("sized", "Killing")
    ).message == "Container c resize requires restart"


async def test_memory_is_not_reduced_below_usage(world: EngineWorld) -> None:
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=24 2>&-; echo filled; exec sleep 4321"
    world.add(sized("64Mi", "100m", script=script))
    first = await world.until(is_running, "sized")
    for _ in range(200):
        if await inside(world, first, "du -m /dev/shm/x | cut -f1") == "24":
            break
    world.add(sized("16Mi", "100m", script=script))
    refused = await world.until(
        lambda s: any((c.type, c.reason) == ("PodResizeInProgress", "Error") for c in s.conditions),
        "sized",
    )
    (condition,) = [one for one in refused.conditions if one.type == "PodResizeInProgress"]
    assert condition.message.startswith("cannot decrease memory limits: ")
    assert 'attempting to set container "c" memory limit (16777216)' in condition.message
    assert await inside(world, refused, MEMORY) == str(64 * MI)
    assert refused.containerStatuses[0].restartCount == 0
    await inside(world, refused, "rm /dev/shm/x")
    await world.until(has("16Mi", "100m"), "sized")


async def test_a_debug_container_sees_processes_of_its_target(world: EngineWorld) -> None:
    world.add(sized("32Mi", "100m"))
    first = await world.until(is_running, "sized")

    def joining(name: str, target: str) -> EphemeralContainer:
        return EphemeralContainer(
            name=name,
            image="busybox:1.36",
            imagePullPolicy="Never",
            command=("sh", "-ec", "ps -o args; exit 3"),
            terminationMessagePath="/dev/termination-log",
            terminationMessagePolicy="File",
            targetContainerName=target,
        )

    wanted = (joining("alone", ""), joining("beside", "c"))
    await world.kubelet.endpoints.set_ephemeral_containers("default", "sized-n1", wanted)
    status = await world.until(
        lambda s: (
            [bool(one.state.terminated) for one in s.ephemeralContainerStatuses] == [True, True]
        ),
        "sized",
    )
    found = {one.name: one for one in status.ephemeralContainerStatuses}
    assert "sleep 4321" in await world.log(found["beside"].containerID)
    assert "sleep 4321" not in await world.log(found["alone"].containerID)
    ended = found["beside"].state.terminated
    assert ended is not None
    assert (ended.exitCode, ended.reason) == (3, "Error")
    assert status.phase == "Running"
    assert status.containerStatuses[0].containerID == first.containerStatuses[0].containerID
