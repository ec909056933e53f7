"""Objects whose owners are deleted, in the background, in the foreground, and as orphans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import convert, structs
from served import pod

from podtui.api.apps import Deployment, ReplicaSet
from podtui.api.batch import Job
from podtui.api.v1 import ConfigMap, Namespace, ObjectMeta, OwnerReference
from podtui.clock import SystemClock
from podtui.manifest.strategies.apps import DEPLOYMENTS
from podtui.manifest.strategies.config import CONFIG_MAPS
from podtui.manifest.strategies.namespaces import NAMESPACES, new_namespace
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.resources.deletion import FOREGROUND, ORPHAN, delete_record, update_record
from podtui.server.resources.garbage_collector import GarbageCollector
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.store import Store, open_store
from podtui.store.resources import Resource

CLOCK = SystemClock()
HOLD = "example.com/hold"


def reference(name: str, **fields: Any) -> OwnerReference:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}"}
    return OwnerReference(**{**found, **fields})


def config(name: str, *owners: str | OwnerReference, **meta: Any) -> ConfigMap:
    references = (one if isinstance(one, OwnerReference) else reference(one) for one in owners)
    return ConfigMap(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            ownerReferences=tuple(references),
            **meta,
        )
    )


def blocking(owner: str) -> OwnerReference:
    return reference(owner, blockOwnerDeletion=True)


class World:
    def __init__(self, store: Store) -> None:
        self.store = store

    async def delete(self, name: str, policy: str = "Background") -> None:
        item = await self.store.get("configmaps", "default", name)
        await delete_record(
            self.store,
            "configmaps",
            CONFIG_MAPS,
            item,
            seconds=None,
            now=CLOCK.now(),
            policy=policy,
        )
        await self.settle()

    async def release(self, name: str) -> None:
        """Remove all finalizers, as the component that set them does."""
        await update_record(
            self.store,
            "configmaps",
            CONFIG_MAPS,
            "default",
            name,
            lambda item: with_meta(item, finalizers=()),
        )
        await self.settle()

    async def settle(self) -> None:
        for _ in range(1000):
            await asyncio.sleep(0)

    async def names(self) -> str:
        """Return the names of all objects; those that are being deleted in parentheses."""
        items = (await self.store.list("configmaps")).items
        return " ".join(
            f"({item.metadata.name})" if item.metadata.deletionTimestamp else item.metadata.name
            for item in items
        )

    async def owners(self, name: str) -> list[str]:
        item = await self.store.get("configmaps", "default", name)
        assert item is not None
        return [one.name for one in item.metadata.ownerReferences]


@asynccontextmanager
async def collecting(*items: ConfigMap) -> AsyncIterator[World]:
    world = World(open_store(None, clock=CLOCK))
    for item in items:
        await world.store.create("configmaps", item)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(GarbageCollector(world.store, CLOCK).run())
        await world.settle()
        yield world
        task.cancel()


async def test_dependents_are_deleted_with_their_owner() -> None:
    chain = config("a"), config("b", "a"), config("c", "b"), config("d")
    async with collecting(*chain) as world:
        assert await world.names() == "a b c d"
        await world.delete("a")
        assert await world.names() == "d"


async def test_an_owner_that_went_before_the_start_is_noticed() -> None:
    async with collecting(config("b", "a"), config("c", "b")) as world:
        assert await world.names() == ""


async def test_only_lost_and_waiting_owners_need_a_pass_over_all_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with collecting(config("owner"), config("first", "owner")) as world:
        listed: list[str] = []
        read = world.store.list

        async def count(resource: Any, *arguments: Any, **options: Any) -> Any:
            listed.append(resource)
            return await read(resource, *arguments, **options)

        monkeypatch.setattr(world.store, "list", count)
        await world.store.create("configmaps", config("other"))
        await world.store.create("configmaps", config("second", "owner"))
        await world.settle()
        await world.delete("first")
        await world.delete("other")
        assert listed == []
        await world.delete("owner")
        assert listed
        assert await world.names() == ""


async def test_a_dependent_that_comes_during_a_pass_goes_with_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with collecting(config("a"), config("owner"), config("first", "a")) as world:
        paused, resumed = asyncio.Event(), asyncio.Event()
        read = world.store.list

        async def pause(resource: Resource, *arguments: Any, **options: Any) -> Any:
            listing = await read(resource, *arguments, **options)
            if resource == "configmaps":
                paused.set()
                await resumed.wait()
            return listing

        with monkeypatch.context() as patch:
            patch.setattr(world.store, "list", pause)
            await world.delete("a")
            assert paused.is_set()
            await world.store.create("configmaps", config("late", "owner"))
            await world.settle()
            resumed.set()
            await world.settle()
        assert await world.names() == "late owner"
        await world.delete("owner")
        assert await world.names() == ""


async def test_a_late_dependent_of_a_deleted_owner_is_deleted() -> None:
    async with collecting(config("a")) as world:
        await world.delete("a")
        await world.store.create("configmaps", config("b", "a"))
        await world.settle()
        assert await world.names() == ""


async def test_a_dependent_stays_while_one_owner_is_left() -> None:
    async with collecting(config("a"), config("b"), config("c", "a", "b")) as world:
        await world.delete("a")
        assert await world.owners("c") == ["b"]
        await world.delete("b")
        assert await world.names() == ""


@pytest.mark.parametrize(
    "owner",
    [
        reference("web", apiVersion="example.com/v1", kind="Widget"),
        reference("vm", kind="Node"),
        reference("x", kind="Namespace"),
        reference("x", apiVersion="v2"),
    ],
)
async def test_objects_with_an_owner_of_another_kind_are_left_alone(owner: OwnerReference) -> None:
    async with collecting(config("b", owner), config("c", "gone", owner)) as world:
        assert await world.names() == "b c"
        assert await world.owners("c") == ["gone", owner.name]


async def test_a_namespace_deleted_in_the_foreground_goes() -> None:
    async with collecting() as world:
        namespace = new_namespace(Namespace(metadata=ObjectMeta(name="x")))
        item = await world.store.create("namespaces", namespace)
        _, gone = await delete_record(
            world.store,
            "namespaces",
            NAMESPACES,
            item,
            seconds=None,
            now=CLOCK.now(),
            policy="Foreground",
        )
        assert not gone
        await NamespaceCare(world.store, CLOCK).prepare()
        await world.settle()
        assert await world.store.get("namespaces", "", "x") is None


async def test_an_owner_of_the_same_name_with_another_uid_is_another_object() -> None:
    async with collecting(config("a"), config("b", reference("a", uid="older"))) as world:
        assert await world.names() == "a"


async def test_finalizers_hold_a_dependent() -> None:
    async with collecting(config("a"), config("b", "a", finalizers=(HOLD,))) as world:
        await world.delete("a")
        assert await world.names() == "(b)"
        await world.release("b")
        assert await world.names() == ""


async def test_an_owner_deleted_in_the_foreground_waits_for_those_that_block_it() -> None:
    dependents = (
        config("b", blocking("a"), finalizers=(HOLD,)),
        config("c", blocking("b"), finalizers=(HOLD,)),
        config("d", "a", finalizers=(HOLD,)),
    )
    async with collecting(config("a"), *dependents) as world:
        await world.delete("a", "Foreground")
        assert await world.names() == "(a) (b) (c) (d)"
        await world.release("c")
        assert await world.names() == "(a) (b) (d)"
        await world.release("b")
        assert await world.names() == "(d)"


async def test_an_owner_without_dependents_goes_at_once() -> None:
    async with collecting(config("a"), config("b")) as world:
        await world.delete("a", "Foreground")
        await world.delete("b", "Orphan")
        assert await world.names() == ""


async def test_owners_of_each_other_do_not_wait_forever() -> None:
    async with collecting(config("a", blocking("b")), config("b", blocking("a"))) as world:
        await world.delete("a", "Foreground")
        assert await world.names() == ""


async def test_orphans_stay() -> None:
    async with collecting(config("a"), config("b", blocking("a")), config("c", "b")) as world:
        await world.delete("a", "Orphan")
        assert await world.names() == "b c"
        assert await world.owners("b") == []


async def test_a_deleted_owner_exists_as_long_as_a_finalizer_holds_it() -> None:
    async with collecting(config("a", finalizers=(HOLD,)), config("b", "a")) as world:
        await world.delete("a")
        assert await world.names() == "(a) b"
        await world.release("a")
        assert await world.names() == ""


async def test_static_pods_do_not_depend_on_the_record_of_their_node() -> None:
    async with collecting() as world:
        item = with_meta(pod("web"), ownerReferences=(reference("gone-node", kind="Node"),))
        await world.store.put("pods", item)
        await world.settle()
        assert await world.store.get("pods", "default", "web") is not None


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Background", ""), ("Foreground", ""), ("Orphan", "replicasets/web-1 pods/web-1-x")],
)
async def test_a_deployment_goes_with_its_replica_sets_and_pods(policy: str, left: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    apps = {"apiVersion": "apps/v1", "blockOwnerDeletion": True, "controller": True}
    deployment = convert({"metadata": {"name": "web", "uid": "d"}, "spec": spec}, Deployment)
    owner = OwnerReference(**apps, kind="Deployment", name="web", uid="d")
    meta = ObjectMeta(name="web-1", uid="r", ownerReferences=(owner,))
    replica_set = convert({"metadata": {}, "spec": spec}, ReplicaSet)
    owner = OwnerReference(**apps, kind="ReplicaSet", name="web-1", uid="r")
    item = pod("web-1-x", phase="Succeeded")
    async with collecting() as world:
        store = world.store
        deployment = with_meta(deployment, namespace="default")
        await store.create("deployments", deployment)
        replica_set = structs.replace(replica_set, metadata=meta)
        await store.create("replicasets", with_meta(replica_set, namespace="default"))
        await store.create("pods", with_meta(item, ownerReferences=(owner,)))
        await delete_record(
            store,
            "deployments",
            DEPLOYMENTS,
            await store.get("deployments", "default", "web"),
            seconds=None,
            now=CLOCK.now(),
            policy=policy,
        )
        await world.settle()
        kinds: tuple[Resource, ...] = ("deployments", "replicasets", "pods")
        found = [
            f"{kind}/{item.metadata.name}"
            for kind in kinds
            for item in (await store.list(kind)).items
        ]
        assert " ".join(found) == left


async def test_a_cron_job_goes_with_its_jobs_and_their_pods() -> None:
    spec = {"template": {"spec": {"containers": []}}}
    batch = {"apiVersion": "batch/v1", "controller": True}
    owner = OwnerReference(**batch, kind="CronJob", name="tick", uid="gone")
    job = convert({"metadata": {"name": "tick-1", "uid": "j"}, "spec": spec}, Job)
    item = pod("tick-1-x", phase="Succeeded")
    async with collecting() as world:
        of_job = OwnerReference(**batch, kind="Job", name="tick-1", uid="j")
        job = with_meta(job, namespace="default", ownerReferences=(owner,))
        await world.store.create("jobs", job)
        await world.store.create("pods", with_meta(item, ownerReferences=(of_job,)))
        await world.settle()
        assert not (await world.store.list("jobs")).items
        assert not (await world.store.list("pods")).items


def test_the_finalizers_are_those_of_kubernetes() -> None:
    assert (FOREGROUND, ORPHAN) == ("foregroundDeletion", "orphan")
