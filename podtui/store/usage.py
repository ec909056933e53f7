"""The usage history on disk, beside the records: one or two rows per minute and per ten minutes."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from podtui.errors import PodtuiError
from podtui.store.database import TABLES, connect

_SCHEMA: Final = tuple(
    TABLES[name].replace(name, f"IF NOT EXISTS {name}", 1)
    for name in ("usage_rows", "usage_rows_by_time")
)
_COMPRESSION_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A stored row. ``at`` is in Unix seconds and need not be unique; the format of ``data`` is up
    to the writer."""

    level: int
    at: int
    data: bytes


class UsageTable:
    """A table in the records file ``path``. All methods block, are thread-safe and raise
    `PodtuiError` if the file cannot be used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()

    def load(self) -> tuple[UsageRow, ...]:
        """Return all rows in time order within each level, without unreadable ones."""
        readable: list[UsageRow] = []
        with self._opened() as connection:
            # A damaged row may have a text that is not UTF-8.
            connection.text_factory = bytes
            rows = connection.execute("SELECT level, at, data FROM usage_rows ORDER BY level, at")
            for level, at, data in rows:
                if not isinstance(level, int) or not isinstance(at, int):
                    continue
                try:
                    readable.append(UsageRow(level, at, zlib.decompress(data)))
                except (zlib.error, TypeError):
                    continue
        return tuple(readable)

    def write(self, rows: Iterable[UsageRow], oldest: Mapping[int, int]) -> None:
        """Store the rows, and delete rows of each level from before ``oldest``."""
        packed = [(row.level, row.at, zlib.compress(row.data, _COMPRESSION_LEVEL)) for row in rows]
        with self._opened() as connection:
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO usage_rows VALUES (?, ?, ?)", packed)
            connection.executemany(
                "DELETE FROM usage_rows WHERE level = ? AND at < ?", tuple(oldest.items())
            )
            connection.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        """Open the file for one operation; a transaction that fails is rolled back."""
        try:
            with self._lock, closing(connect(self._path)) as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)
                yield connection
        except sqlite3.Error as error:
            raise PodtuiError(f"cannot use the usage in {self._path}: {error}") from error
