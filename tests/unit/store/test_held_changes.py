"""A watch shows a change when it is on disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import ConfigMap, Event, ObjectMeta, ObjectReference, Pod, PodSpec, PodStatus
from podtui.store import Store, database
from podtui.store.database import Writer
from podtui.store.protocol import Change
from podtui.store.resources import Resource

TIMEOUT = 30.0
META = ObjectMeta(name="web", namespace="default")
POD = Pod(metadata=META, spec=PodSpec(containers=()), status=PodStatus(phase="Pending"))
RUNNING = structs.replace(POD, status=PodStatus(phase="Running"))


def pod(**metadata: Any) -> Pod:
    return structs.replace(POD, metadata=structs.replace(META, **metadata))


class Disk:
    """A disk whose commits wait until ``go_on`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.commits = 0
        real = database.write

        def slow(*arguments: Any) -> dict[Any, str]:
            self.commits += 1
            self.reached.set()
            assert self.go_on.wait(TIMEOUT)
            return real(*arguments)

        monkeypatch.setattr(database, "write", slow)


@pytest.fixture
def disk(
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[..., Store],  # closed after the disk goes on
) -> Iterator[Disk]:
    disk = Disk(monkeypatch)
    yield disk
    disk.go_on.set()


class Watch:
    """The changes that a watch has shown so far."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._more = asyncio.Event()

    async def read(self, changes: AsyncIterator[Change]) -> None:
        async for change in changes:
            self.shown.append(change.type)
            self._more.set()

    async def settled(self) -> list[str]:
        for _ in range(10):
            await asyncio.sleep(0)
        return self.shown

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(TIMEOUT):
            while len(self.shown) < count:
                self._more.clear()
                await self._more.wait()
        return self.shown


@asynccontextmanager
async def watching(store: Store, resource: Resource) -> AsyncIterator[Watch]:
    watch = Watch()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.read(store.watch(resource)))
        yield watch
        task.cancel()


async def test_a_change_is_shown_when_it_is_on_disk(
    disk: Disk, opened: Callable[..., Store]
) -> None:
    store = opened()
    async with watching(store, "configmaps") as watch:
        await store.put("configmaps", ConfigMap(metadata=META))
        assert await asyncio.to_thread(disk.reached.wait, TIMEOUT)
        assert await watch.settled() == []
        disk.go_on.set()
        assert await watch.until(1) == ["ADDED"]


async def test_a_disk_that_hangs_is_a_problem(
    disk: Disk, opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    await store.put("configmaps", ConfigMap(metadata=META))
    assert await asyncio.to_thread(disk.reached.wait, TIMEOUT)
    assert store.problem() == ""
    monkeypatch.setattr(database, "HANG_SECONDS", -1.0)
    assert "the records cannot be written: the disk has not answered for" in store.problem()
    disk.go_on.set()
    await store.flush()
    assert store.problem() == ""


async def test_a_change_is_on_disk_without_a_wait_for_others(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "GATHER_SECONDS", 10 * TIMEOUT)
    store = opened()
    async with watching(store, "configmaps") as watch:
        await store.put("configmaps", ConfigMap(metadata=META))
        assert await watch.until(1) == ["ADDED"]


@pytest.mark.parametrize(
    ("resource", "before", "after"),
    [
        ("pods", POD, RUNNING),
        ("pods", None, pod(annotations={CONFIG_MIRROR: "1"})),
        ("events", None, Event(metadata=META, involvedObject=ObjectReference())),
    ],
    ids=["a status", "a mirror pod", "an event"],
)
async def test_a_report_is_shown_at_once(
    resource: Resource, before: Any, after: Any, disk: Disk, opened: Callable[..., Store]
) -> None:
    store = opened()
    if before is not None:
        disk.go_on.set()
        await store.put(resource, before)
        await store.flush()
        disk.go_on.clear()
    async with watching(store, resource) as watch:
        await store.put(resource, after)
        assert len(await watch.settled()) == 1


async def test_the_end_of_a_deleted_pod_is_a_report(
    disk: Disk, opened: Callable[..., Store]
) -> None:
    store = opened()
    disk.go_on.set()
    await store.put("pods", pod(deletionTimestamp="2026-01-01T00:00:00Z"))
    await store.flush()
    disk.go_on.clear()
    async with watching(store, "pods") as watch:
        await store.delete("pods", "default", "web")
        assert await watch.settled() == ["DELETED"]


@pytest.mark.parametrize(
    "change",
    [
        pod(deletionTimestamp="2026-01-01T00:00:00Z"),
        pod(labels={"a": "b"}),
        structs.replace(POD, spec=PodSpec(containers=(), nodeName="node")),
        None,
    ],
    ids=["deletion", "labels", "spec", "removal"],
)
async def test_what_the_kubelet_acts_on_is_shown_when_it_is_on_disk(
    change: Pod | None, disk: Disk, opened: Callable[..., Store]
) -> None:
    store = opened()
    disk.go_on.set()
    await store.put("pods", POD)
    await store.flush()
    disk.go_on.clear()
    async with watching(store, "pods") as watch:
        if change is None:
            await store.delete("pods", "default", "web")
        else:
            await store.put("pods", change)
        assert await watch.settled() == []
        disk.go_on.set()
        assert len(await watch.until(1)) == 1


async def test_changes_are_shown_in_order(disk: Disk, opened: Callable[..., Store]) -> None:
    store = opened()
    async with watching(store, "pods") as watch:
        await store.put("pods", POD)
        await store.put("pods", RUNNING)
        assert await watch.settled() == []
        disk.go_on.set()
        assert await watch.until(2) == ["ADDED", "MODIFIED"]


async def test_changes_are_shown_while_the_file_cannot_be_written(
    opened: Callable[..., Store], full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    store = opened()
    async with watching(store, "configmaps") as watch:
        with full_disk():
            await store.put("configmaps", ConfigMap(metadata=META))
            assert await watch.until(1) == ["ADDED"]
            assert "disk full" in store.problem()


async def test_changes_are_shown_after_the_thread_that_writes_has_ended(
    opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def ending(_: Writer) -> bool:
        assert ended.wait(TIMEOUT)
        return False

    monkeypatch.setattr(Writer, "_step", ending)
    store = opened()
    async with watching(store, "configmaps") as watch:
        await store.put("configmaps", ConfigMap(metadata=META))
        assert await watch.settled() == []
        ended.set()
        assert await watch.until(1) == ["ADDED"]
        await store.delete("configmaps", META.namespace, META.name)
        assert await watch.until(2) == ["ADDED", "DELETED"]
        assert "has ended" in store.problem()


async def test_a_caller_waits_for_the_commit_that_has_its_change(
    disk: Disk, opened: Callable[..., Store]
) -> None:
    store = opened()
    await store.put("configmaps", ConfigMap(metadata=META))
    assert await asyncio.to_thread(disk.reached.wait, TIMEOUT)
    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
        group.create_task(store.flush())
        await asyncio.sleep(0)
        disk.go_on.set()
    assert disk.commits == 1
