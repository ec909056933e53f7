"""Kinds of discovery documents, Tables and objects as plain data, on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from served import put_records, serving

from podtui.client.any_kind import (
    AnyObject,
    DiscoveryList,
    ServedKind,
    TableReader,
    TableRow,
    listed_kinds,
)
from podtui.client.protocol import Changed, Removed, Synced
from podtui.client.unix import UnixClient
from podtui.errors import ApiError

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"b": "c"},
}


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[UnixClient, dict[str, ServedKind]]]:
    async with serving(folder / "s.sock") as served:
        await put_records(served.store)
        client = UnixClient(served.socket)
        try:
            yield client, {kind.qualified_name: kind for kind in await client.kinds()}
        finally:
            await client.close()


async def test_kinds_have_the_names_of_discovery(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, kinds):
        deployments = kinds["deployments.apps"]
        assert (deployments.kind, deployments.short_names) == ("Deployment", ("deploy",))
        assert "scale" in deployments.subresources
        assert deployments.namespaced
        assert not kinds["persistentvolumes"].namespaced


def test_a_custom_resource_is_listed_in_its_preferred_version() -> None:
    def resource(**more: Any) -> dict[str, Any]:
        kind = {"responseKind": {"kind": "Database"}, "verbs": ["list", "watch"]}
        return {"resource": "databases", "scope": "Namespaced", **kind, **more}

    document = {"items": [{"metadata": {"name": "acme.example"}, "versions": [
        {"version": "v1", "resources": [resource(), resource(resource="logins", verbs=["create"])]},
        {"version": "v1beta1", "resources": [resource()]},
    ]}]}  # fmt: skip
    decoded = msgspec.convert(document, DiscoveryList)
    (kind,) = listed_kinds([decoded])
    assert (kind.api_version, kind.qualified_name) == ("acme.example/v1", "databases.acme.example")
    assert kind.collection("shop") == "/apis/acme.example/v1/namespaces/shop/databases"


async def test_a_table_follows_changes(tmp_path: Path) -> None:
    async with connected(tmp_path) as (client, kinds):
        maps = kinds["configmaps"]
        async with aclosing(client.follow_table(maps, "default")) as deltas:
            synced = await anext(deltas)
            assert isinstance(synced, Synced)
            created = await client.create_object(maps, "default", CONFIG_MAP)
            changed = await anext(deltas)
            assert isinstance(changed, Changed)
            (row,) = changed.items
            assert isinstance(row, TableRow)
            assert [column.name for column in row.columns] == ["Name", "Data", "Age"]
            assert row.cells[:2] == ("a", 1)
            await client.delete_object(maps, "default", "a", uid=created.metadata.uid)
            assert isinstance(await anext(deltas), Removed)


async def test_one_object_is_followed_as_plain_data(tmp_path: Path) -> None:
    async with connected(tmp_path) as (client, kinds):
        maps = kinds["configmaps"]
        await client.create_object(maps, "default", CONFIG_MAP)
        other = {**CONFIG_MAP, "metadata": {"name": "other", "namespace": "default"}}
        await client.create_object(maps, "default", other)
        async with aclosing(client.follow_objects(maps, "default", "a")) as deltas:
            synced = await anext(deltas)
            assert isinstance(synced, Synced)
            (item,) = synced.items
            assert isinstance(item, AnyObject)
            assert item.content["kind"] == "ConfigMap"
            assert "managedFields" not in item.content["metadata"]
            patch = {"data": {"b": None, "d": "e"}}
            checked = await client.patch_object(maps, "default", "a", patch, dry_run=True)
            assert checked.content["data"] == {"d": "e"}
            await client.patch_object(maps, "default", "a", patch)
            changed = await anext(deltas)
            assert changed.items[0].content["data"] == {"d": "e"}  # type: ignore[union-attr]


async def test_objects_are_counted_and_a_successor_is_not_deleted(tmp_path: Path) -> None:
    async with connected(tmp_path) as (client, kinds):
        assert await client.count(kinds["pods"]) == 3
        assert await client.count(kinds["pods"], "other") == 1
        with pytest.raises(ApiError) as raised:
            await client.delete_object(kinds["pods"], "default", "web", uid="earlier")
        assert raised.value.code == 409


def test_a_server_without_tables_gives_names() -> None:
    reader = TableReader(ServedKind(api_version="v1", kind="X", plural="xs"))
    body = b'{"kind":"XList","metadata":{},"items":[{"metadata":{"name":"a"}}]}'
    rows, _ = reader.decode_list(body)
    assert [row.cells for row in rows] == [("a",)]
    assert not reader.watches
