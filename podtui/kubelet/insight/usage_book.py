"""Persist the usage history, so that it survives a restart of the agent."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.insight.usage_history import LEVELS, Key, Row, UsageHistory
from podtui.store.usage import UsageRow

_LOG = logging.getLogger(__name__)
_DECODER: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_SLICE: Final = 20
"""Number of rows to restore before yielding to the event loop."""


class UsageRecords(Protocol):
    """Interface of `podtui.store.usage.UsageTable`; blocks, raises `PodtuiError`."""

    def load(self) -> tuple[UsageRow, ...]: ...

    def write(self, rows: Sequence[UsageRow], oldest: Mapping[int, int]) -> None: ...


def encode(row: Row) -> UsageRow:
    """Encode a row: keys joined with slashes, values as 4-byte floats."""
    told = {"/".join(key): array("f", values).tobytes() for key, values in row.values.items()}
    return UsageRow(row.level, row.at, msgspec.msgpack.encode(told))


def decode(row: UsageRow) -> Row | None:
    """Decode a row; None for an unknown format."""
    try:
        told = _DECODER.decode(row.data)
        values = {_key(text): array("f", data) for text, data in told.items()}
    except (msgspec.MsgspecError, ValueError):
        return None
    return Row(row.level, row.at, values) if 0 < row.level < len(LEVELS) else None


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
            _LOG.warning("the usage history starts over: %s", error)
            return
        now = self._clock.now().timestamp()
        wanted = [row for row in rows if row.level in _oldest(now) and row.at <= now]
        wanted.sort(key=lambda row: (-row.level, row.at))
        for number, row in enumerate(wanted):
            found = decode(row) if row.at >= _oldest(now)[row.level] else None
            if found is not None:
                self._history.restore(found)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    async def write(self, rows: Sequence[Row]) -> None:
        """Store the completed rows of the history."""
        if self._table is None or not rows:
            return
        oldest = _oldest(self._clock.now().timestamp())
        try:
            await asyncio.to_thread(self._write, self._table, rows, oldest)
            self._broken = False
        except PodtuiError as error:
            if not self._broken:
                _LOG.warning("the history of usage is not on record: %s", error)
            self._broken = True

    def _write(self, table: UsageRecords, rows: Sequence[Row], oldest: Mapping[int, int]) -> None:
        table.write([encode(row) for row in rows], oldest)


def _oldest(now: float) -> dict[int, int]:
    """Return the earliest time to keep for each stored level."""
    return {n: int(now - level.span) for n, level in enumerate(LEVELS) if n > 0}
