"""Namespaces: their initial objects, and the deletion of their content."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from served import pod

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import ConfigMap, Lease, LeaseSpec, Namespace, ObjectMeta, Pod, Secret
from podtui.clock import SystemClock
from podtui.manifest.strategies.namespaces import NAMESPACES
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.resources.deletion import delete_record
from podtui.server.resources.namespace_care import PERMANENT, NamespaceCare, deletion_conditions
from podtui.store import Store, open_store

CLOCK = SystemClock()


@pytest.fixture
def store() -> Store:
    return open_store(None, clock=CLOCK)


@asynccontextmanager
async def caring(store: Store) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(NamespaceCare(store, CLOCK, lambda: "PEM").run())
        yield
        task.cancel()


def mirror(name: str, namespace: str) -> Pod:
    return with_meta(pod(name, namespace), annotations={CONFIG_MIRROR: "1"})


async def until(condition: Callable[[], Any]) -> Any:
    for _ in range(10_000):
        if found := await condition():
            return found
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def names(store: Store) -> set[str]:
    return {item.metadata.name for item in (await store.list("namespaces")).items}


async def delete(store: Store, name: str) -> None:
    item = await store.get("namespaces", "", name)
    await delete_record(store, "namespaces", NAMESPACES, item, seconds=None, now=CLOCK.now())


async def test_a_new_ca_certificate_is_written_to_all_namespaces(store: Store) -> None:
    certificates = ["old"]
    care = NamespaceCare(store, CLOCK, lambda: certificates[-1])
    await care.prepare()
    certificates.append("new")
    await care.update_root_ca()
    for namespace in PERMANENT:
        bundle = await store.get("configmaps", namespace, "kube-root-ca.crt")
        assert isinstance(bundle, ConfigMap)
        assert bundle.data == {"ca.crt": "new"}


async def test_initial_objects(store: Store) -> None:
    await store.put("pods", mirror("web", "shop"))
    await store.put("pods", pod("stray", "nowhere"))
    await NamespaceCare(store, CLOCK, lambda: "PEM").prepare()
    assert await names(store) == {*PERMANENT, "shop"}
    for namespace in (*PERMANENT, "shop"):
        assert await store.get("serviceaccounts", namespace, "default") is not None
        found = await store.get("configmaps", namespace, "kube-root-ca.crt")
        assert isinstance(found, ConfigMap)
        assert found.data == {"ca.crt": "PEM"}
        [entry] = found.metadata.managedFields
        assert (entry.manager, entry.operation) == ("kube-controller-manager", "Update")
        record = await store.get("namespaces", "", namespace)
        assert isinstance(record, Namespace)
        [entry] = record.metadata.managedFields
        assert (entry.manager, set(entry.fieldsV1)) == ("kube-apiserver", {"f:metadata"})
    before = found.metadata
    await NamespaceCare(store, CLOCK, lambda: "PEM").prepare()
    again = await store.get("configmaps", "shop", "kube-root-ca.crt")
    assert isinstance(again, ConfigMap)
    assert again.metadata == before, "an unchanged object is not written"


async def test_missing_objects_are_recreated(store: Store) -> None:
    async with caring(store):
        await until(lambda: store.get("configmaps", "default", "kube-root-ca.crt"))
        await store.delete("serviceaccounts", "default", "default")
        await store.delete("configmaps", "default", "kube-root-ca.crt")
        await until(lambda: store.get("serviceaccounts", "default", "default"))
        await until(lambda: store.get("configmaps", "default", "kube-root-ca.crt"))
        await store.put("pods", mirror("web", "shop"))
        await until(lambda: store.get("serviceaccounts", "shop", "default"))
        assert await store.get("serviceaccounts", "shop", "default")


async def test_a_deleted_namespace_ends_its_pods_first(store: Store) -> None:
    async with caring(store):
        await store.put("pods", mirror("static", "shop"))
        first: Any = await until(lambda: store.get("namespaces", "", "shop"))
        await store.put("configmaps", ConfigMap(metadata=ObjectMeta(name="c", namespace="shop")))
        item = pod("web", "shop")
        spec = structs.replace(item.spec, terminationGracePeriodSeconds=30)
        running = await store.put("pods", structs.replace(item, spec=spec))
        await delete(store, "shop")

        async def ending() -> bool:
            found = await store.get("pods", "shop", "web")
            return found is not None and found.metadata.deletionTimestamp is not None

        await until(ending)

        async def reported() -> bool:
            return (await conditions(store)).get("NamespaceContentRemaining") == (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: pods. has 1 resource instances",
            )

        await until(reported)
        # A pod that is ending may still need its configuration.
        assert await store.get("configmaps", "shop", "c") is not None
        kept: Any = await store.get("namespaces", "", "shop")
        assert kept.status.phase == "Terminating"
        # The kubelet has ended the pod.
        await store.delete("pods", "shop", running.metadata.name)

        async def new() -> bool:
            found = await store.get("namespaces", "", "shop")
            return found is not None and found.metadata.uid != first.metadata.uid

        # A static pod brings its namespace back.
        await until(new)
        assert await store.get("pods", "shop", "static") is not None


async def test_finalizers_hold_a_namespace(store: Store) -> None:
    async with caring(store):
        await store.put("pods", mirror("web", "shop"))
        await until(lambda: store.get("serviceaccounts", "shop", "default"))
        await store.delete("pods", "shop", "web")
        await store.update(
            "namespaces",
            "",
            "shop",
            lambda item: structs.replace(
                item, spec=structs.replace(item.spec, finalizers=("kubernetes", "a/b"))
            ),
        )
        await delete(store, "shop")

        async def finalized() -> bool:
            found: Any = await store.get("namespaces", "", "shop")
            return found.spec.finalizers == ("a/b",)

        await until(finalized)
        assert await finalized()


async def conditions(store: Store) -> dict[str, tuple[str, str, str]]:
    namespace: Any = await store.get("namespaces", "", "shop")
    found = namespace.status.conditions
    return {one.type: (one.status, one.reason, one.message) for one in found}


async def test_the_conditions_name_what_is_left(store: Store) -> None:
    async with caring(store):
        await store.put("pods", mirror("static", "shop"))
        await until(lambda: store.get("namespaces", "", "shop"))
        await store.delete("pods", "shop", "static")
        meta = ObjectMeta(name="s", namespace="shop", finalizers=("a/b", "a/c"))
        await store.put("secrets", Secret(metadata=meta))
        meta = structs.replace(meta, finalizers=("a/b",))
        await store.put("leases", Lease(metadata=meta, spec=LeaseSpec()))
        await delete(store, "shop")

        async def complete() -> bool:
            return len(await conditions(store)) == 5

        await until(complete)
        assert await conditions(store) == {
            "NamespaceDeletionDiscoveryFailure": (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            "NamespaceDeletionGroupVersionParsingFailure": (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            "NamespaceDeletionContentFailure": (
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            "NamespaceContentRemaining": (
                "True",
                "SomeResourcesRemain",
                (
                    "Some resources are remaining: leases.coordination.k8s.io has 1 resource"
                    " instances, secrets. has 1 resource instances"
                ),
            ),
            "NamespaceFinalizersRemaining": (
                "True",
                "SomeFinalizersRemain",
                (
                    "Some content in the namespace has finalizers remaining: a/b in 2 resource"
                    " instances, a/c in 1 resource instances"
                ),
            ),
        }
        await store.update(
            "secrets", "shop", "s", lambda item: with_meta(item, finalizers=("a/b",))
        )

        async def updated() -> bool:
            return "a/c" not in (await conditions(store))["NamespaceFinalizersRemaining"][2]

        await until(updated)


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    secret = Secret(metadata=ObjectMeta(name="s", finalizers=("a/b",)))
    first = deletion_conditions((), {"secrets.": [secret]}, "1")
    second = deletion_conditions(first, {"secrets.": [secret, secret]}, "2")
    assert {one.lastTransitionTime for one in second} == {"1"}
    assert "has 2 resource instances" in second[3].message
    third = deletion_conditions(second, {}, "3")
    assert [one.lastTransitionTime for one in third] == ["1", "1", "1", "3", "3"]
    assert [one.status for one in third] == ["False"] * 5


async def test_a_namespace_ends_after_the_last_finalizer_of_any_object(store: Store) -> None:
    async with caring(store):
        await store.put("pods", mirror("static", "shop"))
        await until(lambda: store.get("namespaces", "", "shop"))
        await store.delete("pods", "shop", "static")
        meta = ObjectMeta(name="s", namespace="shop", finalizers=("a/b",))
        await store.put("secrets", Secret(metadata=meta))
        await delete(store, "shop")

        async def marked() -> bool:
            found: Any = await store.get("secrets", "shop", "s")
            return found.metadata.deletionTimestamp is not None

        await until(marked)
        for _ in range(1000):  # until all passes have ended
            await asyncio.sleep(0)
        await store.delete("secrets", "shop", "s")

        async def gone() -> bool:
            return "shop" not in await names(store)

        await until(gone)
        assert await gone()
