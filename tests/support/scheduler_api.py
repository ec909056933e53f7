"""An API server in memory with only the requests that the scheduler makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from podtui.api.claims import with_selected_node
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    Binding,
    Event,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from podtui.client.protocol import Changed, Delta, Lost, Removed, Synced
from podtui.errors import AgentUnavailable, ApiError
from podtui.scheduler.api import SchedulerApi


class FakeApi(SchedulerApi):
    """``down`` makes every request fail; ``refuse`` makes the next bindings fail."""

    def __init__(self, *items: Any, pods: tuple[Pod, ...] = ()) -> None:
        self.objects: dict[type[Any], dict[str, Any]] = {
            kind: {}
            for kind in (
                Pod,
                Node,
                Namespace,
                PersistentVolume,
                PersistentVolumeClaim,
                StorageClass,
            )
        }
        self.events: list[Event] = []
        self.bindings: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.down = False
        self.refuse: list[ApiError] = []
        self.slow = 0.0
        """The seconds that a binding takes."""
        self.binding = 0
        self.silent = False
        """Watches report nothing."""
        self._watches: list[tuple[type[Any], asyncio.Queue[Delta]]] = []
        self._version = 0
        for item in (*items, *pods):
            self.put(item)

    # --- used by tests

    def put(self, item: Any) -> None:
        self._version += 1
        meta = msgspec.structs.replace(item.metadata, resourceVersion=str(self._version))
        item = msgspec.structs.replace(item, metadata=meta)
        self.objects[type(item)][meta.name] = item
        self._send(type(item), Changed((item,)))

    def remove(self, kind: type[Any], name: str) -> None:
        self._send(kind, Removed((self.objects[kind].pop(name),)))

    def pod(self, name: str) -> Pod:
        return self.objects[Pod][name]

    def notes(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]

    def disconnect(self, reason: str = "no agent is running") -> None:
        self.down = True
        for _, queue in self._watches:
            queue.put_nowait(Lost(reason))

    def reconnect(self) -> None:
        """Answer again; every client lists again."""
        self.down = False
        for kind, queue in self._watches:
            queue.put_nowait(Synced(tuple(self.objects[kind].values())))

    def _send(self, kind: type[Any], delta: Delta) -> None:
        for watched, queue in self._watches:
            if watched is kind and not self.silent and not self.down:
                queue.put_nowait(delta)

    # --- used by the scheduler

    async def follow(self, kind: type[Any]) -> AsyncIterator[Delta]:  # type: ignore[override]
        queue: asyncio.Queue[Delta] = asyncio.Queue()
        self._watches.append((kind, queue))
        yield Synced(tuple(self.objects[kind].values()))
        while True:
            yield await queue.get()

    async def bind(self, binding: Binding) -> None:
        self.binding += 1
        try:
            await asyncio.sleep(self.slow)
        finally:
            self.binding -= 1
        self._answer()
        if self.refuse:
            raise self.refuse.pop(0)
        pod = self._found(binding.metadata.name, binding.metadata.uid)
        self.bindings.append((pod.metadata.name, binding.target.name))
        spec = msgspec.structs.replace(pod.spec, nodeName=binding.target.name)
        self.put(msgspec.structs.replace(pod, spec=spec))

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        self._answer()
        pod = self._found(name, uid)
        self.patches.append((name, status))
        known = msgspec.to_builtins(pod)
        conditions = {one["type"]: one for one in known["status"].pop("conditions", [])}
        conditions |= {one["type"]: one for one in status.get("conditions", [])}
        known["status"] |= {key: value for key, value in status.items() if key != "conditions"}
        known["status"] = {key: value for key, value in known["status"].items() if value}
        known["status"]["conditions"] = list(conditions.values())
        self.put(msgspec.convert(known, Pod))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Mark the pod as being deleted: its kubelet ends it (`remove`)."""
        self._answer()
        pod = self._found(name, uid)
        self.deleted.append(name)
        meta = msgspec.structs.replace(pod.metadata, deletionTimestamp="2026-01-01T00:00:30Z")
        self.put(msgspec.structs.replace(pod, metadata=meta))

    async def update_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self._answer()
        name = volume.metadata.name
        stored = self.objects[PersistentVolume][name]
        if stored.metadata.resourceVersion != volume.metadata.resourceVersion:
            raise ApiError(409, "Conflict", f'persistentvolumes "{name}" has been modified')
        self.put(volume)
        return self.objects[PersistentVolume][name]

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
        self._answer()
        name = claim.metadata.name
        stored = self.objects[PersistentVolumeClaim].get(name)
        if stored is None:
            raise ApiError(404, "NotFound", f'persistentvolumeclaims "{name}" not found')
        self.put(with_selected_node(stored, node))
        return self.objects[PersistentVolumeClaim][name]

    async def create_event(self, event: Event) -> None:
        self._answer()
        self.events.append(event)

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        self._answer()
        for index, event in enumerate(self.events):
            if event.metadata.name == name:
                merged = msgspec.to_builtins(event) | patch
                self.events[index] = msgspec.convert(merged, Event)
                return
        raise ApiError(404, "NotFound", f'events "{name}" not found')

    def _answer(self) -> None:
        if self.down:
            raise AgentUnavailable("no agent is running")

    def _found(self, name: str, uid: str) -> Pod:
        pod = self.objects[Pod].get(name)
        if pod is None or pod.metadata.uid != uid:
            raise ApiError(404, "NotFound", f'pods "{name}" not found')
        return pod
