"""A namespace in memory for the controllers of StatefulSets and DaemonSets.

`MemoryApi` stores what the controllers write. `SetWorld` is the rest: tests say which pods run, and
which of them fail or end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, StatefulSet
from podtui.api.objects import Object
from podtui.api.times import rfc3339
from podtui.api.v1 import Node, PersistentVolumeClaim, Pod, PodCondition, PodTemplateSpec
from podtui.client.api_client import Propagation
from podtui.client.cache import Cache, Kind, T
from podtui.controllers.daemon_sets import DaemonSetController
from podtui.controllers.events import ControllerEvents, EventType
from podtui.controllers.loop import Controller, Keys
from podtui.controllers.stateful_sets import StatefulSetController
from podtui.errors import ApiError
from podtui.patching import strategic

NAMESPACE = "ns"


class Time:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class RecordedEvents(ControllerEvents):
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        """Types, reasons and messages."""

    def record(
        self, component: str, item: Object, event_type: EventType, reason: str, message: str
    ) -> None:
        self.events.append((event_type, reason, message))


class MemoryApi:
    """A `podtui.controllers.client.Writer` that keeps its objects in the cache."""

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self.writes: list[str] = []
        """Verbs, kinds and names."""
        self.before: Callable[[str, Object], None] = lambda verb, item: None
        """Called with each write; may raise its error."""
        self.newer: dict[str, Object] = {}
        """Objects by name of which the cache has an old version."""
        self._cache = cache
        self._now = now
        self._version = 0

    def put(self, item: T) -> T:
        self._version += 1
        meta = structs.replace(item.metadata, resourceVersion=str(self._version))
        if not meta.uid:
            created = rfc3339(self._now())
            meta = structs.replace(meta, uid=f"u{self._version}", creationTimestamp=created)
        stored = structs.replace(item, metadata=meta)
        self._cache.put(stored)
        return stored

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        newer = self.newer.get(name)
        item = newer if isinstance(newer, kind) else self._cache.get(kind, namespace, name)
        if item is None:
            raise ApiError(404, "NotFound", f'"{name}" not found')
        return item

    async def create(self, kind: type[T], item: T) -> T:
        meta = item.metadata
        if not meta.name:
            meta = structs.replace(meta, name=f"{meta.generateName}{self._version:05}")
            item = structs.replace(item, metadata=meta)
        self._note("create", item)
        if self._cache.get(kind, meta.namespace, meta.name) is not None:
            raise ApiError(409, "AlreadyExists", f'"{meta.name}" already exists')
        if isinstance(item, Pod):
            item = structs.replace(item, status=structs.replace(item.status, phase="Pending"))
        return self.put(item)

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T:
        self._note(f"update {subresource}".strip(), item)
        stored = await self.get(kind, item.metadata.namespace, item.metadata.name)
        if stored.metadata.resourceVersion != item.metadata.resourceVersion:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self.put(item)

    async def patch(
        self, kind: type[T], item: T, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        self._note("patch", item)
        stored = await self.get(kind, item.metadata.namespace, item.metadata.name)
        document = msgspec.to_builtins(stored)
        return self.put(msgspec.convert(strategic.apply(kind.__name__, document, patch), kind))

    async def delete(self, kind: type[T], item: T, *, policy: Propagation = "") -> None:
        self._note("delete", item)
        if not isinstance(item, Pod) or item.status.phase in ("Failed", "Succeeded"):
            self._cache.remove(item)
            return
        stored = await self.get(kind, item.metadata.namespace, item.metadata.name)
        meta = structs.replace(
            stored.metadata, deletionTimestamp=rfc3339(self._now()), deletionGracePeriodSeconds=30
        )
        self.put(structs.replace(stored, metadata=meta))

    def _note(self, verb: str, item: Object) -> None:
        self.before(verb, item)
        self.writes.append(f"{verb} {type(item).__name__} {item.metadata.name}")


class SetWorld:
    def __init__(self) -> None:
        self.cache = Cache()
        self.clock = Time()
        self.recorder = RecordedEvents()
        self.api = MemoryApi(self.cache, self.clock.now)
        self._loop = asyncio.new_event_loop()
        for kind in (StatefulSet, DaemonSet, ControllerRevision, Pod, PersistentVolumeClaim, Node):
            self.cache.add_kind(kind)
        common = (self.cache, self.api, self.recorder, self.clock)
        self._controllers: Mapping[Kind, Controller] = {
            StatefulSet: StatefulSetController(*common),
            DaemonSet: DaemonSetController(*common),
        }

    def close(self) -> None:
        self._loop.close()

    def get(self, kind: type[T], name: str) -> T:
        namespace = "" if kind is Node else NAMESPACE
        item = self.cache.get(kind, namespace, name)
        assert item is not None
        return item

    def change(self, kind: type[T], name: str, **spec: Any) -> None:
        """Change fields of an object's spec, as a user does."""
        item: Any = self.get(kind, name)
        generation = (item.metadata.generation or 0) + 1
        self.api.put(
            structs.replace(
                item,
                spec=structs.replace(item.spec, **spec),
                metadata=structs.replace(item.metadata, generation=generation),
            )
        )

    def sync(self, kind: Kind, name: str) -> float | None:
        """Call the controller once. Raises the errors of refused writes."""
        return self._loop.run_until_complete(self._controllers[kind].sync((NAMESPACE, name)))

    def settle(self, kind: Kind, name: str) -> None:
        """Call the controller until it writes nothing."""
        for _ in range(100):
            before = len(self.api.writes)
            self.sync(kind, name)
            if len(self.api.writes) == before:
                return
        raise AssertionError(f"the controller does not come to rest: {self.api.writes[-10:]}")

    def keys(self, kind: Kind, changed: Kind) -> Keys:
        """Return the function from changed objects to the keys to synchronize."""
        return self._controllers[kind].kinds[changed]

    def messages(self) -> list[str]:
        return [message for _, _, message in self.recorder.events]

    # --- pods, and what the kubelet does with them

    def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in self.cache.list(Pod)}

    def run(self, *names: str) -> None:
        """Let pods run and be ready."""
        since = rfc3339(self.clock.now())
        ready = PodCondition(type="Ready", status="True", lastTransitionTime=since)
        for name in names:
            self._set_status(name, phase="Running", conditions=(ready,))

    def stop(self, *names: str) -> None:
        """Let pods run without being ready."""
        for name in names:
            self._set_status(name, conditions=())

    def delete(self, name: str) -> None:
        """Delete a pod, as a user does."""
        self._loop.run_until_complete(self.api.delete(Pod, self.pods()[name]))

    def fail(self, name: str, phase: str = "Failed") -> None:
        self._set_status(name, phase=phase, conditions=())

    def end(self, *names: str) -> None:
        """Remove pods whose containers have ended."""
        for name in names:
            self.cache.remove(self.pods()[name])

    def _set_status(self, name: str, **changes: Any) -> None:
        pod = self.pods()[name]
        self.api.put(structs.replace(pod, status=structs.replace(pod.status, **changes)))


def from_fields(kind: type[T], name: str, **fields: Any) -> T:
    """Return an object in the namespace."""
    meta = {"name": name, "namespace": "" if kind is Node else NAMESPACE, "generation": 1}
    return msgspec.convert({"metadata": meta, **fields}, kind)


def template(image: str = "a", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": containers, **spec}}


def node(name: str, *taints: tuple[str, str], **labels: str) -> Node:
    """Return a node; taints are keys and effects."""
    item = from_fields(
        Node, name, spec={"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    )
    return structs.replace(item, metadata=structs.replace(item.metadata, labels=labels))


def pod_template(image: str = "a", **spec: Any) -> PodTemplateSpec:
    return msgspec.convert(template(image, **spec), PodTemplateSpec)
