"""Limits, users, processes and profiles of containers on the real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_proxy import EngineProxy
from runtime_bench import Bench, until

from podtui.clock import SystemClock
from podtui.errors import EngineError
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import ContainerState, Mount, PodVolume, Resources, SecurityContext

MIB = 1 << 20


async def test_memory_is_not_lowered_below_what_is_used(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    script = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ready; sleep 300; true"
    held = Resources(memory=128 * MIB)
    app = await docker_bench.start(sandbox, script, resources=held)
    await docker_bench.shows(app, "ready")
    with pytest.raises(EngineError, match="memory"):
        await docker_bench.runtime.update_container(app, Resources(memory=8 * MIB))
    status = await docker_bench.runtime.container_status(app)
    assert status.resources == held
    assert status.record.state is ContainerState.RUNNING


async def test_an_update_reaches_the_container(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    files = {
        1: ("cpu/cpu.shares", "cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes"),
        2: ("cpu.weight", "cpu.max", "memory.max"),
    }[docker_bench.info.cgroup_version]
    app = await docker_bench.start(sandbox, resources=Resources(cpu_shares=2, memory=32 * MIB))

    async def limits_in_container() -> list[str]:
        command = ["cat", *(f"/sys/fs/cgroup/{name}" for name in files)]
        result = await docker_bench.runtime.exec(app, command, timeout=120)
        return result.output.decode().split()

    before = await limits_in_container()
    wanted = Resources(cpu_shares=2048, cpu_quota=150_000, cpu_period=100_000, memory=64 * MIB)
    await docker_bench.runtime.update_container(app, wanted)
    after = await limits_in_container()
    assert all(new != old for new, old in zip(after, before, strict=False))
    assert after[-1] == str(64 * MIB)


async def test_processes_are_limited(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    script = "for i in $(seq 20); do sleep 5 & done; true"
    app = await docker_bench.start(sandbox, script, resources=Resources(pids=8))
    await docker_bench.ended(app)
    assert any("fork" in line for line in await docker_bench.text(app))


async def test_processes_of_the_target_are_visible(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    target = await docker_bench.start(sandbox, "exec sleep 4711")
    script = "ps -o pid,args | grep '4711$' | grep -v grep"
    _, lines = await docker_bench.run(sandbox, script, name="reader", target_container_id=target)
    assert [line.split() for line in lines] == [["1", "sleep", "4711"]]


def page_size() -> int | None:
    """Return this machine's first huge page size in bytes."""
    sizes = Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB")
    known = [path.name.removeprefix("hugepages-").removesuffix("kB") for path in sizes]
    return int(known[0]) * 1024 if known else None


async def test_huge_pages_are_mounted_where_the_machine_has_them(docker_bench: Bench) -> None:
    number = page_size()
    if number is None:
        pytest.skip("no huge pages here")
    sandbox = await docker_bench.sandbox(volumes=(PodVolume(name="v", huge_pages=number),))
    mounts = (Mount(container_path="/v", volume="v"),)
    script = "grep ' /v ' /proc/mounts; stat -c '%a %u' /v"
    _, (mounted, mode) = await docker_bench.run(sandbox, script, mounts=mounts)
    assert mounted.split()[2] == "hugetlbfs"
    assert mode == "777 0"


async def test_a_seccomp_profile_of_the_root_directory(docker_bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "seccomp" / "p").mkdir(parents=True)
    refuse = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refuse]}
    (tmp_path / "seccomp" / "p" / "no-mkdir.json").write_text(json.dumps(profile))
    docker_bench.runtime = await docker_bench.open(str(tmp_path))
    sandbox = await docker_bench.sandbox()
    security = SecurityContext(seccomp="localhost/p/no-mkdir.json")
    script = "mkdir /tmp/x 2>/dev/null || echo refused; touch /tmp/y && echo made"
    assert (await docker_bench.run(sandbox, script, security=security))[1] == ["refused", "made"]


# --- users


@pytest.fixture
def image_with_named_user(raw: Any) -> Iterator[str]:
    """Return the id of an image of the sample's files whose user is a name."""
    files = "web:x:100:101::/:/bin/sh", "wheel:x:10:web\\ndata:x:20:web"
    script = f"echo {files[0]} >> /etc/passwd; printf '{files[1]}\\n' >> /etc/group"
    made = raw.create_container("busybox:1.36", ["sh", "-c", script])["Id"]
    try:
        raw.start(made)
        raw.wait(made)
        raw.commit(made, "podtui-test-people", "1", changes="USER web")
    finally:
        raw.remove_container(made, force=True)
    yield raw.inspect_image("podtui-test-people:1")["Id"]
    raw.remove_image("podtui-test-people:1", force=True)


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize(
    ("security", "user"),
    [
        (SecurityContext(), (100, 101, (101, 10, 20))),
        (SecurityContext(user="100", groups=(7,)), (100, 101, (101, 10, 20, 7))),
        (SecurityContext(user="100:5"), (100, 5, (5,))),
        (SecurityContext(user="0"), (0, 0, (0,))),
    ],
)
async def test_reported_users_match_the_process(
    docker_bench: Bench,
    proxy: EngineProxy,
    raw: Any,
    image_with_named_user: str,
    far: bool,
    security: SecurityContext,
    user: tuple[int, int, tuple[int, ...]],
) -> None:
    if far:
        docker_bench.runtime = DockerRuntime(proxy.url, root=docker_bench.root, clock=SystemClock())
        await docker_bench.runtime.connect()
    try:
        sandbox = await docker_bench.sandbox()
        app = await docker_bench.start(
            sandbox,
            "id -u; id -g; id -G; sleep 300",
            image_id=image_with_named_user,
            security=security,
        )

        async def three_lines() -> list[str] | None:
            lines = await docker_bench.text(app)
            return lines if len(lines) == 3 else None

        uid, gid, groups = await until(three_lines)
        status = await docker_bench.runtime.container_status(app)
        assert status.user == user
        assert (int(uid), int(gid), set(map(int, groups.split()))) == (*user[:2], set(user[2]))
        await docker_bench.runtime.remove_sandbox(sandbox)
    finally:
        if far:
            await docker_bench.runtime.close()
