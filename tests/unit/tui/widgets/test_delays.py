"""Delayed calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual.app import App
from textual.pilot import Pilot

from podtui.tui.widgets.delays import Settled, call_after


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await pilot.pause(0.01)


async def called(pilot: Pilot[None], counts: list[int]) -> None:
    await until(pilot, lambda: bool(counts))


async def test_a_call_is_made_once_even_if_the_process_was_delayed() -> None:
    app, counts = App[None](), list[int]()
    async with app.run_test() as pilot:
        call_after(app, 0.001, lambda: counts.append(1))
        time.sleep(0.05)  # noqa: ASYNC251
        await called(pilot, counts)
        call_after(app, 0.001, lambda: counts.append(2))
        await until(pilot, lambda: 2 in counts)
        assert counts == [1, 2]


async def test_a_call_runs_in_the_message_loop_of_the_app() -> None:
    app, tasks = App[None](), list[asyncio.Task[object] | None]()
    async with app.run_test() as pilot:
        app.call_next(lambda: tasks.append(asyncio.current_task()))
        call_after(app, 0.0, lambda: tasks.append(asyncio.current_task()))
        async with asyncio.timeout(120):
            while len(tasks) < 2:
                await pilot.pause()
        assert tasks[0] is tasks[1] is not asyncio.current_task()


async def test_a_cancelled_call_is_not_made() -> None:
    app, counts = App[None](), list[int]()
    async with app.run_test() as pilot:
        call_after(app, 0.01, lambda: counts.append(1)).cancel()
        call_after(app, 0.02, lambda: counts.append(2))
        await called(pilot, counts)
        assert counts == [2]


async def test_a_closed_app_is_not_called() -> None:
    app, counts = App[None](), list[int]()
    async with app.run_test():
        pass
    timer = call_after(app, 0.001, lambda: counts.append(1))
    over = asyncio.Event()
    asyncio.get_running_loop().call_at(timer.when() + 0.001, over.set)
    await over.wait()
    assert counts == []


async def test_repeated_touches_make_one_call_after_the_last_one() -> None:
    app, counts = App[None](), list[int]()
    async with app.run_test() as pilot:
        settled = Settled(app, 0.05, lambda: counts.append(1))
        for _ in range(5):
            settled.touch()
        await called(pilot, counts)
        await pilot.pause(0.1)
        assert counts == [1]
        settled.touch()
        async with asyncio.timeout(120):
            while len(counts) < 2:
                await pilot.pause(0.01)
