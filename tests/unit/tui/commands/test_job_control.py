"""The signals of a terminal's job control, on the screen."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from podtui.tui.commands.terminal import handle_job_control

SIGNALS = (signal.SIGTSTP, signal.SIGCONT)


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Set handlers as Textual does; they record the signals."""
    before = [signal.getsignal(number) for number in SIGNALS]
    received: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: received.append(number))
    yield received
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


async def raised(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05)


async def test_textual_handles_a_stop_in_the_event_loop_and_not_in_interrupted_code(
    handled: list[int],
) -> None:
    handle_job_control(asyncio.get_running_loop())
    os.kill(os.getpid(), signal.SIGTSTP)
    # Python would have called a plain handler by now.
    assert handled == []
    await asyncio.sleep(0.05)
    assert handled == [signal.SIGTSTP]


async def test_a_continue_without_a_stop_is_ignored(handled: list[int]) -> None:
    handle_job_control(asyncio.get_running_loop())
    await raised(signal.SIGCONT)
    assert handled == []
    await raised(signal.SIGTSTP, signal.SIGCONT, signal.SIGCONT)
    assert handled == [signal.SIGTSTP, signal.SIGCONT]
