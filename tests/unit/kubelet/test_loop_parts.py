"""The parts of the loops, tested separately."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from kubelet_settings import default_config
from kubelet_world import World, pod
from msgspec import structs
from virtual_time import VirtualClock, settle, virtual

from podtui.agent.home import home_ports
from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import ContainerStatus, ObjectMeta, Pod, PodCondition, PodStatus
from podtui.errors import (
    EngineConflict,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    PodtuiError,
)
from podtui.kubelet.containers.restart import RestartCounts
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pleg.pleg import Pleg
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.sources import FILE, ManifestRecorder, SourceDiff
from podtui.kubelet.ports import PodClient
from podtui.kubelet.status.status_manager import SYNC_SECONDS, StatusManager
from podtui.kubelet.tasks import gather_all
from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.memory import MemoryRuntime
from podtui.runtime.protocol import (
    ContainerState,
    Runtime,
    RuntimeEvent,
    RuntimeSnapshot,
    SandboxRecord,
    SandboxState,
    SandboxStatus,
)
from podtui.store import open_store
from podtui.store.protocol import WatchType
from podtui.store.resources import Resource

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def folder(*pods: Pod) -> dict[str, Pod]:
    return {one.metadata.uid: one for one in pods}


def operations(source: SourceDiff, *pods: Pod) -> list[tuple[str, list[str]]]:
    updates = source.diff(folder(*pods))
    return [(u.operation.value, [p.metadata.uid for p in u.pods]) for u in updates]


# --- sources


def test_removals_come_before_additions_and_updates() -> None:
    source = SourceDiff(FILE)
    a, b, c = pod("a", "a"), pod("b", "b"), pod("c", "c")
    assert operations(source, a, b) == [("ADD", ["a", "b"])]
    changed = structs.replace(b, spec=structs.replace(b.spec, restartPolicy="Never"))
    assert operations(source, changed, c) == [
        ("REMOVE", ["a"]),
        ("ADD", ["c"]),
        ("UPDATE", ["b"]),
    ]
    assert operations(source, changed, c) == []


@pytest.mark.parametrize("key", ["kubernetes.io/config.source", "kubernetes.io/config.mirror"])
def test_local_annotations_are_not_a_change(key: str) -> None:
    source = SourceDiff(FILE)
    one = pod("a", "a")
    source.diff(folder(one))
    annotations = {**one.metadata.annotations, key: "other"}
    other = structs.replace(one, metadata=structs.replace(one.metadata, annotations=annotations))
    assert operations(source, other) == []


@virtual()
async def test_a_record_of_a_manifest_that_cannot_be_deleted_is_deleted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store(None, clock=VirtualClock())
    recorder = ManifestRecorder(store)
    manifests = {
        name: Manifest(
            metadata=ObjectMeta(name=name),
            spec=ManifestSpec(path=f"/m/{name}"),
            status=ManifestStatus(state=ManifestState.ACCEPTED),
        )
        for name in ("a.yaml", "b.yaml", "c.yaml")
    }
    await recorder.record(manifests)
    delete, deleted = store.delete, list[str]()

    async def delete_or_fail(resource: Resource, namespace: str, name: str) -> bool:
        deleted.append(name)
        if len(deleted) == 2:
            raise TypeError("not foreseen")
        return await delete(resource, namespace, name)

    monkeypatch.setattr(store, "delete", delete_or_fail)
    with pytest.raises(TypeError):
        await recorder.record({})
    await recorder.record({})
    assert (await store.list("manifests")).items == ()


def test_a_fixed_uid_under_another_name_is_another_pod() -> None:
    source = SourceDiff(FILE)
    source.diff(folder(pod("a", "fixed")))
    assert operations(source, pod("b", "fixed")) == [("REMOVE", ["fixed"]), ("ADD", ["fixed"])]


def test_the_manager_finds_pods_by_both_names() -> None:
    manager = PodManager()
    manager.set(pod("a", "old"))
    manager.set(pod("a", "new"))
    manager.remove("old")
    found = manager.by_name("default", "a")
    assert found is not None
    assert found.metadata.uid == "new"
    assert manager.by_name("other", "a") is None
    assert len(manager) == 1


# --- the cache


def observed(uid: str, *counts: int) -> ObservedPod:
    return ObservedPod(
        uid=uid,
        name=uid,
        namespace="default",
        containers=tuple(
            ObservedContainer(
                id=f"{uid}{count}",
                name="c",
                restart_count=count,
                sandbox_id="s",
                state=ContainerState.RUNNING,
                created_at=NOW,
            )
            for count in counts
        ),
    )


def test_freshness_is_counted_in_lists() -> None:
    cache = PodCache()
    first = cache.begin()
    assert cache.set("a", observed("a", 0), first)
    assert not cache.set("a", observed("a", 0), cache.begin())
    assert cache.seen("a") == cache.order
    whole = cache.begin()
    cache.touch_all(whole)
    assert cache.seen("a") == cache.seen("never heard of") == whole
    assert cache.set("a", None, cache.begin())
    assert cache.get("a") is None


# --- restart counts


def status_of(count: int, *, container_id: str = "memory://x") -> PodStatus:
    return PodStatus(
        containerStatuses=(
            ContainerStatus(
                name="c",
                image="i",
                imageID="",
                ready=False,
                restartCount=count,
                containerID=container_id,
            ),
        )
    )


def test_restart_counts_only_increase() -> None:
    counts = RestartCounts()
    assert counts.next("a", "c") == 0
    counts.observe(observed("a", 3, 2))
    assert counts.next("a", "c") == 4
    shown = counts.show("a", status_of(2), seed=None)
    assert shown.containerStatuses[0].restartCount == 3
    counts.show("a", status_of(4, container_id=""), seed=None)
    assert counts.next("a", "c") == 4, "the status also counts the removed instance"
    counts.forget("a")
    assert counts.next("a", "c") == 0


def test_restart_counts_continue_from_the_records() -> None:
    counts = RestartCounts()
    shown = counts.show("a", status_of(0, container_id=""), seed=status_of(5))
    assert shown.containerStatuses[0].restartCount == 5
    assert counts.next("a", "c") == 6


# --- calls side by side


@virtual()
async def test_all_calls_are_attempted_and_a_lost_engine_has_precedence() -> None:
    done: list[int] = []

    async def call(number: int, error: EngineError | None) -> None:
        await asyncio.sleep(number)
        done.append(number)
        if error is not None:
            raise error

    with pytest.raises(EngineUnavailable):
        await gather_all(
            [
                lambda: call(1, EngineConflict("busy")),
                lambda: call(2, EngineUnavailable("gone")),
                lambda: call(3, None),
            ]
        )
    assert done == [1, 2, 3]
    await gather_all([])


# --- records


@virtual()
async def test_a_record_with_another_uid_is_a_deletion_and_an_addition() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    pods = home_ports(store, clock, "n1").pods
    statuses = StatusManager(pods, clock, "n1", lambda: "node-uid", lambda _uid: True)
    await statuses.load()
    seen: list[tuple[WatchType, str, str]] = []

    async def watch() -> None:
        async for change in store.watch("pods"):
            assert isinstance(change.object, Pod)
            seen.append((change.type, change.object.metadata.uid, change.object.status.phase))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch()), group.create_task(statuses.run())]
        await settle()
        old, new = pod("a", "old"), pod("a", "new")
        statuses.claim(old)
        statuses.set(old, PodStatus(phase="Running"))
        await settle()
        await asyncio.sleep(2)
        statuses.claim(new)
        statuses.set(new, PodStatus(phase="Pending"))
        await settle()
        # The old pod still has its grace period, but the record belongs to the new one.
        statuses.set(old, PodStatus(phase="Failed"))
        await settle()
        statuses.remove("old")
        await settle()
        statuses.remove("new")
        await settle()
        for task in tasks:
            task.cancel()
    added, deleted = WatchType.ADDED, WatchType.DELETED
    assert seen == [
        (added, "old", "Running"),
        (deleted, "old", "Running"),
        (added, "new", "Pending"),
        (deleted, "new", "Pending"),
    ]


@virtual()
async def test_a_status_that_could_not_be_written_is_retried() -> None:
    clock = VirtualClock()
    pods = home_ports(open_store(None, clock=clock), clock, "n1").pods
    conflicts = [PodtuiError("the object has been modified")] * 2

    class Conflicting:
        """Fails the first writes, as an API server may."""

        list, get, delete = pods.list, pods.get, pods.delete
        update = pods.update

        async def create(self, one: Pod) -> Pod:
            if conflicts:
                raise conflicts.pop()
            return await pods.create(one)

    client = cast("PodClient", Conflicting())
    statuses = StatusManager(client, clock, "n1", lambda: "node-uid", lambda _uid: True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(statuses.run())
        one = pod("a", "a")
        statuses.claim(one)
        statuses.set(one, PodStatus(phase="Running"))
        await asyncio.sleep(SYNC_SECONDS - 1)
        assert await pods.get("default", "a") is None
        await asyncio.sleep(SYNC_SECONDS + 2)
        record = await pods.get("default", "a")
        assert record is not None
        assert record.status.phase == "Running"
        task.cancel()


@virtual()
async def test_conditions_that_clients_add_to_a_static_pod_are_kept_but_not_the_kubelets() -> None:
    clock = VirtualClock()
    pods = home_ports(open_store(None, clock=clock), clock, "n1").pods
    statuses = StatusManager(pods, clock, "n1", lambda: "node-uid", lambda _uid: True)
    one = pod("a", "a")
    statuses.claim(one)

    async def types_after(status: PodStatus) -> list[str]:
        statuses.set(one, status)
        await statuses.drain()
        record = await pods.get("default", "a")
        assert record is not None
        return [condition.type for condition in record.status.conditions]

    ready = PodCondition(type="Ready", status="True")
    disrupted = PodCondition(type="DisruptionTarget", status="True")
    assert await types_after(PodStatus(phase="Failed", conditions=(disrupted, ready))) == [
        "DisruptionTarget",
        "Ready",
    ]
    record = await pods.get("default", "a")
    assert record is not None
    foreign = PodCondition(type="example.com/checked", status="True")
    added = structs.replace(record.status, conditions=(*record.status.conditions, foreign))
    await pods.update(record, lambda found: structs.replace(found, status=added))
    # It runs again: the end of its earlier run is over.
    running = PodStatus(phase="Running", conditions=(ready,))
    assert await types_after(running) == ["example.com/checked", "Ready"]


@pytest.mark.virtual_time
async def test_pending_events_are_stored_when_the_kubelet_ends() -> None:
    world = World()
    put, ends = world.store.put, asyncio.Event()

    async def stuck(resource: Resource, item: Any) -> Any:
        """Store no event until the kubelet ends."""
        if resource == "events" and not ends.is_set():
            try:
                await asyncio.Event().wait()
            finally:
                ends.set()
        return await put(resource, item)

    world.store.put = stuck  # type: ignore[method-assign]
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        assert not await world.events()
    assert [e.reason for e in await world.events()] == ["Pulled", "Created", "Started"]


@pytest.mark.virtual_time
async def test_a_failed_observation_of_a_pod_is_reported() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(1.0)
        world.engine.faults.drop_events = True
        world.engine.faults.fail("list", EngineError("nonsense"), times=3)
        world.kubelet.wake("uid-web-n1")
        await world.sleep(1.0)
        world.kubelet.wake("uid-web-n1")
        await world.sleep(30.0)
        failed = await world.events("web-n1", "FailedSync")
        assert {e.message for e in failed} <= {"error determining status: nonsense"}
        assert world.phase() == "Running"
        assert len(world.containers("uid-web-n1")) == 1


class SilentRuntime(MemoryRuntime):
    """Lists the pods ``a`` and ``b``, and leaves inspections of one of them unanswered."""

    def __init__(self, clock: VirtualClock, silent: str) -> None:
        super().__init__(clock=clock)
        self.silent = silent

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        return RuntimeSnapshot(sandboxes=(_record("a"), _record("b")), containers=())

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        if sandbox_id == self.silent:
            raise EngineTimeout("unix:///x: no answer in time")
        return SandboxStatus(record=_record(sandbox_id), ips=("10.0.0.1",), host_network=False)


def _record(name: str) -> SandboxRecord:
    return SandboxRecord(
        id=name, name=name, namespace="default", uid=name, attempt=0, state=SandboxState.READY,
        created_at=NOW,
    )  # fmt: skip


@pytest.mark.parametrize(("silent", "other"), [("a", "b"), ("b", "a")])
@virtual()
async def test_a_relist_continues_after_a_pod_that_cannot_be_inspected(
    silent: str, other: str
) -> None:
    clock, config = VirtualClock(), default_config()
    runtime = SilentRuntime(clock, silent)
    link = EngineLink(runtime, clock, config)
    cache = PodCache()
    pleg = Pleg(
        runtime, cache, link, clock, config, on_change=lambda _: None, is_busy=lambda _: False
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(link.run(pleg.relist, lambda: None))
        await asyncio.sleep(1)
        assert link.ready
        assert cache.get(other) is not None
        assert cache.get(silent) is None
        await pleg.relist()
        await asyncio.sleep(10)
        assert runtime.faults.calls["check"] == 1
        runtime.silent = ""
        await pleg.relist()
        assert cache.get(silent) is not None
        task.cancel()


# --- reads of ended containers


class ListingRuntime:
    """Lists no pod, counts the lists, and reports one event."""

    def __init__(self, event: RuntimeEvent) -> None:
        self.lists = 0
        self._event = event

    async def list(self, pod_uid: str = "") -> RuntimeSnapshot:
        self.lists += 1
        return RuntimeSnapshot(sandboxes=(), containers=())

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        yield self._event
        await asyncio.Event().wait()


@virtual()
async def test_an_end_seen_by_the_worker_is_not_inspected_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, config = VirtualClock(), default_config()
    runtime = ListingRuntime(RuntimeEvent(pod_uid="u1", action="destroy", id="c1"))
    as_runtime = cast(Runtime, runtime)
    link = EngineLink(as_runtime, clock, config)

    async def ready() -> None:
        """The engine answers."""

    monkeypatch.setattr(link, "wait_ready", ready)
    pleg = Pleg(
        as_runtime, PodCache(), link, clock, config, on_change=print, is_busy=lambda _: True
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in (pleg.run_events, pleg.run_refreshes)]
        await settle()
        await pleg.refresh("u1")
        await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
    assert runtime.lists == 1
