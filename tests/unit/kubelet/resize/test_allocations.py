"""Allocations, kept in a file across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from pathlib import Path

import pytest
from pod_builders import ctr, make_pod
from virtual_time import VirtualClock, virtual

from podtui.api.v1 import Pod
from podtui.kubelet.resize.allocations import FILE_NAME, SETTLE, Allocations


def pod_with(cpu: str, uid: str = "u1", **fields: object) -> Pod:
    return make_pod(ctr(resources={"requests": {"cpu": cpu}}), uid=uid, **fields)  # type: ignore[arg-type]


async def kept(root: Path) -> Allocations:
    made = Allocations(str(root), VirtualClock())
    await made.load()
    return made


def cpu(pod: Pod) -> str:
    return pod.spec.containers[0].resources.requests["cpu"]


@virtual()
async def test_an_allocation_is_kept_until_replaced(tmp_path: Path) -> None:
    allocations = await kept(tmp_path)
    allocations.allocate(pod_with("1"))
    assert cpu(allocations.allocated(pod_with("2"))) == "1"
    assert cpu(allocations.allocated(pod_with("2", "u2"))) == "2"
    allocations.allocate(pod_with("2"))
    assert cpu(allocations.allocated(pod_with("2"))) == "2"
    allocations.forget("u1")
    assert cpu(allocations.allocated(pod_with("3"))) == "3"


@virtual()
async def test_allocations_and_resizes_survive_the_kubelet(tmp_path: Path) -> None:
    first = await kept(tmp_path)
    pod = pod_with("1")
    first.allocate(pod)
    first.actuate(pod, pod.spec.containers[0])
    await first.drain()
    second = await kept(tmp_path)
    assert cpu(second.allocated(pod_with("2"))) == "1"
    actuated = second.actuated("u1")
    assert actuated is not None
    assert actuated.containers["c"].requests == {"cpu": "1"}
    mode = stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode)
    assert mode == 0o600
    assert os.listdir(tmp_path) == [FILE_NAME]
    second.keep_only(["another"])
    await second.drain()
    assert (await kept(tmp_path)).actuated("u1") is None


@virtual()
async def test_a_burst_of_changes_is_written_once(tmp_path: Path) -> None:
    written: list[int] = []

    async def settled(seconds: float) -> None:
        """Sleep, and record each new version of the file meanwhile: it has another inode."""
        for _ in range(round(100 * seconds / SETTLE)):
            await asyncio.sleep(SETTLE / 100)
            with contextlib.suppress(FileNotFoundError):
                inode = (tmp_path / FILE_NAME).stat().st_ino
                if written[-1:] != [inode]:
                    written.append(inode)

    allocations = await kept(tmp_path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(allocations.run())
        for number in range(50):
            allocations.allocate(pod_with("1", f"u{number}"))
            await settled(SETTLE / 100)
        await settled(2 * SETTLE)
        assert len(written) == 1
        allocations.allocate(pod_with("1", "u1"))
        await settled(2 * SETTLE)
        assert len(written) == 1, "nothing had changed"
        allocations.allocate(pod_with("2", "u1"))
        await settled(2 * SETTLE)
        assert len(written) == 2
        task.cancel()


@pytest.mark.parametrize("content", [b"", b"{broken", b'{"allocated": []}', b"\xff"])
@virtual()
async def test_a_damaged_file_is_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        allocations = await kept(tmp_path)
    assert "cannot read" in caplog.text
    assert cpu(allocations.allocated(pod_with("2"))) == "2"


@virtual()
async def test_an_unwritable_directory_does_not_stop_pods(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    allocations = Allocations(str(tmp_path / "gone"), VirtualClock())
    await allocations.load()
    allocations.allocate(pod_with("1"))
    with caplog.at_level(logging.WARNING):
        await allocations.drain()
    assert "cannot write" in caplog.text


@virtual()
async def test_without_a_root_directory_nothing_is_written() -> None:
    allocations = Allocations("", VirtualClock())
    await allocations.load()
    allocations.allocate(pod_with("1"))
    await allocations.drain()
    assert cpu(allocations.allocated(pod_with("2"))) == "1"


@virtual()
async def test_running_pods_are_adopted_once(tmp_path: Path) -> None:
    allocations = await kept(tmp_path)
    old, new = pod_with("1"), pod_with("2")
    allocations.adopt(old, old.spec.containers)
    allocations.adopt(new, new.spec.containers)
    actuated = allocations.actuated("u1")
    assert actuated is not None
    assert actuated.containers["c"].requests == {"cpu": "1"}


@virtual()
async def test_pod_level_limits_apply_to_containers_without_limits() -> None:
    allocations = Allocations("", VirtualClock())
    pod = pod_with("1", resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    allocations.actuate(pod, pod.spec.containers[0])
    actuated = allocations.actuated("u1")
    assert actuated is not None
    assert actuated.containers["c"].limits == {"cpu": "2", "memory": "1Gi"}
    assert actuated.pod == pod.spec.resources
