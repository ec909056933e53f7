"""Run calls concurrently, keep the agent's parts running, and broadcast changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, PodtuiError, first_error, is_reported

_LOG = logging.getLogger(__name__)
PAUSE: Final = 1.0
RECOVERY_SECONDS: Final = 10.0
"""A part counts as failed until it has run for this long after its last error."""


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


@dataclass(frozen=True, slots=True)
class _Failure:
    """``restarted`` is the monotonic time of the restart; None before it."""

    text: str
    restarted: float | None = None


class Parts:
    """The tasks that run as long as the agent, and the other conditions of its health.

    The health endpoints and the node's condition Ready report the problems.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}
        self._checks: dict[str, Callable[[], str]] = {}

    def check(self, name: str, problem: Callable[[], str]) -> None:
        """Include a part that reports its own problem; an empty text means that it has none."""
        self._checks[name] = problem

    async def keep_running(self, name: str, task: Callable[[], Awaitable[object]]) -> NoReturn:
        """Run ``task``, and restart it a second after it failed or ended."""
        count = 0
        while True:
            began = self._clock.monotonic()
            traceback: Exception | None = None
            try:
                await task()
                text = "it ended"
            except PodtuiError as error:
                text = str(error)
            except Exception as error:  # noqa: BLE001 - the other parts go on; it is logged
                text, traceback = _text_of(error), error
            count = 1 if self._clock.monotonic() - began >= RECOVERY_SECONDS else count + 1
            if traceback is not None or is_reported(count):
                # The log counts repeated tracebacks.
                times = f" ({count:,} times in a row)" if count > 1 and traceback is None else ""
                _LOG.error(
                    "%s failed and will be restarted%s: %s", name, times, text, exc_info=traceback
                )
            self._failures[name] = _Failure(text)
            await self._clock.sleep(PAUSE)
            self._failures[name] = _Failure(text, self._clock.monotonic())

    def problems(self) -> Mapping[str, str]:
        """Return the problem of each part that has one."""
        now = self._clock.monotonic()
        self._failures = {
            name: failure
            for name, failure in self._failures.items()
            if failure.restarted is None or now - failure.restarted < RECOVERY_SECONDS
        }
        problems = {name: failure.text for name, failure in self._failures.items()}
        for name, check in self._checks.items():
            if text := check():
                problems[name] = text
        return problems

    def problem(self) -> str:
        """Return all problems in one text; empty if there is none."""
        return "; ".join(f"{name} failed: {text}" for name, text in self.problems().items())


def _text_of(error: Exception) -> str:
    """Describe an error; of a group, the first one."""
    error = first_error(error)
    return str(error) if isinstance(error, PodtuiError) else f"{type(error).__name__}: {error}"


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
