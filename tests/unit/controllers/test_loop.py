"""The work queue and the loop of a controller, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from controller_objects import cache_of, pod
from virtual_time import VirtualClock

from podtui.api.v1 import Pod
from podtui.client.cache import Key, Kind
from podtui.controllers.loop import Keys, own_key, run_controller
from podtui.controllers.queue import WorkQueue
from podtui.errors import ApiError

pytestmark = pytest.mark.virtual_time
A, B = ("ns", "a"), ("ns", "b")


async def test_a_key_is_given_out_once_and_again_after_a_change(
    virtual_clock: VirtualClock,
) -> None:
    queue = WorkQueue(virtual_clock.monotonic)
    queue.add(A)
    queue.add(A)
    assert await queue.take() == A
    queue.add(A)
    queue.add(B)
    assert await queue.take() == B  # A is being worked on.
    queue.done(A)
    assert await queue.take() == A


async def test_the_back_off_doubles_and_ends_after_a_success(virtual_clock: VirtualClock) -> None:
    queue = WorkQueue(virtual_clock.monotonic)
    assert [queue.retry(A) for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
    for _ in range(40):
        seconds = queue.retry(A)
    assert seconds == 1000
    queue.forget(A)
    assert queue.retry(A) == 0.005


async def test_an_earlier_time_replaces_a_later_one(virtual_clock: VirtualClock) -> None:
    queue = WorkQueue(virtual_clock.monotonic)
    began = virtual_clock.monotonic()
    queue.add_after(A, 50)
    queue.add_after(A, 10)
    queue.add_after(A, 30)
    assert await queue.take() == A
    assert virtual_clock.monotonic() - began == pytest.approx(10)
    queue.done(A)
    queue.add_after(B, 100)
    assert await queue.take() == B  # A does not come again at 30 and 50 s.


class Recorder:
    """A controller that records its calls; each may fail, or ask for another one."""

    name = "test-controller"

    def __init__(self) -> None:
        self.calls: list[tuple[float, Key]] = []
        self.failures: list[Exception] = []
        self.again: float | None = None

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {Pod: own_key}

    async def sync(self, key: Key) -> float | None:
        self.calls.append((asyncio.get_running_loop().time(), key))
        if self.failures:
            raise self.failures.pop()
        again, self.again = self.again, None
        return again


async def test_a_controller_syncs_at_the_start_after_changes_errors_and_times(
    virtual_clock: VirtualClock,
) -> None:
    cache, controller = cache_of(pod("a", 1)), Recorder()
    controller.failures = [ApiError(409, "Conflict", "changed"), ValueError("a bug")]
    controller.again = 60.0
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_controller(controller, cache, virtual_clock))
        await asyncio.sleep(1)
        assert [key for _, key in controller.calls] == [A, A, A]
        cache.put(pod("b", 2))
        await asyncio.sleep(1)
        assert controller.calls[-1][1] == B
        await asyncio.sleep(60)
        assert [key for _, key in controller.calls] == [A, A, A, B, A]
        task.cancel()
    cache.put(pod("c", 3))  # A stopped controller observes nothing.
    assert len(controller.calls) == 5
