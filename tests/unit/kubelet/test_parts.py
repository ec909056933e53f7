"""No part of the agent is dead while the agent looks healthy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from virtual_time import VirtualClock, virtual

from podtui.errors import PodtuiError
from podtui.kubelet.tasks import PAUSE, RECOVERY_SECONDS, Parts


def failing(error: Exception) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        raise error

    return run


async def ending() -> None:
    return


async def endless() -> None:
    await asyncio.Event().wait()


@virtual()
@pytest.mark.parametrize(
    ("task", "text"),
    [
        (failing(TypeError("a mistake")), "TypeError: a mistake"),
        (failing(PodtuiError("no space left")), "no space left"),
        (failing(ExceptionGroup("tasks", [ExceptionGroup("", [KeyError("k")])])), "KeyError: 'k'"),
        (ending, "it ended"),
    ],
    ids=["error", "message", "group", "end"],
)
async def test_a_part_that_fails_again_and_again_is_a_problem_at_all_times(
    task: Callable[[], Awaitable[None]], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(VirtualClock())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(parts.keep_running("probes", task))
        for _ in range(50):
            await asyncio.sleep(PAUSE / 2)
            assert parts.problems() == {"probes": text}
        assert parts.problem() == f"probes failed: {text}"
        running.cancel()
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert f"probes failed and will be restarted: {text}" in lines[0]
    if not caplog.records[0].exc_info:
        assert len(lines) == 2
        assert "(10 times in a row)" in lines[1]


@virtual()
async def test_a_restarted_part_counts_as_failed_until_it_has_run_for_a_while() -> None:
    parts = Parts(VirtualClock())
    runs = 0

    async def once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise TypeError("once")
        await endless()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(parts.keep_running("probes", once))
        await asyncio.sleep(PAUSE + RECOVERY_SECONDS - 0.5)
        assert runs == 2
        assert parts.problem()
        await asyncio.sleep(1)
        assert parts.problem() == ""
        running.cancel()


@virtual()
async def test_a_failed_part_does_not_hide_others() -> None:
    parts = Parts(VirtualClock())
    parts.check("records", lambda: "disk full")
    parts.check("other", lambda: "")
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(parts.keep_running("a", endless)),
            group.create_task(parts.keep_running("b", ending)),
        ]
        await asyncio.sleep(5)
        assert parts.problems() == {"b": "it ended", "records": "disk full"}
        for task in tasks:
            task.cancel()
