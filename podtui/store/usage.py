"""What was used, on disk beside the records: a row or two for every minute, and every ten."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from podtui.errors import PodtuiError
from podtui.store.database import connect

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS usage_rows (level INTEGER, at INTEGER, data BLOB)",
    "CREATE INDEX IF NOT EXISTS usage_rows_by_time ON usage_rows (level, at)",
)
_EFFORT: Final = 1


@dataclass(frozen=True, slots=True)
class UsageRow:
    """``at`` in Unix seconds, for which there may be several rows; ``data`` is the writer's own
    affair."""

    level: int
    at: int
    data: bytes


class UsageTable:
    """A table of the records file ``path``. Everything here blocks, may be called from any thread
    and raises `PodtuiError` where the file cannot be used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()

    def load(self) -> tuple[UsageRow, ...]:
        """All there is, each level in the order of time. What is unreadable is left out."""
        found: list[UsageRow] = []
        with self._opened() as connection:
            rows = connection.execute("SELECT level, at, data FROM usage_rows ORDER BY level, at")
            for level, at, data in rows:
                try:
                    found.append(UsageRow(level, at, zlib.decompress(data)))
                except (zlib.error, TypeError):
                    continue
        return tuple(found)

    def write(self, rows: Iterable[UsageRow], oldest: Mapping[int, int]) -> None:
        """Put these on record, and forget those of each level from before ``oldest``."""
        packed = [(row.level, row.at, zlib.compress(row.data, _EFFORT)) for row in rows]
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
        """The file, open for one piece of work; what was begun and fails is rolled back."""
        try:
            with self._lock, closing(connect(self._path)) as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)
                yield connection
        except sqlite3.Error as error:
            raise PodtuiError(f"cannot use the usage in {self._path}: {error}") from error
