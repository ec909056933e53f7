"""Virtual time for asyncio: a loop whose clock jumps to the next timer when nothing is ready.

An hour of back-off takes no real time. Sockets and pipes work (they are polled before time moves)
and so do executor jobs (time stops until they are done). Time does not wait for anything else:
data that another process has not sent yet arrives late.

Three ways to use it:

* ``pytestmark = pytest.mark.virtual_time`` (or on one test or parameter): pytest-asyncio runs the
  test and its async fixtures on a `VirtualLoop`; ``virtual_clock`` is its `VirtualClock`.
* ``@virtual()`` over one ``async def test_...``: the same for a test that uses no async fixture.
* ``run_virtual(coroutine, timeout=...)``: from synchronous code, such as hypothesis examples.

A run that takes more than ``timeout`` seconds of CPU, or in which nothing can ever happen again,
ends with `VirtualTimeError`, which says where every task waits.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import selectors
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
CPU_LIMIT: Final = 20.0
# Reading the CPU time is a system call, slower than most rounds of a loop.
ROUNDS_PER_CPU_CHECK: Final = 64
# Something outside the loop (a thread that was not started through it) may still wake it.
STALL_GRACE: Final = 10.0


class VirtualTimeError(AssertionError):
    """Raised when a run on virtual time hangs, or takes too much CPU time."""


class VirtualClock:
    """A `podtui.clock.Clock` on the running loop's time: ``now()`` is ``EPOCH`` plus that."""

    def __init__(self, epoch: datetime = EPOCH) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _VirtualSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Polls without blocking, and passes waits that would block to the loop."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.loop.check_cpu_time()
        if timeout is not None and timeout <= 0 and len(self.get_map()) == 1:
            # Tasks are ready, and only the wake-up pipe could be polled, which can wait.
            return []
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.executor_jobs:
            return super().select(0.05)
        if timeout is not None:
            self.loop.advance(timeout)
            return []
        # No timer at all. The loop's own wake-up pipe is always registered.
        if len(self.get_map()) > 1:
            return super().select(0.05)
        ready = super().select(STALL_GRACE)
        if not ready:
            self.loop.fail("nothing is left that could ever happen")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at second 0 and never waits for a timer."""

    def __init__(self, *, cpu_limit: float = CPU_LIMIT) -> None:
        self._now = 0.0
        self._cpu_limit = cpu_limit
        self._cpu_start: float | None = None
        self._rounds = 0
        self._failed = False
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = itertools.count()
        self.executor_jobs = 0
        selector = _VirtualSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance time to the next timer, which is ``seconds`` away."""
        target = self._now + seconds
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self._now):
            heapq.heappop(self._timers)
        # The sum of differences misses the timer by rounding; no task may wake early.
        if self._timers and abs(self._timers[0][0] - target) < 1e-6:
            target = self._timers[0][0]
        self._now = max(self._now, target)

    def call_at(self, when: float, *call: Any, **context: Any) -> asyncio.TimerHandle:
        timer = super().call_at(when, *call, **context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        return timer

    def pending_timers(self) -> list[asyncio.TimerHandle]:
        """Return the timers that are still to run."""
        return [
            timer for when, _, timer in self._timers if not timer.cancelled() and when > self._now
        ]

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.executor_jobs += 1
        future.add_done_callback(self._executor_job_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Join the executor's threads in real time: Python 3.12 and later limit this by a timer."""
        self.executor_jobs += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self.executor_jobs -= 1

    def _executor_job_done(self, _future: asyncio.Future[Any]) -> None:
        self.executor_jobs -= 1

    def check_cpu_time(self) -> None:
        """Raises `VirtualTimeError` when the run has used its seconds of CPU.

        The wall clock would fail tests on a busy machine.
        """
        self._rounds += 1
        if self._rounds % ROUNDS_PER_CPU_CHECK != 1:
            return
        if self._cpu_start is None:
            self._cpu_start = time.process_time()
        elif time.process_time() - self._cpu_start > self._cpu_limit:
            self.fail(f"took more than {self._cpu_limit:g} seconds of CPU")

    def fail(self, reason: str) -> None:
        """Raises `VirtualTimeError` once; the clean-up that follows gets the same time again."""
        if self._failed:
            self._cpu_start = time.process_time()
            if reason.startswith("took"):
                return
        self._failed = True
        self._cpu_start = time.process_time()
        raise VirtualTimeError(f"at virtual second {self._now:.3f}: {reason}{_waiting(self)}")


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    lines = [""]
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())[:50]:
        frames = task.get_stack(limit=1)
        place = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "?"
        lines.append(f"{task.get_name()} waits at {place}")
    return "\n  ".join(lines)


def run_virtual(coroutine: Coroutine[Any, Any, T], *, timeout: float = CPU_LIMIT) -> T:
    """Run to the end on a separate loop; ``timeout`` is in seconds of CPU."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(cpu_limit=timeout)) as runner:
        return runner.run(coroutine)


def virtual(
    *, timeout: float = CPU_LIMIT
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Convert an async test to a synchronous one that runs in `run_virtual`."""

    def decorate(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return run_virtual(function(*args, **kwargs), timeout=timeout)

        return run

    return decorate


def new_loop(is_virtual: bool) -> asyncio.AbstractEventLoop:
    """Return the loop of one test."""
    return VirtualLoop() if is_virtual else asyncio.new_event_loop()


async def settle(rounds: int = 20) -> None:
    """Run everything that is ready, without advancing time."""
    for _ in range(rounds):
        await asyncio.sleep(0)
