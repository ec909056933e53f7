"""The objects of the folder in the API, over a real server with its records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from manifests import NODE
from served import Served, serving

from podtui.agent.folder_objects import FolderObjects
from podtui.api.apps import Deployment
from podtui.api.local import Diagnostic, ManifestState
from podtui.api.names import FOLDER_MANAGER, MANIFEST_PATH
from podtui.api.v1 import ConfigMap, Event, Namespace, ObjectMeta
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder_state import Folder, FolderState
from podtui.manifest.listing import Stamp
from podtui.manifest.objects import FolderDocument
from podtui.store import Store
from podtui.store.resources import Resource

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: shop}\ndata: {A: b}\n"
CLAIM = (
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\n"
    "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
)
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "busybox:1"}
"""


class Source:
    """A folder whose files change at once."""

    def __init__(self) -> None:
        self.state = FolderState(strict=False, previous={})
        self.changed = asyncio.Event()
        self.count = 0

    async def snapshots(self) -> AsyncGenerator[Folder, None]:
        while True:
            self.changed.clear()
            yield self.state.folder("now")
            await self.changed.wait()

    def put(self, name: str, *documents: str) -> None:
        self.count += 1
        text = "---\n".join(documents)
        result = read_manifest(f"/m/{name}", text.encode(), node_name=NODE)
        stamp = Stamp(self.count, self.count, 1, 1)
        self.state.read(name, f"/m/{name}", self.count, stamp, b"", result)
        self.changed.set()

    def delete(self, name: str) -> None:
        self.state.forget(name)
        self.changed.set()

    def refuse(
        self, name: str, documents: tuple[FolderDocument, ...], errors: tuple[Diagnostic, ...]
    ) -> None:
        self.state.refuse(name, documents, errors)
        self.changed.set()


class World:
    def __init__(self, served: Served, client: UnixClient) -> None:
        self.source = Source()
        self.store: Store = served.store
        self.client = client
        self.objects = FolderObjects(self.source, self.store, client, SystemClock())
        self.last = Folder()

    async def follow(self) -> None:
        async with aclosing(self.objects.snapshots()) as folders:
            async for folder in folders:
                for manifest in folder.manifests.values():
                    await self.store.put("manifests", manifest)
                self.last = folder

    async def get(self, resource: Resource, name: str, namespace: str = "shop") -> Any:
        return await self.store.get(resource, namespace, name)

    async def until(self, test: Callable[[], Any]) -> Any:
        """Return the first true result of an async function."""
        async with asyncio.timeout(20):
            while not (result := await test()):
                await SystemClock().sleep(0.01)
        return result

    async def events(self, reason: str) -> list[Event]:
        items = (await self.store.list("events")).items
        return [e for e in items if isinstance(e, Event) and e.reason == reason]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path) as it:
        yield it


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[World]:
    socket = tmp_path / "s"
    async with serving(socket) as served:
        client = UnixClient(socket, agent=FOLDER_MANAGER)
        it = World(served, client)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(it.objects.run()), group.create_task(it.follow())]
            yield it
            for task in tasks:
                task.cancel()
        await client.close()


async def test_documents_are_applied_and_their_namespace_is_created(world: World) -> None:
    world.source.put("a.yaml", CONFIG, DEPLOYMENT, CLAIM)
    item = await world.until(lambda: world.get("deployments", "web"))
    assert item.spec.replicas == 2
    assert item.metadata.annotations[MANIFEST_PATH] == "/m/a.yaml"
    [entry] = [e for e in item.metadata.managedFields if e.manager == FOLDER_MANAGER]
    assert entry.operation == "Apply"
    assert (await world.get("configmaps", "m")).data == {"A": "b"}
    assert await world.store.get("namespaces", "", "shop") is not None


async def test_a_changed_document_changes_its_object(world: World) -> None:
    world.source.put("a.yaml", CONFIG)
    await world.until(lambda: world.get("configmaps", "m"))
    world.source.put("a.yaml", CONFIG.replace("A: b", "B: c"))

    async def changed() -> bool:
        return (await world.get("configmaps", "m")).data == {"B": "c"}

    await world.until(changed)


async def test_a_change_by_others_is_reverted_with_an_event(world: World) -> None:
    world.source.put("a.yaml", DEPLOYMENT)
    await world.until(lambda: world.get("deployments", "web"))
    await world.client.patch(Deployment, "shop", "web", {"spec": {"replicas": 5}})

    async def reverted() -> bool:
        return (await world.get("deployments", "web")).spec.replicas == 2

    await world.until(reverted)
    [event] = await world.until(lambda: world.events("FolderReverted"))
    assert event.message == "Restored .spec.replicas: /m/a.yaml states it"
    assert event.involvedObject.name == "web"


async def test_fields_that_no_document_states_belong_to_others(world: World) -> None:
    world.source.put("a.yaml", CONFIG)
    await world.until(lambda: world.get("configmaps", "m"))
    await world.client.patch(ConfigMap, "shop", "m", {"data": {"C": "d"}})
    world.source.put("a.yaml", CONFIG.replace("A: b", "A: x"))

    async def changed() -> bool:
        return (await world.get("configmaps", "m")).data == {"A": "x", "C": "d"}

    await world.until(changed)
    assert await world.events("FolderReverted") == []


async def test_a_deleted_object_comes_back(world: World) -> None:
    world.source.put("a.yaml", CONFIG)
    before = await world.until(lambda: world.get("configmaps", "m"))
    path = "/api/v1/namespaces/shop/configmaps/m"
    connection = world.client._connection  # pyright: ignore[reportPrivateUsage]
    async with connection.stream("DELETE", path) as response:
        warning = response.headers["Warning"]
    assert "comes from /m/a.yaml and is created again" in warning

    async def returned() -> bool:
        item = await world.get("configmaps", "m")
        return item is not None and item.metadata.uid != before.metadata.uid

    await world.until(returned)
    assert await world.until(lambda: world.events("FolderRecreated"))


async def test_objects_go_with_their_document_but_claims_stay(world: World) -> None:
    world.source.put("a.yaml", CONFIG, DEPLOYMENT, CLAIM)
    await world.until(lambda: world.get("deployments", "web"))
    world.source.put("a.yaml", CONFIG)

    async def gone() -> bool:
        return await world.get("deployments", "web") is None

    await world.until(gone)
    assert await world.get("persistentvolumeclaims", "data") is not None
    world.source.delete("a.yaml")

    async def config_gone() -> bool:
        return await world.get("configmaps", "m") is None

    await world.until(config_gone)
    assert await world.get("persistentvolumeclaims", "data") is not None


async def test_a_file_that_the_api_refuses_keeps_its_version_before(world: World) -> None:
    world.source.put("a.yaml", CONFIG, DEPLOYMENT)
    await world.until(lambda: world.get("deployments", "web"))
    other = DEPLOYMENT.replace("app: web", "app: other")
    world.source.put("a.yaml", CONFIG.replace("A: b", "A: c"), other)

    async def refused() -> bool:
        manifest = world.last.manifests.get("a.yaml")
        return manifest is not None and manifest.status.state is ManifestState.LAST_GOOD

    await world.until(refused)
    [finding] = world.last.manifests["a.yaml"].status.diagnostics
    assert (finding.code, finding.line, finding.field) == ("Refused", 11, "spec.selector")
    assert "field is immutable" in finding.message
    assert (await world.get("configmaps", "m")).data == {"A": "b"}
    world.source.put("a.yaml", CONFIG.replace("A: b", "A: c"), DEPLOYMENT)

    async def applied() -> bool:
        return (await world.get("configmaps", "m")).data == {"A": "c"}

    await world.until(applied)


async def test_an_invalid_version_keeps_the_objects(world: World) -> None:
    world.source.put("a.yaml", CONFIG)
    await world.until(lambda: world.get("configmaps", "m"))
    world.source.put("a.yaml", CONFIG.replace("data:", "dat:"))

    async def seen() -> bool:
        manifest = world.last.manifests.get("a.yaml")
        return manifest is not None and manifest.status.state is ManifestState.LAST_GOOD

    await world.until(seen)
    assert (await world.get("configmaps", "m")).data == {"A": "b"}


async def test_a_new_agent_prunes_what_went_and_keeps_what_it_cannot_know(tmp_path: Path) -> None:
    async with serving(tmp_path / "s") as served:
        client = UnixClient(tmp_path / "s", agent=FOLDER_MANAGER)
        for name, file in (("gone", "gone.yaml"), ("unknown", "broken.yaml")):
            configuration = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "annotations": {MANIFEST_PATH: f"/m/{file}"}},
                "data": {"A": "b"},
            }
            await client.apply(
                ConfigMap, "default", name, configuration, manager=FOLDER_MANAGER, force=True
            )
        await client.create(
            ConfigMap, ConfigMap(metadata=ObjectMeta(name="mine", namespace="default"))
        )
        it = World(served, client)
        it.source.put("broken.yaml", "kind: [")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(it.objects.run()), group.create_task(it.follow())]

            async def gone() -> bool:
                return await it.get("configmaps", "gone", "default") is None

            await it.until(gone)
            assert await it.get("configmaps", "unknown", "default") is not None
            assert await it.get("configmaps", "mine", "default") is not None
            for task in tasks:
                task.cancel()
        await client.close()


class CreatingClient(UnixClient):
    """Creates the namespace of an object as soon as the API has answered that there is none."""

    store: Store

    async def apply(self, kind: Any, namespace: str, *args: Any, **options: Any) -> Any:
        try:
            return await super().apply(kind, namespace, *args, **options)
        except ApiError as error:
            if error.code == 404:
                await self.store.put("namespaces", Namespace(metadata=ObjectMeta(name=namespace)))
            raise


async def test_a_namespace_that_appears_during_the_check_refuses_no_file(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    async with serving(socket) as served:
        client = CreatingClient(socket, agent=FOLDER_MANAGER)
        client.store = served.store
        it = World(served, client)
        space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
        it.source.put("a.yaml", space, CONFIG)
        refusals: list[Any] = []
        it.source.refuse = lambda *given: refusals.append(given)  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(it.objects.run()), group.create_task(it.follow())]
            await it.until(lambda: it.get("configmaps", "m"))
            for task in tasks:
                task.cancel()
        await client.close()
    assert refusals == []
