"""Delayed calls that a busy machine cannot drop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.message_pump import MessagePump


def call_after(
    pump: MessagePump, seconds: float, callback: Callable[[], object]
) -> asyncio.TimerHandle:
    """Call ``callback`` in the message loop of ``pump`` after ``seconds``; not if it is closed by
    then.

    Textual's ``set_timer`` is not enough for a call that must happen. It treats a timer as a
    repeated one with a single turn, and skips the turn if the machine delays the process by more
    than ``seconds`` while the timer starts. Beside a busy CPU, 1 of 64,000 timers of 1 ms was lost.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, callback)


class Settled:
    """Calls ``callback`` once, ``seconds`` after the last `touch`."""

    def __init__(self, pump: MessagePump, seconds: float, callback: Callable[[], object]) -> None:
        self._pump = pump
        self._seconds = seconds
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = call_after(self._pump, self._seconds, self._callback)
