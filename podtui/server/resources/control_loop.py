"""The loop of a controller: a pass over the records after each change that matters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from podtui.errors import StoreGone
from podtui.store.protocol import Change, Records
from podtui.store.resources import Resource

Matters = Callable[[Resource, Change], Awaitable[bool]]


async def run_control_loop(
    name: str,
    records: Records,
    watched: Iterable[Resource],
    *,
    matters: Matters,
    sync: Callable[[], Awaitable[float | None]],
) -> None:
    """Call ``sync`` at once, again after each change of the watched records for which ``matters``
    returns True, and after the seconds that it returned, if any. Runs forever."""
    wake = asyncio.Event()

    async def watch(resource: Resource) -> None:
        while True:
            with contextlib.suppress(StoreGone):
                changes = records.watch(resource)
                wake.set()
                async for change in changes:
                    if await matters(resource, change):
                        wake.set()

    async with asyncio.TaskGroup() as group:
        for resource in watched:
            group.create_task(watch(resource), name=f"{name}: {resource}")
        while True:
            wake.clear()
            seconds = await sync()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await wake.wait()
