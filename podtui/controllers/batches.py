"""Calls in batches of 1, 2, 4, 8 …: if all of them would fail, only a few do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from podtui.errors import PodtuiError


async def call_in_batches(
    count: int,
    call: Callable[[], Awaitable[object]],
    is_wanted: Callable[[], Awaitable[bool]],
) -> PodtuiError | None:
    """Call ``count`` times, each batch at once and twice as large as the one before. After a batch
    with a failure, or when ``is_wanted`` returns False before a batch, the rest is left out. Return
    the first failure."""
    size = 1
    while count > 0:
        try:
            if not await is_wanted():
                return None
        except PodtuiError as error:
            return error
        size = min(size, count)
        failures = await call_at_once([call] * size)
        if failures:
            return failures[0]
        count -= size
        size *= 2
    return None


async def call_at_once(
    calls: list[Callable[[], Awaitable[object]]],
) -> list[PodtuiError]:
    """Make the calls at the same time; return the failures."""
    failures: list[PodtuiError] = []

    async def make(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except PodtuiError as error:
            failures.append(error)

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(make(call))
    return failures
