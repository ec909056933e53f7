"""The loop of a controller: from changes of objects to keys, and from keys to calls of ``sync``.

A controller is level-triggered: ``sync`` reads the cache, decides by pure functions, and writes. It
may run at any time, and again after any error. All that it is told about a change is the key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, cast

from podtui.api.objects import Object
from podtui.api.selectors import labels_match
from podtui.api.v1 import LabelSelector
from podtui.client.cache import Cache, Key, Kind, T, controller_of
from podtui.clock import Clock
from podtui.controllers.queue import WorkQueue
from podtui.errors import ApiError, PodtuiError

_LOG = logging.getLogger(__name__)
WORKERS: Final = 5
Keys = Callable[[Any], Iterable[Key]]
"""Returns the keys to synchronize after a change of an object."""


class Controller(Protocol):
    @property
    def name(self) -> str:
        """The name in the log and in events, such as ``deployment-controller``."""
        ...

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        """The kinds whose changes matter. The first one is the controller's own: all its objects
        are synchronized at the start."""
        ...

    async def sync(self, key: Key) -> float | None:
        """Bring one object to its desired state. Return the seconds until it must be called again
        without a change, if any. Raises `PodtuiError`; it is then called again."""
        ...


async def run_controller(controller: Controller, cache: Cache, clock: Clock) -> None:
    """Synchronize after each change, with five keys at a time. Runs forever."""
    queue = WorkQueue(clock.monotonic)
    observers = {kind: _observer(keys, queue) for kind, keys in controller.kinds.items()}
    for kind, observer in observers.items():
        cache.observe(kind, observer)
    try:
        await cache.listed(controller.kinds)
        own, keys = next(iter(controller.kinds.items()))
        for item in cache.list(cast("Any", own)):
            for key in keys(item):
                queue.add(key)
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(_work(controller, queue), name=controller.name)
    finally:
        for kind, observer in observers.items():
            cache.forget(kind, observer)


async def _work(controller: Controller, queue: WorkQueue) -> None:
    while True:
        key = await queue.take()
        try:
            seconds = await controller.sync(key)
        except PodtuiError as error:
            delay = queue.retry(key)
            # Another writer was faster: the cache has the newer version soon.
            expected = isinstance(error, ApiError) and error.code in (404, 409)
            level = logging.DEBUG if expected else logging.WARNING
            _LOG.log(
                level, "%s: %s: %s; again in %.3g s", controller.name, _name(key), error, delay
            )
        except Exception:  # noqa: BLE001 - the other objects go on; it is logged
            delay = queue.retry(key)
            _LOG.exception("%s: %s failed; again in %.3g s", controller.name, _name(key), delay)
        else:
            queue.forget(key)
            if seconds is not None:
                queue.add_after(key, seconds)
        finally:
            queue.done(key)


def _observer(keys: Keys, queue: WorkQueue) -> Callable[[Object | None, Object | None], None]:
    def observe(before: Object | None, after: Object | None) -> None:
        # An object may have left one owner for another.
        for item in (before, after):
            if item is not None:
                for key in keys(item):
                    queue.add(key)

    return observe


def _name(key: Key) -> str:
    return "/".join(filter(None, key))


def own_key(item: Object) -> Iterable[Key]:
    """The key of the object itself."""
    yield (item.metadata.namespace, item.metadata.name)


def controller_key(kind: Kind) -> Keys:
    """Return the function from an object to the key of its controller, if that is of ``kind``."""

    def keys(item: Object) -> Iterable[Key]:
        owner = controller_of(item)
        if owner is not None and owner.kind == kind.__name__:
            yield (item.metadata.namespace, owner.name)

    return keys


def claimant_keys(
    cache: Cache, kind: type[T], selector: Callable[[T], LabelSelector | None]
) -> Keys:
    """Return the function from an object to the key of its controller, or, if no owner controls it,
    to the keys of all owners of ``kind`` that could adopt it."""
    controller = controller_key(kind)

    def keys(item: Object) -> Iterable[Key]:
        if controller_of(item) is not None:
            yield from controller(item)
            return
        for owner in cache.list(kind, item.metadata.namespace):
            if labels_match(selector(owner), item.metadata.labels):
                yield from own_key(owner)

    return keys
