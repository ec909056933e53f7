"""What was used over the last week, in little room: so that who looks later sees it.

Points are ten seconds apart for an hour, a minute for six, ten minutes for seven days; the farther
ones have the highest value of their stretch, so that no peak is lost.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from podtui.kubelet.insight.turn import Turn

SPACING: Final = 10.0
"""Seconds between the closest points, however often usage is asked for."""
GONE_SECONDS: Final = 3600.0
"""For how long there may be a way back for a pod that is gone."""
_SLACK: Final = 1.0
NOT_MEASURED: Final = math.nan


@dataclass(frozen=True, slots=True)
class Level:
    """Points ``spacing`` seconds apart, at most ``kept`` of them."""

    spacing: float
    kept: int

    @property
    def span(self) -> float:
        return self.spacing * self.kept


LEVELS: Final = (Level(SPACING, 360), Level(60.0, 360), Level(600.0, 1008))
Key = tuple[str, ...]
"""Of the node ``()``, of a pod's network ``(namespace, name)``, of a container with its name."""
CONTAINER_COLUMNS: Final = ("cpu", "memory", "read", "written", "storage")
"""milli cores, bytes, bytes each second, bytes each second, bytes."""
POD_COLUMNS: Final = ("received", "sent")
"""Bytes each second."""
NODE_COLUMNS: Final = ("cpu", "memory", "pods", "storage")
"""milli cores, bytes, count, bytes."""
COLUMNS: Final = {0: NODE_COLUMNS, 2: POD_COLUMNS, 3: CONTAINER_COLUMNS}


@dataclass(frozen=True, slots=True)
class Row:
    """One point of every series that has one at this time, of one of `LEVELS`, to be kept."""

    level: int
    at: int
    values: Mapping[Key, Sequence[float]]


class _Ring:
    """Rising times (whole Unix seconds) with a value for each column."""

    __slots__ = ("columns", "times")

    def __init__(self, width: int) -> None:
        self.times = array("I")
        self.columns = tuple(array("f") for _ in range(width))

    def add(self, at: int, values: Sequence[float], kept: int) -> None:
        if len(self.times) >= kept:
            # A quarter at a time: moving every point for each new one would cost more.
            for one in (self.times, *self.columns):
                del one[: kept // 4]
        self.times.append(at)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)


@dataclass(slots=True)
class _Stretch:
    """The point of a coarse level that is not over yet."""

    at: int
    values: list[float]

    def fold(self, values: Sequence[float]) -> None:
        self.values = [
            b if math.isnan(a) else a if math.isnan(b) else max(a, b)
            for a, b in zip(self.values, values, strict=True)
        ]


@dataclass(slots=True)
class _Track:
    width: int
    rings: tuple[_Ring, ...]
    stretches: list[_Stretch | None] = field(default_factory=list[_Stretch | None])

    @classmethod
    def of(cls, width: int) -> _Track:
        return cls(width, tuple(_Ring(width) for _ in LEVELS), [None] * len(LEVELS))

    @property
    def newest(self) -> int:
        return max((ring.times[-1] for ring in self.rings if ring.times), default=0)

    def wants(self, at: int) -> bool:
        """Whether this is far enough from the last point."""
        times = self.rings[0].times
        return not times or at - times[-1] >= SPACING - _SLACK

    def add(self, at: int, values: Sequence[float]) -> Iterator[tuple[int, int, list[float]]]:
        """Take a point; gives those of coarse levels that are over by it: level, time, values."""
        self.rings[0].add(at, values, LEVELS[0].kept)
        for number in range(1, len(LEVELS)):
            if (over := self.fold(number, at, values)) is not None:
                yield number, over.at, over.values

    def fold(self, number: int, at: int, values: Sequence[float]) -> _Stretch | None:
        """Take a point into a coarse level; the stretch that is over by it, if one is."""
        level = LEVELS[number]
        begin = int(at // level.spacing * level.spacing)
        open_one = self.stretches[number]
        if open_one is not None and open_one.at == begin:
            open_one.fold(values)
            return None
        self.stretches[number] = _Stretch(begin, list(values))
        if open_one is not None:
            self.rings[number].add(open_one.at, open_one.values, level.kept)
        return open_one

    def restore(self, number: int, at: int, values: Sequence[float]) -> None:
        """Take back a point of a coarse level, and have it count in those beyond it."""
        if not self.rings[number].times or at > self.rings[number].times[-1]:
            self.rings[number].add(at, values, LEVELS[number].kept)
        for beyond in range(number + 1, len(LEVELS)):
            known = self.rings[beyond].times
            if not known or at >= known[-1] + LEVELS[beyond].spacing:
                self.fold(beyond, at, values)

    def points(self, since: float, span: float) -> Points:
        """Of the closest level that reaches over ``span`` seconds; before its first point of those
        beyond it, after its last of those within it."""
        fitting = (n for n, level in enumerate(LEVELS) if level.span >= span)
        chosen = next(fitting, len(LEVELS) - 1)
        parts: list[tuple[_Ring, int, int]] = []
        first = math.inf
        for ring, level in zip(self.rings[chosen:], LEVELS[chosen:], strict=True):
            # Of stretches, those that were over by then.
            begin, end = (
                bisect_left(ring.times, since),
                bisect_right(ring.times, first - level.spacing),
            )
            if begin < end:
                parts.insert(0, (ring, begin, end))
                first = ring.times[begin]
        for number in range(chosen - 1, -1, -1):
            ring, after = self.rings[number], since
            if parts:
                newest, _, end = parts[-1]
                after = max(since, newest.times[end - 1] + LEVELS[number + 1].spacing)
            if (begin := bisect_left(ring.times, after)) < len(ring.times):
                parts.append((ring, begin, len(ring.times)))
        return Points(
            tuple(at for ring, begin, end in parts for at in ring.times[begin:end]),
            tuple(
                tuple(v for ring, begin, end in parts for v in ring.columns[place][begin:end])
                for place in range(self.width)
            ),
        )


@dataclass(frozen=True, slots=True)
class Points:
    """Rising Unix seconds, and the values of each column at them; NaN was not measured."""

    times: tuple[int, ...]
    columns: tuple[tuple[float, ...], ...]


class UsageHistory:
    """Of containers, pods and the node. Some 40 KB for each container after a week."""

    def __init__(self) -> None:
        self._tracks: dict[Key, _Track] = {}
        self._fresh = False
        self._over: dict[tuple[int, int], dict[Key, Sequence[float]]] = {}
        self.turn = Turn()
        """Turns with every look that brought something new."""

    def add(self, at: float, key: Key, values: Sequence[float]) -> None:
        """Take a point; ``at`` in Unix seconds, a value for each column of this kind of key."""
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track.of(len(COLUMNS[len(key)]))
        if not track.wants(int(at)):
            return
        self._fresh = True
        for level, begin, over in track.add(int(at), values):
            self._over.setdefault((level, begin), {})[key] = over

    def drain(self) -> tuple[Row, ...]:
        """What is to be put on record since the last call. Ends a look: who waits is woken, where
        it brought a point."""
        over, self._over = self._over, {}
        if self._fresh:
            self._fresh = False
            self.turn.over()
        return tuple(Row(level, at, values) for (level, at), values in over.items())

    def restore(self, row: Row) -> None:
        """Take back what was on record; rows of the farthest level first, each level's in the order
        of their times. Values of another podtui, which counted otherwise, are left out."""
        for key, values in row.values.items():
            width = len(COLUMNS.get(len(key), ()))
            if len(values) == width:
                self._tracks.setdefault(key, _Track.of(width)).restore(row.level, row.at, values)

    def keep(self, wanted: Collection[tuple[str, str]], now: float) -> None:
        """Forget pods, but for these (by namespace and name), that have been gone for long."""
        for key in [key for key in self._tracks if key and key[:2] not in wanted]:
            if self._tracks[key].newest < now - GONE_SECONDS:
                del self._tracks[key]

    def containers(self, namespace: str, name: str) -> tuple[str, ...]:
        """Those of a pod of which there is something, in order."""
        return tuple(
            sorted(k[2] for k in self._tracks if len(k) == 3 and k[:2] == (namespace, name))
        )

    def points(self, key: Key, since: float, span: float) -> Points:
        """What there is since then, close enough for ``span`` seconds. Both in seconds."""
        track = self._tracks.get(key)
        if track is None:
            return Points((), tuple(() for _ in COLUMNS[len(key)]))
        return track.points(since, span)
