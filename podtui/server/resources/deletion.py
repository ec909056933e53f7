"""The effect of a deletion on an object: removal at once, or graceful termination first.

A pod on a node gets a grace period, in which its kubelet ends it. Any object stays as long as it
has finalizers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import ObjectMeta
from podtui.errors import NotFound
from podtui.server.resources.strategies.strategy import Strategy, with_meta
from podtui.store.protocol import Records
from podtui.store.resources import Resource


def deletion(strategy: Strategy, item: Any, seconds: int | None, now: datetime) -> tuple[Any, bool]:
    """Return the object after a request to delete it, and whether its record is to be removed.

    ``seconds`` is the grace period that the request asks for, if any.
    """
    if seconds is not None and seconds < 0:
        seconds = 1
    meta: ObjectMeta = item.metadata
    period = strategy.grace(item, seconds)
    if meta.deletionTimestamp is not None:
        if meta.deletionGracePeriodSeconds:
            if seconds is None or seconds >= meta.deletionGracePeriodSeconds:
                return item, False
            item = _shortened(item, seconds, now)
            if item.metadata.deletionGracePeriodSeconds:
                return item, False
    elif period is not None:
        item = _marked(item, period, now)
        if period:
            return item, False
    if not strategy.held(item):
        return item, True
    if item.metadata.deletionTimestamp is None:
        item = strategy.terminate(_marked(item, 0, now))
    return item, False


class _Changed(Exception):
    """Raised inside a deletion if the record has changed since it was decided."""


async def delete_record(
    records: Records,
    resource: Resource,
    strategy: Strategy,
    item: Any,
    *,
    seconds: int | None,
    now: datetime,
    check: Callable[[Any], None] = lambda item: None,
    dry_run: bool = False,
) -> tuple[Any, bool]:
    """Delete the object's record, or mark it as deleted. Return it, and whether it is gone.

    ``check`` gets the object as it is stored, and may raise to keep it. Raises
    `podtui.errors.NotFound`.
    """
    namespace, name = item.metadata.namespace, item.metadata.name
    while True:
        check(item)
        result, gone = deletion(strategy, item, seconds, now)
        if dry_run:
            return result, gone

        def same(current: Any, seen: Any = item, result: Any = result) -> Any:
            if current != seen:
                raise _Changed
            return result

        try:
            if gone:
                if not await records.delete(resource, namespace, name, same):
                    raise NotFound(name)
                return result, True
            stored: Any = await records.update(resource, namespace, name, same)
            return stored, False
        except _Changed:
            item = await records.get(resource, namespace, name)
            if item is None:
                raise NotFound(name) from None


def ended_by_update(strategy: Strategy, new: Any, old: Any) -> bool:
    """Return whether an update removed the last finalizer of an object that is being deleted."""
    before: ObjectMeta = old.metadata
    waiting = before.deletionTimestamp is not None and not before.deletionGracePeriodSeconds
    return waiting and strategy.held(old) and not strategy.held(new)


def _marked(item: Any, period: int, now: datetime) -> Any:
    generation: int | None = item.metadata.generation
    return with_meta(
        item,
        deletionTimestamp=rfc3339(now + timedelta(seconds=period)),
        deletionGracePeriodSeconds=period,
        generation=generation + 1 if generation else generation,
    )


def _shortened(item: Any, seconds: int, now: datetime) -> Any:
    """Move the end of the grace period forward, but not into the past."""
    meta: ObjectMeta = item.metadata
    end = parse_time(meta.deletionTimestamp) or now
    end += timedelta(seconds=seconds - (meta.deletionGracePeriodSeconds or 0))
    if end < now:
        end, seconds = now, min(seconds, 1)
    return with_meta(item, deletionTimestamp=rfc3339(end), deletionGracePeriodSeconds=seconds)
