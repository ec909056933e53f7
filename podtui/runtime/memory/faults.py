"""Fault injection for tests: failing, slow and blocked verbs, a lost engine, lost events."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from podtui.errors import EngineError, EngineUnavailable


@dataclass(slots=True)
class _Failure:
    error: EngineError
    times: int | None


class Faults:
    """The injected faults. Verbs are named as in the protocol (``pull_image``, ``list`` …)."""

    def __init__(self) -> None:
        self._failures: dict[str, list[_Failure]] = {}
        self._delays: dict[str, float] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._unavailable: str | None = None
        self.drop_events = False
        """Deliver no events, so that only a relist finds changes."""
        self.calls: Counter[str] = Counter()
        """The number of calls of each verb, including failed ones."""

    def fail(self, verb: str, error: EngineError, *, times: int | None = 1) -> None:
        """Make the next ``times`` calls of the verb raise; None: until `clear`."""
        self._failures.setdefault(verb, []).append(_Failure(error, times))

    def delay(self, verb: str, seconds: float) -> None:
        """Delay every call of the verb before it has any effect."""
        self._delays[verb] = seconds

    def hold(self, verb: str) -> None:
        """Block calls of the verb, before they have any effect, until `release`."""
        self._gates.setdefault(verb, asyncio.Event())

    def release(self, verb: str) -> None:
        gate = self._gates.pop(verb, None)
        if gate is not None:
            gate.set()

    def clear(self) -> None:
        """Remove all faults. An unavailable engine stays unavailable."""
        self._failures.clear()
        self._delays.clear()
        for verb in list(self._gates):
            self.release(verb)
        self.drop_events = False

    def make_unavailable(self, text: str) -> None:
        self._unavailable = text

    def make_available(self) -> None:
        self._unavailable = None

    @property
    def available(self) -> bool:
        return self._unavailable is None

    def check_available(self) -> None:
        """Raises `EngineUnavailable`."""
        if self._unavailable is not None:
            raise EngineUnavailable(self._unavailable)

    async def enter(self, verb: str) -> None:
        """Called first by every verb: counts, waits, raises. Always yields to other tasks."""
        self.calls[verb] += 1
        await asyncio.sleep(self._delays.get(verb, 0.0))
        gate = self._gates.get(verb)
        if gate is not None:
            await gate.wait()
        self.check_available()
        failures = self._failures.get(verb)
        if not failures:
            return
        failure = failures[0]
        if failure.times is not None:
            failure.times -= 1
            if failure.times <= 0:
                failures.pop(0)
        raise failure.error
