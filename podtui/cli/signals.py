"""Signals that end a command while it waits."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


def run_until_signal(work: Coroutine[Any, Any, T], runner: asyncio.Runner | None = None) -> T:
    """Run a coroutine, in a runner of its own by default.

    On SIGTERM or SIGHUP it is cancelled, so that it restores the terminal and ends the programs
    that it started; then SystemExit is raised with the status that a shell reports for the signal.
    """
    ends: list[int] = []

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            ends.append(number)
            task.cancel()

        # Only the main thread can handle signals.
        handled = _ENDS if threading.current_thread() is threading.main_thread() else ()
        for number in handled:
            loop.add_signal_handler(number, end, number)
        try:
            return await work
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(cancellable()) if runner is None else runner.run(cancellable())
    except asyncio.CancelledError:
        if not ends:
            raise
        raise SystemExit(128 + ends[0]) from None
