from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
from msgspec import structs

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import (
    Container,
    Event,
    Node,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
)
from podtui.errors import StoreGone
from podtui.store import Store, open_store
from podtui.store.protocol import Change, WatchType


def pod(name: str, namespace: str = "default", phase: str = "Pending") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(containers=(Container(name="c"),)),
        status=PodStatus(phase=phase),
    )


def event(name: str, message: str = "") -> Event:
    return Event(
        metadata=ObjectMeta(name=name, namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web"),
        message=message,
    )


async def take(changes: AsyncIterator[Change], count: int) -> list[tuple[str, str]]:
    taken: list[tuple[str, str]] = []
    async with asyncio.timeout(120):
        while len(taken) < count:
            change = await anext(changes)
            assert change.object is not None
            taken.append((change.type.value, change.object.metadata.name))
    return taken


async def test_put_fills_empty_metadata(memory: Store) -> None:
    stored = await memory.put("pods", pod("web"))
    assert stored.metadata.uid
    assert stored.metadata.creationTimestamp == "2026-01-01T00:00:00Z"
    assert int(stored.metadata.resourceVersion) > 0
    assert await memory.get("pods", "default", "web") is stored
    assert await memory.get("pods", "other", "web") is None


async def test_put_keeps_a_given_uid(memory: Store) -> None:
    given = structs.replace(pod("web"), metadata=ObjectMeta(name="web", namespace="d", uid="u"))
    assert (await memory.put("pods", given)).metadata.uid == "u"


async def test_equal_put_changes_nothing(memory: Store) -> None:
    first = await memory.put("pods", pod("web"))
    before = (await memory.list("pods")).resource_version
    assert await memory.put("pods", pod("web")) is first
    stale = structs.replace(first, metadata=structs.replace(first.metadata, resourceVersion="1"))
    assert await memory.put("pods", stale) is first
    assert (await memory.list("pods")).resource_version == before


async def test_list_is_ordered_and_of_one_namespace(memory: Store) -> None:
    for name, namespace in (("b", "x"), ("a", "y"), ("a", "x")):
        await memory.put("pods", pod(name, namespace))
    everything = await memory.list("pods")
    assert [(o.metadata.namespace, o.metadata.name) for o in everything.items] == [
        ("x", "a"),
        ("x", "b"),
        ("y", "a"),
    ]
    assert len((await memory.list("pods", "y")).items) == 1


async def test_many_lists_sort_the_names_once(memory: Store) -> None:
    comparisons = 0

    class Name(str):
        def __lt__(self, other: str) -> bool:
            nonlocal comparisons
            comparisons += 1
            return super().__lt__(other)

    for index in range(100):
        await memory.put("pods", pod(Name(f"p{index:03}")))
    await memory.list("pods")
    assert comparisons >= 99
    comparisons = 0
    await memory.put("pods", pod(Name("p050"), phase="Running"))
    await memory.list("pods")
    assert comparisons == 0


async def test_objects_need_names_and_their_own_resource(memory: Store) -> None:
    with pytest.raises(ValueError, match=r"metadata\.name"):
        await memory.put("pods", Pod(spec=PodSpec(containers=())))
    with pytest.raises(TypeError, match="Node"):
        await memory.put("pods", Node(metadata=ObjectMeta(name="n")))


async def test_watch_from_a_list_misses_nothing_and_repeats_nothing(memory: Store) -> None:
    await memory.put("pods", pod("a"))
    listing = await memory.list("pods")
    await memory.put("pods", pod("a", phase="Running"))
    await memory.put("pods", pod("b"))
    async with aclosing(memory.watch("pods", since=listing.resource_version)) as changes:
        await memory.delete("pods", "default", "a")
        assert await take(changes, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_watch_from_now_begins_when_it_is_asked_for(memory: Store) -> None:
    await memory.put("pods", pod("before"))
    async with aclosing(memory.watch("pods", "x")) as changes:
        await memory.put("pods", pod("elsewhere", "y"))
        await memory.put("pods", pod("after", "x"))
        assert await take(changes, 1) == [("ADDED", "after")]


async def test_changes_carry_version_and_previous(memory: Store) -> None:
    changes = memory.watch("pods")
    first = await memory.put("pods", pod("a"))
    second = await memory.put("pods", pod("a", phase="Running"))
    await memory.delete("pods", "default", "a")
    assert not await memory.delete("pods", "default", "a")
    seen = [await anext(changes) for _ in range(3)]
    assert [change.previous for change in seen] == [None, first, second]
    versions = [change.resource_version for change in seen]
    assert versions == sorted(set(versions))
    for change in seen:
        assert change.object is not None
        assert change.object.metadata.resourceVersion == str(change.resource_version)
    await changes.aclose()


async def test_too_old_and_foreign_versions_are_gone(clock: object) -> None:
    store = open_store(
        None,
        clock=clock,
        history={"pods": 4, "nodes": 4, "events": 4, "manifests": 4},
    )
    start = (await store.list("pods")).resource_version
    for index in range(4):
        await store.put("pods", pod(f"p{index}"))
    assert await take(store.watch("pods", since=start), 4)
    await store.put("pods", pod("one-more"))
    with pytest.raises(StoreGone, match="too old"):
        store.watch("pods", since=start)
    with pytest.raises(StoreGone, match="newer than the store"):
        store.watch("pods", since=start + 1000)
    assert await take(store.watch("pods", since=start + 1), 4)
    await store.close()


async def test_a_slow_watch_gets_gone_and_others_continue(clock: object) -> None:
    store = open_store(
        None,
        clock=clock,
        history={"pods": 8, "nodes": 8, "events": 8, "manifests": 8},
    )
    slow, quick = store.watch("pods"), store.watch("pods")
    for index in range(9):
        await store.put("pods", pod(f"p{index}"))
        assert await take(quick, 1) == [("ADDED", f"p{index}")]
    with pytest.raises(StoreGone, match="behind"):
        await anext(slow)
    await store.close()


async def test_close_ends_watches(memory: Store) -> None:
    async def read_all() -> int:
        return len([change async for change in memory.watch("pods")])

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        reader = group.create_task(read_all())
        await asyncio.sleep(0)
        await memory.put("pods", pod("a"))
        await memory.close()
    assert reader.result() == 1


async def test_events_expire(clock, memory: Store) -> None:
    changes = memory.watch("events")
    await memory.put("events", event("old"))
    await memory.put("events", event("renewed"))
    clock.advance(3000)
    await memory.put("events", event("renewed", "again"))
    clock.advance(700)
    assert [o.metadata.name for o in (await memory.list("events")).items] == ["renewed"]
    assert (await take(changes, 4))[-1] == ("DELETED", "old")
    assert await memory.get("events", "default", "old") is None


async def test_events_expire_without_other_changes(memory: Store) -> None:
    changes = memory.watch("events")
    await memory.put("events", event("old"))
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        ageing = group.create_task(memory.run())
        assert await take(changes, 2) == [("ADDED", "old"), ("DELETED", "old")]
        ageing.cancel()


async def test_events_are_bounded_in_number(clock: object) -> None:
    store = open_store(None, clock=clock, events_limit=3)
    changes = store.watch("events")
    for index in range(5):
        await store.put("events", event(f"e{index}"))
    assert [o.metadata.name for o in (await store.list("events")).items] == ["e2", "e3", "e4"]
    gone = [name for kind, name in await take(changes, 7) if kind == WatchType.DELETED.value]
    assert gone == ["e0", "e1"]
    await store.close()


async def test_all_records_survive_a_restart(opened: Callable[..., Store]) -> None:
    store = opened()
    kept = await store.put("pods", pod("kept", phase="Running"))
    await store.put("pods", pod("deleted"))
    await store.delete("pods", "default", "deleted")
    await store.put("nodes", Node(metadata=ObjectMeta(name="n")))
    await store.put("events", event("e"))
    manifest = Manifest(
        metadata=ObjectMeta(name="web.yaml"),
        spec=ManifestSpec(path="/m/web.yaml", text="kind: Pod\n"),
        status=ManifestStatus(state=ManifestState.ACCEPTED),
    )
    manifest = await store.put("manifests", manifest)
    version = (await store.list("pods")).resource_version
    await store.close()

    again = opened()
    assert again.recovered == ""
    assert (await again.list("pods")).items == (kept,)
    assert (await again.list("manifests")).items == (manifest,)
    assert len((await again.list("nodes")).items) == len((await again.list("events")).items) == 1
    assert (await again.list("pods")).resource_version > version
    with pytest.raises(StoreGone):
        again.watch("pods", since=version)


async def test_expired_events_are_not_reloaded(opened: Callable[..., Store], clock) -> None:
    store = opened()
    await store.put("events", event("e"))
    await store.close()
    clock.advance(4000)
    assert (await opened().list("events")).items == ()


async def test_versions_never_decrease_when_the_clock_goes_back(
    opened: Callable[..., Store], clock
) -> None:
    store = opened()
    await store.put("pods", pod("a"))
    await store.delete("pods", "default", "a")
    version = (await store.list("pods")).resource_version
    await store.close()
    clock.advance(-86400)
    assert (await opened().list("pods")).resource_version > version
