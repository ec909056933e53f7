"""The screen on a real API server with records in memory, and objects for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from served import Served, serving
from textual.pilot import Pilot
from tui_app import make_app, wait_for
from tui_scene import pod, status

from podtui.api.v1 import ObjectMeta, OwnerReference, Pod
from podtui.client.any_kind import ServedKind
from podtui.client.api_client import ApiClient
from podtui.client.unix import UnixClient
from podtui.tui.app import PodtuiApp
from podtui.tui.model.model import LinkState
from podtui.tui.screens.objects.kind_screen import KindScreen
from podtui.tui.screens.objects.object_screen import ObjectScreen


def template(image: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def deployment(name: str = "web", image: str = "nginx:1.27", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": template(image), **spec,
        },
    }  # fmt: skip


def secret(name: str = "login") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"password": "open sesame", "user": "anne"},
    }


def cron_job(name: str = "backup") -> dict[str, Any]:
    job = {"template": {"spec": {**template("busybox:1")["spec"], "restartPolicy": "Never"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}},
    }


class ObjectWorld:
    """``client`` is one of its own: the app closes the client that it uses."""

    def __init__(self, served: Served, client: UnixClient) -> None:
        self.served = served
        self.client = client
        self.kinds: dict[str, ServedKind] = {}

    async def kind(self, name: str) -> ServedKind:
        if not self.kinds:
            self.kinds = {kind.qualified_name: kind for kind in await self.client.kinds()}
        return self.kinds[name]

    async def create(self, kind: str, content: dict[str, Any]) -> ObjectMeta:
        namespace = content["metadata"].get("namespace", "")
        created = await self.client.create_object(await self.kind(kind), namespace, content)
        return created.metadata

    async def read(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        served = await self.kind(kind)
        return (await self.client.get_object(served, namespace, name)).content

    async def replica_set(
        self, owner: ObjectMeta, revision: int, image: str, cause: str = ""
    ) -> ObjectMeta:
        """Create the ReplicaSet of a revision of a Deployment."""
        name = f"web-{revision}"
        labels = {"app": "web", "pod-template-hash": str(revision)}
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        if cause:
            annotations["kubernetes.io/change-cause"] = cause
        content = deployment(name, image)
        meta = content["metadata"] | {"annotations": annotations, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner.name, "uid": owner.uid,
             "controller": True}
        ]}  # fmt: skip
        made = template(image)
        made["metadata"]["labels"] = labels
        spec = {"selector": {"matchLabels": labels}, "template": made, "replicas": 1}
        return await self.create(
            "replicasets.apps",
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec},
        )

    async def pod(self, owner: ObjectMeta, name: str, kind: str = "ReplicaSet") -> Pod:
        """Store a running pod of an owner."""
        made = pod(name, status("c"))
        owners = (OwnerReference(apiVersion="apps/v1", kind=kind, name=owner.name, uid=owner.uid,
                                 controller=True),)  # fmt: skip
        meta = msgspec.structs.replace(
            made.metadata, ownerReferences=owners, annotations={}, name=name
        )
        stored = msgspec.structs.replace(made, metadata=meta)
        await self.served.store.put("pods", stored)
        return stored


@asynccontextmanager
async def object_world(folder: Path) -> AsyncIterator[ObjectWorld]:
    async with serving(folder / "podtui.sock") as served:
        client = UnixClient(served.socket)
        try:
            yield ObjectWorld(served, client)
        finally:
            await client.close()


@asynccontextmanager
async def running_on(
    world: ObjectWorld,
    size: tuple[int, int] = (140, 40),
    client: ApiClient | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None]]]:
    app = make_app(client or UnixClient(world.served.socket), **settings)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await wait_for(pilot, lambda: app.model.link is LinkState.CONNECTED, "an answer")
        await wait_for(pilot, lambda: app.model.kinds, "the kinds")
        yield app, pilot


async def open_list(app: PodtuiApp, pilot: Pilot[None], command: str, rows: int = 1) -> KindScreen:
    """Run a command of the prompt, and wait for its rows."""
    app.run_command(command)
    await wait_for(pilot, lambda: isinstance(app.screen, KindScreen), command)
    screen = app.screen
    assert isinstance(screen, KindScreen)
    await wait_for(pilot, lambda: len(screen.pane.table.set) == rows, f"{rows} rows")
    return screen


async def open_object(
    app: PodtuiApp, pilot: Pilot[None], command: str, rows: int = 1
) -> ObjectScreen:
    """Open the first object of a list."""
    await open_list(app, pilot, command, rows)
    await pilot.press("enter")
    await wait_for(pilot, lambda: isinstance(app.screen, ObjectScreen), "the object")
    screen = app.screen
    assert isinstance(screen, ObjectScreen)
    await wait_for(pilot, lambda: screen.item is not None, "its content")
    return screen
