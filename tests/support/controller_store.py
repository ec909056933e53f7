"""A `Writer` that keeps its objects in the cache of the controllers, as an API server would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from msgspec import structs

from podtui.api.objects import Object
from podtui.api.times import rfc3339
from podtui.api.v1 import Pod
from podtui.client.api_client import Propagation
from podtui.client.cache import Cache, T
from podtui.client.decoding import kind_of
from podtui.clock import Clock
from podtui.errors import ApiError
from podtui.patching import strategic


@dataclass
class RecordedEvents:
    """Events of controllers as texts: ``Normal Completed: Job completed``."""

    texts: list[str] = field(default_factory=list[str])

    def record(
        self, component: str, item: Object, event_type: str, reason: str, message: str
    ) -> None:
        self.texts.append(f"{event_type} {reason}: {message}")


class ControllerStore:
    """Objects of some kinds. A pod that is deleted stays until `end` if it runs; an object with a
    finalizer stays until that is taken off."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self.cache = cache
        self.clock = clock
        self.version = 0
        self.failures: list[ApiError] = []
        """Raised by the next writes."""

    def add(self, item: T) -> T:
        """Add an object without a write of a controller."""
        meta = item.metadata
        self.version += 1
        name = meta.name or f"{meta.generateName}{self.version:05}"
        if self.cache.get(type(item), meta.namespace, name) is not None:
            raise ApiError(409, "AlreadyExists", f'"{name}" already exists')
        meta = structs.replace(
            meta,
            name=name,
            uid=meta.uid or f"uid-{self.version}",
            creationTimestamp=meta.creationTimestamp or rfc3339(self.clock.now()),
        )
        return self._put(structs.replace(item, metadata=meta))

    def change(self, item: T, **fields: object) -> T:
        """Replace fields of an object without a write of a controller."""
        return self._put(structs.replace(self._current(type(item), item), **fields))

    def end(self, pod: Pod) -> None:
        """Let a pod that is being deleted go."""
        self._removed(self._current(Pod, pod))

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        item = self.cache.get(kind, namespace, name)
        if item is None:
            raise ApiError(404, "NotFound", f'"{name}" not found')
        return item

    async def create(self, kind: type[T], item: T) -> T:
        self._fail()
        return self.add(item)

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T:
        self._fail()
        current = self._current(kind, item)
        if current.metadata.resourceVersion != item.metadata.resourceVersion:
            raise ApiError(409, "Conflict", "the object has been modified")
        if subresource == "status":
            item = self._with_status(current, item)
        elif getattr(item, "spec", None) != getattr(current, "spec", None):
            generation = (current.metadata.generation or 0) + 1
            item = structs.replace(
                item, metadata=structs.replace(item.metadata, generation=generation)
            )
        return self._put(item)

    def _with_status(self, current: T, item: T) -> T:
        """A write of the status may change annotations."""
        meta = structs.replace(current.metadata, annotations=item.metadata.annotations)
        return cast("T", structs.replace(current, metadata=meta, status=cast("Any", item).status))

    async def patch(
        self, kind: type[T], item: T, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        self._fail()
        current = self._current(kind, item)
        document = msgspec.json.decode(msgspec.json.encode(current))
        tree = strategic.apply(kind.__name__, document, dict(patch))
        patched = self._put(kind_of(kind).decode(msgspec.json.encode(tree)))
        self._removed(patched)
        return patched

    async def delete(self, kind: type[T], item: T, *, policy: Propagation = "") -> None:
        self._fail()
        current = self._current(kind, item)
        meta = structs.replace(current.metadata, deletionTimestamp=rfc3339(self.clock.now()))
        runs = isinstance(current, Pod) and current.status.phase == "Running"
        marked = self._put(structs.replace(current, metadata=meta))
        if not runs:
            self._removed(marked)

    def _current(self, kind: type[T], item: T) -> T:
        meta = item.metadata
        current = self.cache.get(kind, meta.namespace, meta.name)
        if current is None or current.metadata.uid != meta.uid:
            raise ApiError(404, "NotFound", f'"{meta.name}" not found')
        return current

    def _put(self, item: T) -> T:
        self.version += 1
        meta = structs.replace(item.metadata, resourceVersion=str(self.version))
        stored = structs.replace(item, metadata=meta)
        self.cache.put(stored)
        return stored

    def _removed(self, item: Object) -> None:
        meta = item.metadata
        ended = not isinstance(item, Pod) or item.status.phase != "Running"
        if meta.deletionTimestamp is not None and not meta.finalizers and ended:
            self.cache.remove(item)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
