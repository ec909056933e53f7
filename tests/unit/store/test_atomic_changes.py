"""Create, update and conditional deletion of records, and lists of an earlier version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.api.v1 import ConfigMap, Lease, LeaseSpec, ObjectMeta
from podtui.clock import SystemClock
from podtui.errors import AlreadyExists, NotFound, StoreGone
from podtui.store import Store, open_store
from podtui.store.protocol import WatchType
from podtui.store.resources import RESOURCES


def config(name: str, value: str = "", namespace: str = "default") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"value": value})


def with_value(item: ConfigMap, value: str) -> ConfigMap:
    return structs.replace(item, data={"value": value})


@pytest.fixture
def store() -> Store:
    return open_store(None, clock=SystemClock())


async def test_create_sets_identity_and_refuses_duplicates(store: Store) -> None:
    first = await store.create("configmaps", config("a"))
    assert first.metadata.uid
    assert first.metadata.creationTimestamp
    with pytest.raises(AlreadyExists):
        await store.create("configmaps", config("a", "other"))
    assert await store.get("configmaps", "default", "a") == first


async def test_update_uses_the_current_object(store: Store) -> None:
    await store.create("configmaps", config("a", "1"))
    changes = store.watch("configmaps")

    def append(item: ConfigMap) -> ConfigMap:
        return with_value(item, item.data["value"] + "+")

    both = await asyncio.gather(
        *(store.update("configmaps", "default", "a", append) for _ in range(2))
    )
    assert [item.data["value"] for item in both] == ["1+", "1++"]
    change = await anext(changes)
    assert change.type is WatchType.MODIFIED
    assert change.previous is not None


async def test_update_without_a_difference_changes_nothing(store: Store) -> None:
    before = await store.create("configmaps", config("a", "1"))
    assert await store.update("configmaps", "default", "a", lambda item: with_value(item, "1")) == (
        before
    )
    assert (await store.list("configmaps")).resource_version == int(before.metadata.resourceVersion)


async def test_update_may_refuse(store: Store) -> None:
    before = await store.create("configmaps", config("a"))

    def refuse(item: ConfigMap) -> ConfigMap:
        raise PermissionError(item.metadata.name)

    with pytest.raises(PermissionError):
        await store.update("configmaps", "default", "a", refuse)
    with pytest.raises(NotFound):
        await store.update("configmaps", "default", "b", refuse)
    with pytest.raises(ValueError, match="cannot move"):
        await store.update("configmaps", "default", "a", lambda _: config("b"))
    assert await store.get("configmaps", "default", "a") == before


async def test_delete_with_a_check(store: Store) -> None:
    await store.create("configmaps", config("a"))

    def refuse(item: object) -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        await store.delete("configmaps", "default", "a", refuse)
    assert await store.get("configmaps", "default", "a") is not None
    assert not await store.delete("configmaps", "default", "b", refuse)
    assert await store.delete("configmaps", "default", "a", lambda item: None)


async def test_every_resource_survives_a_restart(tmp_path: Path) -> None:
    """A lease represents types of other groups, a ConfigMap those of the core group."""
    path = str(tmp_path / "records.db")
    store = open_store(path, clock=SystemClock())
    lease = Lease(
        metadata=ObjectMeta(name="node", namespace="kube-node-lease"),
        spec=LeaseSpec(holderIdentity="node"),
    )
    written = (
        await store.create("leases", lease),
        await store.create("configmaps", config("a", "1")),
    )
    await store.close()
    store = open_store(path, clock=SystemClock())
    assert written == (
        await store.get("leases", "kube-node-lease", "node"),
        await store.get("configmaps", "default", "a"),
    )
    await store.close()


def test_every_type_has_metadata_and_identity() -> None:
    for kept in RESOURCES.values():
        assert {"metadata", "apiVersion", "kind"} <= set(kept.type.__struct_fields__)


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2"])), max_size=12
)


@examples(100)
@given(OPERATIONS)
async def test_list_of_an_earlier_version(operations: list[tuple[str, str]]) -> None:
    """Operations set a value, or delete if it is empty."""
    ring = 6
    store = open_store(None, clock=SystemClock(), history={"configmaps": ring})
    first = await store.list("configmaps")
    snapshots = [(first.resource_version, first.items)]
    for name, value in operations:
        if value:
            await store.put("configmaps", config(name, value))
        else:
            await store.delete("configmaps", "default", name)
        listing = await store.list("configmaps")
        if listing.resource_version != snapshots[-1][0]:
            snapshots.append((listing.resource_version, listing.items))
    for age, (version, items) in enumerate(reversed(snapshots)):
        if age > ring:
            with pytest.raises(StoreGone):
                await store.list("configmaps", at=version)
        else:
            listing = await store.list("configmaps", at=version)
            assert (listing.resource_version, listing.items) == (version, items)
    with pytest.raises(StoreGone):
        await store.list("configmaps", at=snapshots[-1][0] + 1)
