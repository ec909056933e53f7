"""The interface of the records for the kubelet and the server.

It is async and small, so that a real API server could replace the embedded store. Objects are the
frozen types of `podtui.api`; the store sets ``metadata.resourceVersion`` (and ``creationTimestamp``
and ``uid`` if empty) and returns what it stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from podtui.api.objects import Object, T
from podtui.store.resources import Key, Resource


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
    object: Object | None
    resource_version: int
    previous: Object | None = None


@dataclass(frozen=True, slots=True)
class RecordList:
    """A consistent list: a watch from ``resource_version`` misses and repeats nothing."""

    items: tuple[Object, ...]
    resource_version: int


class Records(Protocol):
    """Records by resource, namespace and name. Each operation is atomic."""

    async def put(self, resource: Resource, item: T) -> T:
        """Create or replace an object. An object equal to the stored one changes nothing."""
        ...

    async def create(self, resource: Resource, item: T) -> T:
        """Create an object. Raises `podtui.errors.AlreadyExists` if its name is taken."""
        ...

    async def update(
        self, resource: Resource, namespace: str, name: str, change: Callable[[T], T]
    ) -> T:
        """Replace an object by what ``change`` makes of it, and return what is stored then.

        ``change`` runs on the event loop, with no other change in between. It may raise to leave
        the object as it is; an equal result changes nothing. Raises `podtui.errors.NotFound`.
        """
        ...

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        check: Callable[[Object], None] | None = None,
    ) -> bool:
        """Delete an object. Return whether it existed. ``check`` gets the object first, and may
        raise to keep it."""
        ...

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None: ...

    async def list(
        self, resource: Resource, namespace: str = "", at: int | None = None
    ) -> RecordList:
        """List the objects of one namespace, or of all if it is empty, ordered by namespace and
        name. With ``at``, list them as they were at that resourceVersion; raises
        `podtui.errors.StoreGone` if its changes are no longer kept."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[Change]:
        """Yield changes after ``since`` (None: from now), forever, each when a crash cannot take
        it back any more. Raises `podtui.errors.StoreGone` if ``since`` is too old or the reader
        falls too far behind."""
        ...

    async def flush(self, key: Key | None = None) -> None:
        """Wait until all changes so far are on disk. With ``key``, another record that cannot be
        written is no error."""
        ...

    async def close(self) -> None: ...
