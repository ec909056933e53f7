"""Objects of further kinds that a screen follows while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from podtui.client.protocol import Client, Lost, Removed, Synced
from podtui.errors import PodtuiError

RETRY_SECONDS: Final = 1.0
Key = tuple[str, str, str]


class FollowedObjects:
    """The objects of several kinds, kept up to date while `run` runs. ``turns`` counts their
    changes."""

    def __init__(self, kinds: Iterable[type[Any]]) -> None:
        self.kinds = tuple(kinds)
        self.turns = 0
        self._objects: dict[type[Any], dict[Key, Any]] = {}
        self._refused: set[type[Any]] = set()

    def read(self, kind: type[Any]) -> Iterable[Any] | None:
        """Return the objects of a kind; None if the server does not list them, or not yet."""
        objects = self._objects.get(kind)
        return None if objects is None else objects.values()

    @property
    def is_complete(self) -> bool:
        """Return whether each kind was listed or refused."""
        return all(kind in self._objects or kind in self._refused for kind in self.kinds)

    async def run(self, client: Client, on_change: Callable[[], None]) -> None:
        """Follow all kinds until cancelled; ``on_change`` is called after each change."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self.kinds:
                tasks.create_task(
                    self._follow(client, kind, on_change), name=f"follow {kind.__name__}"
                )

    async def _follow(self, client: Client, kind: Any, on_change: Callable[[], None]) -> None:
        while True:
            try:
                async for delta in client.follow(kind):
                    self._fold(kind, delta)
                    on_change()
            except PodtuiError as error:
                self._fold(kind, Lost(str(error)))
                on_change()
            await asyncio.sleep(RETRY_SECONDS)

    def _fold(self, kind: type[Any], delta: Any) -> None:
        self.turns += 1
        if isinstance(delta, Lost):
            # Objects of a lost server stay as they were last seen.
            if delta.refused:
                self._refused.add(kind)
                self._objects.pop(kind, None)
            return
        if isinstance(delta, Synced):
            self._refused.discard(kind)
            self._objects[kind] = {}
        objects = self._objects.setdefault(kind, {})
        for item in delta.items:
            meta = item.metadata
            key = (meta.namespace, meta.name, meta.uid)
            if isinstance(delta, Removed):
                objects.pop(key, None)
            else:
                objects[key] = item
