"""The order and number of concurrent stops on the engine."""

from __future__ import annotations

import asyncio

import pytest

from podtui.runtime.docker.removal import TURN_SECONDS, short_turn

pytestmark = pytest.mark.virtual_time


async def _starts(seconds: list[float], slots: asyncio.Semaphore) -> list[float]:
    """Return when each of several concurrent blocks began; each lasts as long as given."""
    loop = asyncio.get_running_loop()
    begun = list[float]()

    async def stop(lasts: float) -> None:
        async with short_turn(slots):
            begun.append(loop.time())
            await asyncio.sleep(lasts)

    first = loop.time()
    async with asyncio.TaskGroup() as group:
        for lasts in seconds:
            group.create_task(stop(lasts))
    return [round(when - first, 6) for when in begun]


async def test_stops_begin_a_few_at_a_time() -> None:
    slots = asyncio.Semaphore(2)
    assert await _starts([0.04] * 5, slots) == [0, 0, 0.04, 0.04, 0.08]


async def test_a_container_that_ignores_its_signal_does_not_delay_the_others() -> None:
    slots = asyncio.Semaphore(1)
    assert await _starts([30.0, 30.0, 30.0], slots) == [0, TURN_SECONDS, 2 * TURN_SECONDS]
    assert not slots.locked()


async def test_each_slot_is_released_once() -> None:
    slots = asyncio.Semaphore(1)
    await _starts([30.0, 0.01, 30.0], slots)
    assert await _starts([1.0, 1.0], slots) == [0, TURN_SECONDS]


async def test_a_cancelled_stop_releases_its_slot() -> None:
    slots = asyncio.Semaphore(1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(TURN_SECONDS / 2):
            await _starts([30.0, 30.0], slots)
    assert not slots.locked()
