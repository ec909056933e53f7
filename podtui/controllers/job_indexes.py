"""Sets of completion indexes of an Indexed Job, as sorted intervals: a Job may have very many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

Interval = tuple[int, int]
"""The first and the last index."""


@dataclass(frozen=True, slots=True)
class Indexes:
    """``intervals`` are sorted, and neither overlap nor touch."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        return _joined((index, index) for index in indexes)

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Read a text such as ``0,3-5``. Indexes from ``completions`` on and parts that are not
        numbers are left out."""
        intervals: list[Interval] = []
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            if first.isdecimal() and (last.isdecimal() or not last):
                intervals.append((int(first), min(int(last or first), completions - 1)))
        return _joined(interval for interval in intervals if interval[0] < completions)

    def __str__(self) -> str:
        return ",".join(map(_text, self.intervals))

    def __or__(self, other: Indexes) -> Indexes:
        return _joined((*self.intervals, *other.intervals))

    def __contains__(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self.intervals)

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def common(self, other: Indexes) -> int:
        """Return the number of indexes that both have."""
        return self.total + other.total - (self | other).total

    def missing(self, completions: int, limit: int) -> list[int]:
        """Return the first ``limit`` indexes below ``completions`` that are not in the set."""
        return list(islice(self._gaps(completions), limit))

    def _gaps(self, completions: int) -> Iterator[int]:
        begin = 0
        for first, last in self.intervals:
            yield from range(begin, min(first, completions))
            begin = last + 1
        yield from range(begin, completions)


def _joined(intervals: Iterable[Interval]) -> Indexes:
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        elif first <= last:
            joined.append((first, last))
    return Indexes(tuple(joined))


def _text(interval: Interval) -> str:
    first, last = interval
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
