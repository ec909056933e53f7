"""What containers used over the last hour, in little room: so that who looks later sees it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from podtui.api.insight import UsageSeries

SPACING: Final = 10.0
"""Seconds between two points, however often usage is asked for."""
POINTS_KEPT: Final = 360
_SLACK: Final = 1.0


@dataclass(slots=True)
class _Ring:
    """Rising times (Unix seconds) with milli cores and bytes."""

    times: array[float] = field(default_factory=lambda: array("d"))
    cpu: array[float] = field(default_factory=lambda: array("f"))
    memory: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, at: float, cpu: float, memory: int) -> None:
        if self.times and at - self.times[-1] < SPACING - _SLACK:
            return
        if len(self.times) >= POINTS_KEPT:
            # A quarter at a time: moving every point for each new one would cost more.
            for one in (self.times, self.cpu, self.memory):
                del one[: POINTS_KEPT // 4]
        self.times.append(at)
        self.cpu.append(cpu)
        self.memory.append(memory)


class UsageHistory:
    """By pod UID and container. Some 7 KB for each container and hour."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], _Ring] = {}

    def take(self, at: float, usages: Iterable[tuple[str, str, float, int]]) -> None:
        """A look at all that runs: pod UID, container, milli cores, bytes; ``at`` in Unix
        seconds."""
        for uid, container, cpu, memory in usages:
            self._rings.setdefault((uid, container), _Ring()).add(at, cpu, memory)

    def keep(self, wanted: Callable[[str], bool]) -> None:
        """Forget pods (by UID) that are gone."""
        for key in [key for key in self._rings if not wanted(key[0])]:
            del self._rings[key]

    def series(self, uid: str) -> tuple[UsageSeries, ...]:
        """Of one pod, by container."""
        return tuple(
            UsageSeries(
                container=name,
                times=tuple(ring.times),
                cpu=tuple(round(value, 3) for value in ring.cpu),
                memory=tuple(ring.memory),
            )
            for (owner, name), ring in sorted(self._rings.items(), key=lambda item: item[0])
            if owner == uid
        )
