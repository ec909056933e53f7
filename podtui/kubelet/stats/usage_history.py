"""The usage history of the last week in compact form.

Points are ten seconds apart for an hour, one minute for six hours, and ten minutes for seven days.
A point of a coarser level is the maximum of its interval, so that no peak is lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.tasks import Broadcast
from podtui.store.usage import UsageRow

SPACING: Final = 10.0
"""Seconds between points of the finest level; more frequent samples are dropped."""
GONE_SECONDS: Final = 3600.0
"""Seconds to keep the history of a removed pod, which may come back."""
_SLACK: Final = 1.0
NOT_MEASURED: Final = math.nan
Key = tuple[str, ...]
"""The node: ``()``. A pod's network: ``(namespace, name)``. A container: ``(namespace, name,
container)``."""
CONTAINER_COLUMNS: Final = ("cpu", "memory", "read", "written", "storage")
"""Millicores, bytes, bytes per second, bytes per second, bytes."""
POD_COLUMNS: Final = ("received", "sent")
"""Bytes per second."""
NODE_COLUMNS: Final = ("cpu", "memory", "pods", "storage")
"""Millicores, bytes, count, bytes."""
COLUMNS: Final = {0: NODE_COLUMNS, 2: POD_COLUMNS, 3: CONTAINER_COLUMNS}
_LOG = logging.getLogger(__name__)
_DECODER: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_SLICE: Final = 20
"""Number of rows to restore before yielding to the event loop."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """At most ``kept`` points, ``spacing`` seconds apart."""

    spacing: float
    kept: int

    @property
    def span(self) -> float:
        return self.spacing * self.kept


LEVELS: Final = (Resolution(SPACING, 360), Resolution(60.0, 360), Resolution(600.0, 1008))


@dataclass(frozen=True, slots=True)
class PointRow:
    """The points of all series at one time and level (of `LEVELS`), to be stored."""

    level: int
    at: int
    values: Mapping[Key, Sequence[float]]


class _Ring:
    """Ascending times (whole Unix seconds) with a value for each column."""

    __slots__ = ("columns", "times")

    def __init__(self, width: int) -> None:
        self.times = array("I")
        self.columns = tuple(array("f") for _ in range(width))

    def add(self, at: int, values: Sequence[float], kept: int) -> None:
        if len(self.times) >= kept:
            # Drop a quarter at once: moving all points for each new one would cost more.
            for points in (self.times, *self.columns):
                del points[: kept // 4]
        self.times.append(at)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)


@dataclass(slots=True)
class _OpenPoint:
    """The unfinished point of a coarse level."""

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
    open_points: list[_OpenPoint | None] = field(default_factory=list[_OpenPoint | None])

    @classmethod
    def of(cls, width: int) -> _Track:
        return cls(width, tuple(_Ring(width) for _ in LEVELS), [None] * len(LEVELS))

    @property
    def newest(self) -> int:
        return max((ring.times[-1] for ring in self.rings if ring.times), default=0)

    def wants(self, at: int) -> bool:
        """Return whether the time is far enough from the last point."""
        times = self.rings[0].times
        return not times or at - times[-1] >= SPACING - _SLACK

    def add(self, at: int, values: Sequence[float]) -> Iterator[tuple[int, int, list[float]]]:
        """Add a point. Yield the points of coarse levels that this completes: level, time,
        values."""
        self.rings[0].add(at, values, LEVELS[0].kept)
        for number in range(1, len(LEVELS)):
            if (point := self.fold(number, at, values)) is not None:
                yield number, point.at, point.values

    def fold(self, number: int, at: int, values: Sequence[float]) -> _OpenPoint | None:
        """Add a point to a coarse level. Return the coarse point that this completes, if any."""
        level = LEVELS[number]
        begin = int(at // level.spacing * level.spacing)
        open_point = self.open_points[number]
        if open_point is not None and open_point.at == begin:
            open_point.fold(values)
            return None
        self.open_points[number] = _OpenPoint(begin, list(values))
        if open_point is not None:
            self.rings[number].add(open_point.at, open_point.values, level.kept)
        return open_point

    def restore(self, number: int, at: int, values: Sequence[float]) -> None:
        """Restore a point of a coarse level, and count it in the coarser levels too."""
        if not self.rings[number].times or at > self.rings[number].times[-1]:
            self.rings[number].add(at, values, LEVELS[number].kept)
        for beyond in range(number + 1, len(LEVELS)):
            times = self.rings[beyond].times
            if not times or at >= times[-1] + LEVELS[beyond].spacing:
                self.fold(beyond, at, values)

    def points(self, since: float, span: float) -> Points:
        """Return the points since ``since``, from the finest level that covers ``span`` seconds.
        Earlier points come from coarser levels, and later points from finer ones."""
        fitting = (n for n, level in enumerate(LEVELS) if level.span >= span)
        selected = next(fitting, len(LEVELS) - 1)
        parts: list[tuple[_Ring, int, int]] = []
        first = math.inf
        for ring, level in zip(self.rings[selected:], LEVELS[selected:], strict=True):
            # Use only coarse points whose interval ended before the finer level's first point.
            begin, end = (
                bisect_left(ring.times, since),
                bisect_right(ring.times, first - level.spacing),
            )
            if begin < end:
                parts.insert(0, (ring, begin, end))
                first = ring.times[begin]
        for number in range(selected - 1, -1, -1):
            ring, after = self.rings[number], since
            if parts:
                newest, _, end = parts[-1]
                after = max(since, newest.times[end - 1] + LEVELS[number + 1].spacing)
            if (begin := bisect_left(ring.times, after)) < len(ring.times):
                parts.append((ring, begin, len(ring.times)))
        return Points(
            tuple(at for ring, begin, end in parts for at in ring.times[begin:end]),
            tuple(
                tuple(v for ring, begin, end in parts for v in ring.columns[index][begin:end])
                for index in range(self.width)
            ),
        )


@dataclass(frozen=True, slots=True)
class Points:
    """Ascending Unix seconds and the values of each column; NaN means not measured."""

    times: tuple[int, ...]
    columns: tuple[tuple[float, ...], ...]


class UsageHistory:
    """The usage of containers, pods and the node; takes about 40 KB for each container after a
    week."""

    def __init__(self) -> None:
        self._tracks: dict[Key, _Track] = {}
        self._has_new_points = False
        self._completed: dict[tuple[int, int], dict[Key, Sequence[float]]] = {}
        self.changed = Broadcast()
        """Signals each scan that added points."""

    def add(self, at: float, key: Key, values: Sequence[float]) -> None:
        """Add a point. ``at`` is in Unix seconds; ``values`` has one value for each column of this
        kind of key."""
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = _Track.of(len(COLUMNS[len(key)]))
        if not track.wants(int(at)):
            return
        self._has_new_points = True
        for level, begin, maxima in track.add(int(at), values):
            self._completed.setdefault((level, begin), {})[key] = maxima

    def drain(self) -> tuple[PointRow, ...]:
        """Return the rows completed since the last call, to be stored. Called at the end of a scan:
        also wakes waiting tasks if the scan added points."""
        completed, self._completed = self._completed, {}
        if self._has_new_points:
            self._has_new_points = False
            self.changed.notify()
        return tuple(PointRow(level, at, values) for (level, at), values in completed.items())

    def restore(self, row: PointRow) -> None:
        """Restore a stored row. Call it for the coarsest level first, and in time order within each
        level. Values with another number of columns, from another podtui version, are ignored."""
        for key, values in row.values.items():
            width = len(COLUMNS.get(len(key), ()))
            if len(values) == width:
                self._tracks.setdefault(key, _Track.of(width)).restore(row.level, row.at, values)

    def keep(self, wanted: Collection[tuple[str, str]], now: float) -> None:
        """Drop pods that have been gone for long, except the ``wanted`` ones (by namespace and
        name)."""
        for key in [key for key in self._tracks if key and key[:2] not in wanted]:
            if self._tracks[key].newest < now - GONE_SECONDS:
                del self._tracks[key]

    def containers(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return the sorted names of the pod's containers that have points."""
        return tuple(
            sorted(k[2] for k in self._tracks if len(k) == 3 and k[:2] == (namespace, name))
        )

    def points(self, key: Key, since: float, span: float) -> Points:
        """Return the points since ``since`` at a resolution for ``span``, both in seconds."""
        track = self._tracks.get(key)
        if track is None:
            return Points((), tuple(() for _ in COLUMNS[len(key)]))
        return track.points(since, span)


# --- storage, so that the history survives a restart of the agent


class UsageRecords(Protocol):
    """Interface of `podtui.store.usage.UsageTable`; blocks, raises `PodtuiError`."""

    def load(self) -> tuple[UsageRow, ...]: ...

    def write(self, rows: Sequence[UsageRow], oldest: Mapping[int, int]) -> None: ...


def encode(row: PointRow) -> UsageRow:
    """Encode a row: keys joined with slashes, values as 4-byte floats."""
    encoded = {"/".join(key): array("f", values).tobytes() for key, values in row.values.items()}
    return UsageRow(row.level, row.at, msgspec.msgpack.encode(encoded))


def decode(row: UsageRow) -> PointRow | None:
    """Decode a row; None for an unknown format."""
    try:
        decoded = _DECODER.decode(row.data)
        values = {_key(text): array("f", data) for text, data in decoded.items()}
    except (msgspec.MsgspecError, ValueError):
        return None
    return PointRow(row.level, row.at, values) if 0 < row.level < len(LEVELS) else None


def _key(text: str) -> Key:
    return tuple(text.split("/")) if text else ()


class UsageBook:
    """Stores completed rows of the history; with ``table`` None, nothing is stored. A write failure
    is logged once, and the rows are lost."""

    def __init__(self, table: UsageRecords | None, history: UsageHistory, clock: Clock) -> None:
        self._table = table
        self._history = history
        self._clock = clock
        self._broken = False

    async def load(self) -> None:
        """Restore the rows that an earlier agent stored."""
        if self._table is None:
            return
        try:
            rows = await asyncio.to_thread(self._table.load)
        except PodtuiError as error:
            _LOG.warning("the usage history starts empty: %s", error)
            return
        now = self._clock.now().timestamp()
        wanted = [row for row in rows if row.level in _oldest(now) and row.at <= now]
        wanted.sort(key=lambda row: (-row.level, row.at))
        for number, row in enumerate(wanted):
            points = decode(row) if row.at >= _oldest(now)[row.level] else None
            if points is not None:
                self._history.restore(points)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    async def write(self, rows: Sequence[PointRow]) -> None:
        """Store the completed rows of the history."""
        if self._table is None or not rows:
            return
        oldest = _oldest(self._clock.now().timestamp())
        try:
            await asyncio.to_thread(self._write, self._table, rows, oldest)
            self._broken = False
        except PodtuiError as error:
            if not self._broken:
                _LOG.warning("cannot record the usage history: %s", error)
            self._broken = True

    def _write(
        self, table: UsageRecords, rows: Sequence[PointRow], oldest: Mapping[int, int]
    ) -> None:
        table.write([encode(row) for row in rows], oldest)


def _oldest(now: float) -> dict[int, int]:
    """Return the earliest time to keep for each stored level."""
    return {n: int(now - level.span) for n, level in enumerate(LEVELS) if n > 0}
