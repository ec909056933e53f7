"""A kubelet on the real engine, fed with manifests as they are written."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from kubelet_settings import default_config

from podtui.agent.home import home_ports
from podtui.api.v1 import Event, Pod, PodStatus
from podtui.clock import SystemClock
from podtui.errors import EngineError
from podtui.kubelet.kubelet import Kubelet
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder_state import Folder
from podtui.manifest.identity import seen_text, with_seen
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import LogOptions
from podtui.store import Store, open_store

PATIENCE = 120.0
NODE = "n1"


class EngineWorld:
    """Everything that its pods leave on the engine is removed when the world ends."""

    def __init__(self, url: str, **config: object) -> None:
        clock = SystemClock()
        root = f"engine-world-{uuid.uuid4().hex[:12]}"
        self.runtime = DockerRuntime(url, root=root, clock=clock)
        self.store: Store = open_store(None, clock=clock)
        self._pods: dict[str, Pod] = {}
        self._changed = asyncio.Event()
        self.kubelet = Kubelet(
            runtime=self.runtime,
            ports=home_ports(self.store, clock, NODE),
            records=self.store,
            folders=self._folders(),
            clock=clock,
            config=default_config(node_name=NODE, **config),
            jitter=lambda: 0.0,
        )

    async def _folders(self) -> AsyncIterator[Folder]:
        while True:
            self._changed.clear()
            yield Folder(pods=dict(self._pods))
            await self._changed.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[EngineWorld]:
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.kubelet.run())
                yield self
                task.cancel()
        finally:
            await self._clear()
            await self.runtime.close()
            await self.store.close()

    async def _clear(self) -> None:
        snapshot = await self.runtime.list()
        for sandbox in snapshot.sandboxes:
            await self.runtime.remove_sandbox(sandbox.id)
        for container in snapshot.containers:
            with contextlib.suppress(EngineError):
                await self.runtime.remove_container(container.id)
        for uid in await self.runtime.pod_data():
            await self.runtime.remove_pod_data(uid)

    # --- the folder

    def add(self, text: str) -> None:
        """Add a manifest, which must be valid."""
        result = read_manifest(f"/m/{len(self._pods)}.yaml", text.encode(), node_name=NODE)
        assert result.pods, [d.message for d in result.diagnostics]
        seen = seen_text(datetime.now(UTC))
        self._pods.update({pod.metadata.uid: with_seen(pod, seen) for pod in result.pods})
        self._changed.set()

    def remove(self, name: str) -> None:
        """Remove the manifest of a pod."""
        full = f"{name}-{NODE}"
        pods = self._pods.items()
        self._pods = {uid: pod for uid, pod in pods if pod.metadata.name != full}
        self._changed.set()

    # --- observation

    async def until(self, condition: Callable[[PodStatus], bool], name: str) -> PodStatus:
        """Wait until the pod's status meets the condition; return it."""
        ends = time.monotonic() + PATIENCE
        while True:
            found = await self.store.get("pods", "default", f"{name}-{NODE}")
            if isinstance(found, Pod) and condition(found.status):
                return found.status
            assert time.monotonic() < ends, f"{name}: {found and found.status}"
            await asyncio.sleep(0.05)

    async def ended(self, name: str) -> PodStatus:
        """Wait until every container of the pod has succeeded."""
        status = await self.until(lambda s: s.phase in ("Succeeded", "Failed"), name)
        assert status.phase == "Succeeded", await self._all_logs(status)
        return status

    async def _all_logs(self, status: PodStatus) -> dict[str, str]:
        return {one.name: await self.log(one.containerID) for one in status.containerStatuses}

    async def log(self, container_id: str) -> str:
        ident = container_id.partition("://")[2]
        batches = self.runtime.logs(ident, LogOptions())
        return "\n".join([line.content.decode() async for lines in batches for line in lines])

    async def output(self, name: str, container: str) -> str:
        """Return the output of a container of a terminated pod."""
        status = await self.ended(name)
        (found,) = [one for one in status.containerStatuses if one.name == container]
        return await self.log(found.containerID)

    async def wait_for_event(self, name: str, reason: str) -> Event:
        """Wait for the pod's first event with that reason; return it."""
        ends = time.monotonic() + PATIENCE
        while True:
            for item in (await self.store.list("events")).items:
                if (
                    isinstance(item, Event)
                    and item.involvedObject.name == f"{name}-{NODE}"
                    and item.reason == reason
                ):
                    return item
            assert time.monotonic() < ends, f"{name}: no event {reason}"
            await asyncio.sleep(0.05)
