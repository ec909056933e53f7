"""What the kubelet and the server ask of the records.

The embedded store stands behind it today, a real API server may later: hence async, hence small.
Objects are the frozen types of `podtui.api`; the store sets ``metadata.resourceVersion`` (and
``creationTimestamp`` and ``uid`` where they are empty) and returns what it stored.
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
    """One change of one object. ``object`` of a DELETED is its last state, of a BOOKMARK None.

    ``previous`` is the state before, where the records know it: what selectors need to tell an
    object that stopped matching from one that never did.
    """

    type: WatchType
    object: Pod | Node | Event | Manifest | Timeline | None
    resource_version: int
    previous: Pod | Node | Event | Manifest | Timeline | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A consistent list: a watch from ``resource_version`` misses nothing and repeats nothing."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]
    resource_version: int


Resource = Literal["pods", "nodes", "events", "manifests", "timelines"]


class Records(Protocol):
    """Records by resource, namespace and name. One writer per kind of truth: the kubelet."""

    async def put(self, resource: Resource, item: T) -> T:
        """Create or replace. An object equal to the stored one changes nothing."""
        ...

    async def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether there was one."""
        ...

    async def get(
        self, resource: Resource, namespace: str, name: str
    ) -> Pod | Node | Event | Manifest | Timeline | None: ...

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        """Of one namespace, or of all when it is empty; ordered by namespace and name."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[Change]:
        """Changes after ``since`` (None: from now), endless. Raises `podtui.errors.StoreGone`
        when ``since`` is too old or the reader falls too far behind."""
        ...

    async def flush(self) -> None:
        """Wait until all that was written is on disk."""
        ...

    async def close(self) -> None: ...
