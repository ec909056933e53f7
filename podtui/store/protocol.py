"""The interface of the records for the kubelet and the server.

It is async and small, so that a real API server could replace the embedded store. Objects are the
frozen types of `podtui.api`; the store sets ``metadata.resourceVersion`` (and ``creationTimestamp``
and ``uid`` if empty) and returns what it stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, TypeVar

from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.v1 import Event, Node, Pod

T = TypeVar("T", Pod, Node, Event, Manifest, Timeline)


class WatchType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one object. ``object`` is the last state for DELETED, and None for BOOKMARK.

    ``previous`` is the state before, if known. Selectors need it to distinguish an object that
    stopped matching from one that never matched.
    """

    type: WatchType
    object: Pod | Node | Event | Manifest | Timeline | None
    resource_version: int
    previous: Pod | Node | Event | Manifest | Timeline | None = None


@dataclass(frozen=True, slots=True)
class RecordList:
    """A consistent list: a watch from ``resource_version`` misses and repeats nothing."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]
    resource_version: int


Resource = Literal["pods", "nodes", "events", "manifests", "timelines"]


class Records(Protocol):
    """Records by resource, namespace and name. The kubelet is the only writer."""

    async def put(self, resource: Resource, item: T) -> T:
        """Create or replace an object. An object equal to the stored one changes nothing."""
        ...

    async def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        """Delete an object. Return whether it existed."""
        ...

    async def get(
        self, resource: Resource, namespace: str, name: str
    ) -> Pod | Node | Event | Manifest | Timeline | None: ...

    async def list(self, resource: Resource, namespace: str = "") -> RecordList:
        """List the objects of one namespace, or of all if it is empty, ordered by namespace and
        name."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[Change]:
        """Yield changes after ``since`` (None: from now), forever. Raises `podtui.errors.StoreGone`
        if ``since`` is too old or the reader falls too far behind."""
        ...

    async def flush(self) -> None:
        """Wait until all changes so far are on disk."""
        ...

    async def close(self) -> None: ...
