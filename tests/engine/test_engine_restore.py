"""Manifests that come back, by an undo on the screen and by hand, on the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from engine_world import NODE, EngineWorld
from runtime_bench import until

from podtui.api.v1 import Pod, PodStatus
from podtui.clock import SystemClock
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.folder_state import Folder
from podtui.tui.commands.manifest_file import move_to_trash, restore_file

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 4
  containers:
  - name: c
    image: busybox:1.36
    imagePullPolicy: Never
    command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]
"""
Restore = Callable[[], None]


class FolderWorld(EngineWorld):
    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        super().__init__(url)

    def _folders(self) -> AsyncIterator[Folder]:
        return ManifestFolder(self._folder, node_name=NODE, clock=SystemClock()).snapshots()

    async def record(self) -> Pod | None:
        found = await self.store.get("pods", "default", f"web-{NODE}")
        return found if isinstance(found, Pod) else None


def undone(path: Path) -> Restore:
    trashed = move_to_trash(path, datetime.now(UTC))
    return lambda: restore_file(trashed)


def moved_by_hand(path: Path) -> Restore:
    aside = path.parent.parent / path.name
    path.rename(aside)

    def back() -> None:
        aside.rename(path)

    return back


@pytest.fixture
async def world(engine_url: str, tmp_path: Path) -> AsyncIterator[FolderWorld]:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "web.yaml").write_text(MANIFEST)
    made = FolderWorld(engine_url, folder)
    async with made.running():
        yield made


@pytest.mark.parametrize("remove", [undone, moved_by_hand])
async def test_a_manifest_that_comes_back_while_its_pod_terminates_counts_a_restart(
    world: FolderWorld, tmp_path: Path, remove: Callable[[Path], Restore]
) -> None:
    first = await world.until(_runs, "web")
    restore = remove(tmp_path / "manifests" / "web.yaml")

    async def terminating() -> bool:
        record = await world.record()
        return record is not None and record.metadata.deletionTimestamp is not None

    await until(terminating)
    restore()
    again = await world.until(lambda status: _runs(status) and _id(status) != _id(first), "web")
    assert again.containerStatuses[0].restartCount == 1


@pytest.mark.parametrize("remove", [undone, moved_by_hand])
async def test_a_manifest_that_comes_back_after_its_pod_has_ended_counts_none(
    world: FolderWorld, tmp_path: Path, remove: Callable[[Path], Restore]
) -> None:
    first = await world.until(_runs, "web")
    restore = remove(tmp_path / "manifests" / "web.yaml")

    async def gone() -> bool:
        return await world.record() is None

    await until(gone)
    restore()
    again = await world.until(lambda status: _runs(status) and _id(status) != _id(first), "web")
    assert again.containerStatuses[0].restartCount == 0


def _runs(status: PodStatus) -> bool:
    return any(one.state.running is not None for one in status.containerStatuses)


def _id(status: PodStatus) -> str:
    return status.containerStatuses[0].containerID
