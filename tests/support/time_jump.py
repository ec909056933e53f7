"""A timeout that expires as soon as the event that it guards has happened.

How long a program takes to start is unknown, so a test of a timeout would have to guess its length.
Here the loop's clock jumps once the program has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

POLL_SECONDS = 0.01


@asynccontextmanager
async def jump_time(seconds: float, *, once: Callable[[], bool]) -> AsyncGenerator[None]:
    """Advance the running loop's time by ``seconds`` beside the block, as soon as ``once()`` is
    true.
    """
    loop = asyncio.get_running_loop()
    clock = loop.time

    async def jump() -> None:
        while not once():  # noqa: ASYNC110 - a process sends no notification
            await asyncio.sleep(POLL_SECONDS)
        loop.time = lambda: clock() + seconds  # type: ignore[method-assign]

    async with asyncio.TaskGroup() as group:
        jumps = group.create_task(jump())
        try:
            yield
        finally:
            jumps.cancel()
