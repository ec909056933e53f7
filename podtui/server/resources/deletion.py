"""The effect of a deletion on an object: removal at once, or graceful termination first.

A pod on a node gets a grace period, in which its kubelet ends it. Any object stays as long as it
has finalizers. A finalizer for the garbage collector is set by the propagation policy of the
request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

from podtui.api.objects import Object, T
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import DeleteOptions
from podtui.errors import NotFound
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.store.protocol import Records
from podtui.store.resources import Resource

FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an object that stays until its dependents are deleted."""
ORPHAN: Final = "orphan"
"""The finalizer of an object that stays until its dependents no longer name it as their owner."""
_FINALIZERS: Final = {"Foreground": (FOREGROUND,), "Orphan": (ORPHAN,), "Background": ()}


def propagation(options: DeleteOptions) -> str:
    """Return the propagation policy of a request; empty if it has none."""
    if options.orphanDependents is not None:
        return "Orphan" if options.orphanDependents else "Background"
    return options.propagationPolicy


def deletion(
    strategy: Strategy[T], item: T, seconds: int | None, now: datetime, policy: str = ""
) -> tuple[T, bool]:
    """Return the object after a request to delete it, and whether its record is to be removed.

    ``seconds`` is the grace period that the request asks for, if any, and ``policy`` its
    propagation policy.
    """
    if seconds is not None and seconds < 0:
        seconds = 1
    meta = item.metadata
    period = strategy.grace(item, seconds)
    if period is None:
        item = _with_policy(strategy, item, policy)
    elif meta.deletionTimestamp is None:
        item = _marked(_with_policy(strategy, item, policy), period, now)
        if period:
            return item, False
    elif meta.deletionGracePeriodSeconds:
        if seconds is None or seconds >= meta.deletionGracePeriodSeconds:
            return item, False
        item = _with_policy(strategy, _shortened(item, seconds, now), policy)
        if item.metadata.deletionGracePeriodSeconds:
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
    strategy: Strategy[T],
    item: T,
    *,
    seconds: int | None,
    now: datetime,
    policy: str = "",
    check: Callable[[T], None] = lambda item: None,
    dry_run: bool = False,
) -> tuple[T, bool]:
    """Delete the object's record, or mark it as deleted. Return it, and whether it is gone.

    ``check`` gets the object as it is stored, and may raise to keep it. Raises
    `podtui.errors.NotFound`.
    """
    namespace, name = item.metadata.namespace, item.metadata.name
    while True:
        check(item)
        result, gone = deletion(strategy, item, seconds, now, policy)
        if dry_run:
            return result, gone

        def require_same(current: Object, seen: Object = item) -> None:
            if current != seen:
                raise _Changed

        def replaced(current: T, result: T = result) -> T:
            require_same(current)
            return result

        try:
            if gone:
                if not await records.delete(resource, namespace, name, require_same):
                    raise NotFound(name)
                return result, True
            return await records.update(resource, namespace, name, replaced), False
        except _Changed:
            current = await records.get(resource, namespace, name)
            if current is None:
                raise NotFound(name) from None
            item = cast("T", current)


class _Ended(Exception):
    """Raised inside an update that removes the record instead."""


async def update_record(
    records: Records,
    resource: Resource,
    strategy: Strategy[T],
    namespace: str,
    name: str,
    change: Callable[[T], T],
) -> T:
    """Update a record, or remove it if the change removes the last finalizer of a deleted object.
    Return the changed object. Raises `podtui.errors.NotFound`."""

    ended: list[T] = []

    def changed(old: T) -> T:
        new = change(old)
        if ended_by_update(strategy, new, old):
            ended.append(new)
            raise _Ended
        return new

    try:
        return await records.update(resource, namespace, name, changed)
    except _Ended:
        await records.delete(resource, namespace, name)
        return ended[-1]


def ended_by_update(strategy: Strategy[T], new: T, old: T) -> bool:
    """Return whether an update removed the last finalizer of an object that is being deleted."""
    before = old.metadata
    waiting = before.deletionTimestamp is not None and not before.deletionGracePeriodSeconds
    return waiting and strategy.held(old) and not strategy.held(new)


def _with_policy(strategy: Strategy[T], item: T, policy: str) -> T:
    """Replace the finalizers for the garbage collector by that of the policy, if there is one."""
    before = item.metadata.finalizers
    if not policy and strategy.orphans and not {FOREGROUND, ORPHAN} & set(before):
        policy = "Orphan"
    if policy not in _FINALIZERS or not strategy.owns:
        return item
    kept = (name for name in before if name not in (FOREGROUND, ORPHAN))
    after = (*kept, *_FINALIZERS[policy])
    return item if set(after) == set(before) else with_meta(item, finalizers=after)


def _marked(item: T, period: int, now: datetime) -> T:
    generation = item.metadata.generation
    return with_meta(
        item,
        deletionTimestamp=rfc3339(_after(now, period)),
        deletionGracePeriodSeconds=period,
        generation=generation + 1 if generation else generation,
    )


def _after(moment: datetime, seconds: int) -> datetime:
    """Return the time ``seconds`` later, or the end of the year 9999: the API allows 64 bits."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def _shortened(item: T, seconds: int, now: datetime) -> T:
    """Move the end of the grace period forward, but not into the past."""
    meta = item.metadata
    end = parse_time(meta.deletionTimestamp) or now
    try:
        end += timedelta(seconds=seconds - (meta.deletionGracePeriodSeconds or 0))
    except OverflowError:
        end = _after(now, seconds)
    if end < now:
        end, seconds = now, min(seconds, 1)
    return with_meta(item, deletionTimestamp=rfc3339(end), deletionGracePeriodSeconds=seconds)
