"""Concurrent engine calls: all are tried, then the first failure is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from podtui.errors import EngineError, EngineUnavailable


async def together(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run the calls concurrently.

    Raises the first `EngineError`, an `EngineUnavailable` before any other.
    """
    calls = list(calls)
    if len(calls) == 1:
        await calls[0]()
        return
    errors: list[EngineError] = []

    async def attempt(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except EngineError as error:
            errors.append(error)

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(attempt(call))
    errors.sort(key=lambda error: not isinstance(error, EngineUnavailable))
    if errors:
        raise errors[0]
