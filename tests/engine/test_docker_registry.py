"""A kubelet on the real engine, whose images come from a real registry."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubelet_settings import default_config
from kubelet_world import container, pod
from leftovers import leftovers
from registry_server import PASSWORD, USER, Registry, pushed_image, registry

from podtui.agent.home import home_ports
from podtui.api.v1 import Event, LocalObjectReference, ObjectMeta, Pod, Secret
from podtui.clock import SystemClock
from podtui.kubelet.images.pulled_images import FILE
from podtui.kubelet.kubelet import Kubelet
from podtui.manifest.folder_state import Folder
from podtui.runtime.docker import DockerRuntime
from podtui.store import Store, open_store

AUTH = {"username": USER, "password": PASSWORD}


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(120):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


class Machine:
    """A kubelet over a folder with one pod, on the real engine."""

    def __init__(self, url: str, root: Path, one: Pod, secrets: tuple[Secret, ...] = ()) -> None:
        clock = SystemClock()
        self.store: Store = open_store(None, clock=clock)
        self.pod = one
        self._secrets = {("default", s.metadata.name): s for s in secrets}
        self._removed = asyncio.Event()
        self.runtime = DockerRuntime(url, root=str(root), clock=clock)
        self.kubelet = Kubelet(
            runtime=self.runtime,
            ports=home_ports(self.store, clock, "n1"),
            records=self.store,
            folders=self._folders(),
            clock=clock,
            config=default_config(root_dir=str(root)),
        )

    async def _folders(self) -> AsyncIterator[Folder]:
        yield Folder(pods={self.pod.metadata.uid: self.pod}, secrets=self._secrets)
        await self._removed.wait()
        yield Folder()
        await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Machine]:
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.kubelet.run())
                try:
                    yield self
                finally:
                    self._removed.set()
                    await until(self._empty)
                    task.cancel()
        finally:
            await self.runtime.close()

    async def _empty(self) -> bool:
        found = await self.runtime.list()
        return not (found.sandboxes or found.containers or await self.runtime.pod_data())

    async def events(self, *reasons: str) -> list[Event]:
        listing = await self.store.list("events")
        found = [item for item in listing.items if isinstance(item, Event)]
        of_the_pod = [e for e in found if e.involvedObject.name == self.pod.metadata.name]
        of_the_pod.sort(key=lambda e: int(e.metadata.name.rsplit(".", 1)[1], 16))
        return [e for e in of_the_pod if not reasons or e.reason in reasons]

    async def record(self) -> Pod | None:
        found = await self.store.get("pods", "default", self.pod.metadata.name)
        return found if isinstance(found, Pod) else None

    async def until_running(self) -> Pod:
        async def runs() -> bool:
            record = await self.record()
            return record is not None and record.status.phase == "Running"

        await until(runs)
        record = await self.record()
        assert record is not None
        return record


def pod_of(image: str, **spec: object) -> Pod:
    sleeper = container(image=image, imagePullPolicy="Always", command=("sleep", "1000"))
    return pod("web-n1", str(uuid.uuid4()), sleeper, grace=1, **spec)


@pytest.fixture
def local(tmp_path: Path, raw: Any) -> Iterator[Registry]:
    with registry(tmp_path) as server:
        yield server


@pytest.fixture
def guarded(tmp_path: Path, raw: Any) -> Iterator[Registry]:
    with registry(tmp_path, login=True) as server:
        yield server


async def test_an_image_is_pulled_from_its_registry(
    local: Registry, raw: Any, engine_url: str, tmp_path: Path
) -> None:
    name = local.image("team/web:1")
    machine = Machine(engine_url, tmp_path, pod_of(name))
    with pushed_image(raw, name):
        async with machine.running():
            record = await machine.until_running()
            events = await machine.events()
            assert [event.reason for event in events[:4]] == [
                "Pulling",
                "Pulled",
                "Created",
                "Started",
            ]
            assert events[0].message == f'Pulling image "{name}"'
            image = await machine.runtime.image_status(name)
            assert image is not None
            duration = r"(\d+m)?[\d.]+m?s"
            assert re.fullmatch(
                rf'Successfully pulled image "{re.escape(name)}" in {duration} '
                rf"\({duration} including waiting\)\. Image size: {image.size} bytes\.",
                events[1].message,
            )
            (status,) = record.status.containerStatuses
            assert status.image == name
            assert re.fullmatch(
                re.escape(local.image("team/web")) + "@sha256:[0-9a-f]{64}", status.imageID
            )
            assert json.loads((tmp_path / FILE).read_text()) == {image.id: [name]}
        assert leftovers(raw, str(tmp_path)) == []


async def test_a_pull_secret_authenticates_to_a_private_registry(
    guarded: Registry, raw: Any, engine_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    name = guarded.image("team/web:1")
    document = {"auths": {guarded.image(""): {"username": USER, "password": PASSWORD}}}
    secret = Secret(
        metadata=ObjectMeta(name="login", namespace="default"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": base64.b64encode(json.dumps(document).encode()).decode()},
    )
    with pushed_image(raw, name, AUTH):
        reference = (LocalObjectReference(name="login"),)
        machine = Machine(engine_url, tmp_path, pod_of(name, imagePullSecrets=reference), (secret,))
        async with machine.running():
            await machine.until_running()
            messages = [event.message for event in await machine.events()]
        raw.remove_image(name)
        lacking = Machine(engine_url, tmp_path, pod_of(name, imagePullSecrets=reference))
        async with lacking.running():
            await until(lambda: lacking.events("Failed"))
            events = await lacking.events()
            assert [event.reason for event in events[:3]] == [
                "FailedToRetrieveImagePullSecret",
                "Pulling",
                "Failed",
            ]
            messages += [event.message for event in events]
        assert leftovers(raw, str(tmp_path)) == []
    assert PASSWORD not in caplog.text
    assert not [text for text in messages if PASSWORD in text]
