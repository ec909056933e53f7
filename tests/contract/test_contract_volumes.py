"""Volumes that change while containers run, image volumes and host paths."""

from __future__ import annotations

import asyncio
import math
import time
import uuid

import pytest
from projected_volume import projected
from runtime_bench import Bench

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.protocol import HostPathKind, Mount, PodVolume, VolumeFile

MOUNTS = (Mount(container_path="/v", volume="v", read_only=True),)


async def output_lines(bench: Bench, container: str, script: str) -> list[str]:
    result = await bench.runtime.exec(container, ["sh", "-c", script], timeout=120)
    return result.output.decode().splitlines()


@pytest.mark.engine
@pytest.mark.parametrize("memory", [False, True], ids=["disk", "memory"])
async def test_projected_files_change_under_a_running_container(
    engine_bench: Bench, memory: bool
) -> None:
    first = projected({"labels": "app=web", "deep/one": "1", "old": "x"}, memory=memory)
    sandbox = await engine_bench.sandbox(volumes=(first,))
    container = await engine_bench.start(sandbox, mounts=MOUNTS)
    assert await output_lines(engine_bench, container, "cat /v/labels /v/deep/one") == ["app=web1"]
    second = projected({"labels": "app=db", "deep/two": "2", "new": "y"}, memory=memory)
    for _ in range(2):
        await engine_bench.runtime.write_volume(sandbox, second)
    script = "cat /v/labels /v/deep/two /v/new; echo; ls -A /v; ls /v/deep"
    version = second.files[0].path.partition("/")[0]
    expected = ["app=db2y", "..data", version, "deep", "labels", "new", "two"]
    assert sorted(await output_lines(engine_bench, container, script)) == sorted(expected)


@pytest.mark.engine
async def test_a_later_instance_replaces_files_of_an_earlier_one(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox(volumes=(projected({"a": "1", "gone": "x"}),))
    container = await engine_bench.start(sandbox, mounts=MOUNTS)
    await engine_bench.runtime.close()
    engine_bench.runtime = await engine_bench.open(engine_bench.root)
    second = projected({"a": "2"})
    await engine_bench.runtime.write_volume(sandbox, second)
    version = second.files[0].path.partition("/")[0]
    assert await output_lines(engine_bench, container, "cat /v/a") == ["2"]
    assert set(await output_lines(engine_bench, container, "ls -A /v")) == {"..data", version, "a"}


DATES = "stat -L -c %Y /v/a /v/..data /v/..data/a; stat -c %Y /v/..data"


@pytest.mark.engine
@pytest.mark.parametrize("memory", [False, True], ids=["disk", "memory"])
async def test_projected_files_are_dated_when_they_are_written(
    engine_bench: Bench, memory: bool
) -> None:
    """A web server compares dates and sizes, and answers 304 if both are as before."""
    before = time.time()
    sandbox = await engine_bench.sandbox(volumes=(projected({"a": "1"}, memory=memory),))
    container = await engine_bench.start(sandbox, mounts=MOUNTS)
    first = await output_lines(engine_bench, container, DATES)
    middle = math.ceil(time.time())
    await asyncio.sleep(max(0.0, middle - time.time()))
    await engine_bench.runtime.write_volume(sandbox, projected({"a": "2"}, memory=memory))
    second = await output_lines(engine_bench, container, DATES)
    later = time.time()
    assert all(int(before) <= int(date) <= middle for date in first), (before, first, middle)
    assert all(middle <= int(date) <= later for date in second), (middle, second, later)


@pytest.mark.engine
@pytest.mark.parametrize("memory", [False, True], ids=["disk", "memory"])
async def test_created_sub_paths_inherit_the_group_and_the_time(
    engine_bench: Bench, memory: bool
) -> None:
    shared = PodVolume(name="v", mode=0o3777 if memory else 0o2777, gid=123, memory=memory)
    plain = PodVolume(name="w", mode=0o1777 if memory else 0o777, memory=memory)
    sandbox = await engine_bench.sandbox(volumes=(shared, plain))
    before = int(time.time())
    mounts = (
        Mount(container_path="/v", volume="v"),
        Mount(container_path="/new", volume="v", sub_path="a/b", gid=123),
        Mount(container_path="/w", volume="w"),
        Mount(container_path="/other", volume="w", sub_path="a"),
    )
    script = "touch /new/f; stat -c '%A %u %g' /v/a /v/a/b /v/a/b/f /w/a; stat -c %Y /new /other"
    lines = (await engine_bench.run(sandbox, script, mounts=mounts))[1]
    last = "t" if memory else "x"
    assert lines[:2] == [f"drwxrwsrw{last} 0 123"] * 2
    assert lines[2:4] == ["-rw-r--r-- 0 123", f"drwxrwxrw{last} 0 0"]
    assert all(before <= int(date) <= time.time() for date in lines[4:])


async def test_memory_lives_as_long_as_the_pod(bench: Bench) -> None:
    """Its sandbox and its containers are removed, also at the same time."""
    volumes = (PodVolume(name="v", memory=True, mode=0o1777), projected({"a": "1"}, name="files"))
    mounts = (Mount(container_path="/v", volume="v"),)
    sandbox = await bench.sandbox(volumes=volumes)
    assert await bench.run(sandbox, "echo kept > /v/file", mounts=mounts) == (0, [])
    for attempt in (1, 2):
        await bench.runtime.remove_sandbox(sandbox)
        if attempt == 2:
            await bench.runtime.close()
            bench.runtime = await bench.open(bench.root)
        started = await bench.runtime.run_sandbox(bench.sandbox_config(attempt, volumes=volumes))
        sandbox = started.id
        assert started.warnings == ()
        assert await bench.runtime.read_volume(sandbox, "v", "file", 10) == b"kept\n"
        assert await bench.runtime.read_volume(sandbox, "files", "a", 10) == b"1"
    snapshot = await bench.runtime.list()
    assert [record.id for record in snapshot.sandboxes] == [sandbox]
    assert snapshot.containers == ()
    await bench.runtime.remove_sandbox(sandbox)
    await bench.runtime.remove_pod_data(bench.uid)
    assert await bench.runtime.pod_data() == ()
    sandbox = await bench.sandbox(3, volumes=volumes)
    assert await bench.runtime.read_volume(sandbox, "v", "file", 10) is None


async def test_access_to_a_missing_volume_fails(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    with pytest.raises(EngineNotFound):
        await bench.runtime.write_volume(sandbox, projected({"a": "1"}))
    with pytest.raises(EngineNotFound):
        await bench.runtime.write_volume("f" * 64, projected({"a": "1"}))
    with pytest.raises(EngineNotFound):
        await bench.runtime.read_volume(sandbox, "v", "a", 10)
    with pytest.raises(EngineNotFound):
        await bench.runtime.fill_volume(sandbox, "v", bench.image.id)
    with pytest.raises(EngineNotFound):
        await bench.runtime.volume_size(sandbox, "v", 10)


async def test_measures_the_files_of_a_volume(bench: Bench) -> None:
    files = (VolumeFile(path="a", content=bytes(40_000)), VolumeFile(path="d/b", content=b"more"))
    volumes = (PodVolume(name="v", files=files), PodVolume(name="empty"))
    sandbox = await bench.sandbox(volumes=volumes)
    assert 40_004 <= await bench.runtime.volume_size(sandbox, "v", 10**6) < 70_000
    assert await bench.runtime.volume_size(sandbox, "empty", 10**6) < 5_000
    assert await bench.runtime.volume_size(sandbox, "v", 1000) > 1000


@pytest.mark.parametrize("memory", [False, True], ids=["disk", "memory"])
async def test_reads_files_of_a_volume(bench: Bench, memory: bool) -> None:
    files = (
        VolumeFile(path="d/env", content=b"A=1\nB=2\n"),
        VolumeFile(path="link", target="d/env"),
        VolumeFile(path="up", target="../../pause"),
        VolumeFile(path="out", target="/etc"),
        VolumeFile(path="empty"),
    )
    sandbox = await bench.sandbox(volumes=(PodVolume(name="v", memory=memory, files=files),))
    read = bench.runtime.read_volume
    assert await read(sandbox, "v", "d/env", 100) == b"A=1\nB=2\n"
    assert await read(sandbox, "v", "d/env", 3) == b"A=1"
    assert await read(sandbox, "v", "link", 100) == b"A=1\nB=2\n"
    assert await read(sandbox, "v", "empty", 100) == b""
    for path in ("nosuch", "d", "d/nosuch", "d/env/x", "../x", "up", "out/hosts", "out", "/etc"):
        assert await read(sandbox, "v", path, 100) is None, path


@pytest.mark.engine
async def test_a_volume_is_filled_from_an_image_only_once(engine_bench: Bench) -> None:
    volumes = (PodVolume(name="v", mode=0o755), PodVolume(name="own"))
    sandbox = await engine_bench.sandbox(volumes=volumes)
    await engine_bench.runtime.fill_volume(sandbox, "v", engine_bench.image.id)
    mounts = (Mount(container_path="/v", volume="v"), Mount(container_path="/o", volume="own"))
    script = "grep root: /v/etc/passwd | head -n1; test -f /v/bin/sh && echo sh;"
    script += " ls -A /o; rm /v/etc/passwd"
    lines = (await engine_bench.run(sandbox, script, mounts=mounts))[1]
    assert (lines[0].split(":")[0], lines[1:]) == ("root", ["sh"])
    await engine_bench.runtime.fill_volume(sandbox, "v", engine_bench.image.id)
    await engine_bench.runtime.close()
    engine_bench.runtime = await engine_bench.open(engine_bench.root)
    await engine_bench.runtime.fill_volume(sandbox, "v", engine_bench.image.id)
    later = await engine_bench.run(sandbox, "test -f /v/etc/passwd", name="later", mounts=mounts)
    assert later == (1, [])
    with pytest.raises(EngineNotFound):
        await engine_bench.runtime.fill_volume(sandbox, "own", "sha256:" + "0" * 64)
    snapshot = await engine_bench.runtime.list()
    assert {c.name for c in snapshot.containers} == {"app", "later"}


# --- the host


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", HostPathKind.DIRECTORY),
        ("/etc", HostPathKind.DIRECTORY),
        ("/etc/../etc/./hostname", HostPathKind.FILE),
        ("/dev/null", HostPathKind.CHAR_DEVICE),
        ("/no/such/path", HostPathKind.MISSING),
        ("/etc/hostname/below", HostPathKind.MISSING),
    ],
)
async def test_reports_the_type_of_a_host_path(bench: Bench, path: str, kind: HostPathKind) -> None:
    assert await bench.runtime.host_path(path) is kind


async def test_a_directory_of_the_host_is_removed_with_everything_in_it(bench: Bench) -> None:
    base = f"/tmp/podtui-{uuid.uuid4().hex}"
    runtime, kind = bench.runtime, HostPathKind
    assert await runtime.host_path(f"{base}/d", create="Directory", shared=True) is kind.DIRECTORY
    assert await runtime.host_path(f"{base}/d/e/f", create="Directory") is kind.DIRECTORY
    assert await runtime.host_path(f"{base}/d/e/g", create="File") is kind.FILE
    await runtime.remove_host_directory(f"{base}/d")
    assert await runtime.host_path(f"{base}/d") is kind.MISSING
    assert await runtime.host_path(base) is kind.DIRECTORY
    await runtime.remove_host_directory(f"{base}/d")
    await runtime.remove_host_directory(base)
    assert await runtime.host_path(base) is kind.MISSING


async def test_missing_host_paths_are_created(bench: Bench) -> None:
    base = f"/tmp/podtui-{uuid.uuid4().hex}"
    make, kind = bench.runtime.host_path, HostPathKind
    try:
        with pytest.raises(EngineError, match="no such file or directory"):
            await make(f"{base}/d/f", create="File")
        assert await make(f"{base}/d", create="Directory") is kind.DIRECTORY
        assert await make(f"{base}/d/f", create="File") is kind.FILE
        assert await make(f"{base}/d", create="File") is kind.DIRECTORY
        assert await make(f"{base}/d/f", create="Directory") is kind.FILE
        assert await make(f"{base}/d/f") is kind.FILE
        sandbox = await bench.sandbox()
        mounts = (Mount(container_path="/h", host_path=base),)
        assert await bench.run(sandbox, "test -f /h/d/f && echo yes", mounts=mounts) == (0, ["yes"])
    finally:
        sandbox = await bench.sandbox(attempt=1)
        await bench.run(
            sandbox,
            f"rm -rf /h{base.removeprefix('/tmp')}",
            name="broom",
            mounts=(Mount(container_path="/h", host_path="/tmp"),),
        )
    assert await bench.runtime.list()
