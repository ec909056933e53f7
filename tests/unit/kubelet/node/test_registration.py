"""The registration of the node."""

from __future__ import annotations

import asyncio

import pytest
from kubelet_world import World
from msgspec import structs
from virtual_time import virtual

from podtui.api.v1 import Node
from podtui.errors import PodtuiError


async def stored(world: World) -> Node | None:
    node = await world.store.get("nodes", "", "n1")
    return node if isinstance(node, Node) else None


@virtual()
async def test_a_new_node_gets_its_taints_and_an_existing_one_keeps_its_own() -> None:
    taints = (("dedicated", "web", "NoSchedule"), ("new", "", "NoExecute"))
    world = World(register_with_taints=taints)
    async with world.running():
        await asyncio.sleep(1)
        node = await stored(world)
    assert node is not None
    given = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]
    assert given == list(taints)
    untainted = structs.replace(node, spec=structs.replace(node.spec, taints=()))
    await world.store.put("nodes", untainted)
    async with world.running():
        await asyncio.sleep(1)
        node = await stored(world)
    assert node is not None
    assert node.spec.taints == ()


@virtual()
async def test_a_node_is_not_created_without_registration() -> None:
    async with World(register_node=False).running() as world:
        await asyncio.sleep(60)
        assert await stored(world) is None


@virtual()
async def test_a_node_is_registered_when_the_api_answers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    create, failures = world.store.create, 3

    async def fails(resource: str, item: object) -> object:
        nonlocal failures
        if resource == "nodes" and failures:
            failures -= 1
            raise PodtuiError("connection refused")
        return await create(resource, item)  # type: ignore[arg-type, type-var]

    monkeypatch.setattr(world.store, "create", fails)
    async with world.running():
        await asyncio.sleep(60)
        assert await stored(world) is not None
        assert failures == 0


@virtual()
async def test_the_cluster_is_to_attach_volumes_to_the_node() -> None:
    name = "volumes.kubernetes.io/controller-managed-attach-detach"
    world = World()
    async with world.running():
        await asyncio.sleep(1)
        node = await stored(world)
    assert node is not None
    assert node.metadata.annotations[name] == "true"
    # A node that was registered without it gets it, as from a kubelet.
    await world.store.put(
        "nodes", structs.replace(node, metadata=structs.replace(node.metadata, annotations={}))
    )
    async with world.running():
        await asyncio.sleep(1)
        node = await stored(world)
    assert node is not None
    assert node.metadata.annotations[name] == "true"
