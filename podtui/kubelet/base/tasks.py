"""Run calls concurrently, restart tasks after an error, and broadcast changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable

_LOG = logging.getLogger(__name__)
PAUSE: Final = 1.0


async def gather_all(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
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


async def keep_running(name: str, task: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run ``task`` until it returns; after an exception, restart it a second later."""
    while True:
        try:
            await task()
            return
        except Exception:  # noqa: BLE001 - one loop's mistake must not end the kubelet; it is logged
            _LOG.exception("%s failed and will be restarted", name)
        await clock.sleep(PAUSE)


class Broadcast:
    """``count`` is the number of changes, so that a late caller can detect missed ones."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting tasks."""
        self.count += 1
        before, self._event = self._event, asyncio.Event()
        before.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the next change, for at most ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
