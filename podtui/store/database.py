"""The database file of the records: schema, recovery from damage, and the thread that writes it.

Changes are written in batches. Of several changes of one object between two commits, only the last
is written. A failed commit is retried, together with newer changes, until it succeeds or the writer
closes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from podtui.errors import PodtuiError
from podtui.store.resources import RESOURCES, Object, Resource

log = logging.getLogger(__name__)

Key = tuple[Resource, str, str]
"""Resource, namespace, name."""

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x706F6474
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE records (
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    rv INTEGER NOT NULL,
    written REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('rv', 0);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_SHORT_READ = 522
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_DECODERS = {name: msgspec.json.Decoder(kept.type) for name, kept in RESOURCES.items()}

GATHER_SECONDS = 0.05
RETRY_SECONDS = 1.0


class _Damaged(Exception):
    """Raised if the file is not a valid records file; the text says why."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A change to write; with ``object`` None, a deletion. ``written`` is in Unix seconds."""

    object: Object | None
    resource_version: int
    written: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of the file. ``recovered`` is empty unless data had to be dropped."""

    rows: dict[Key, RecordRow] = field(default_factory=dict[Key, RecordRow])
    resource_version: int = 0
    recovered: str = ""


def connect(path: str) -> sqlite3.Connection:
    """Open a connection in WAL mode with explicit transactions, usable from any one thread."""
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def load(path: str, now: datetime) -> Loaded:
    """Read the file; create it with mode 0600 if it is missing. A damaged file is moved aside.

    Raises `PodtuiError` if the path cannot be used at all (permissions, a directory, locked).
    """
    try:
        _create_private(path)
        try:
            return _read(path)
        except _Damaged as damage:
            aside = _move_aside(path, now)
            recovered = f"{path} was unusable ({damage}) and is kept as {aside}; a new one was made"
            log.warning("%s", recovered)
            _create_private(path)
            _read(path)
            return Loaded(recovered=recovered)
    except (OSError, sqlite3.Error, _Damaged) as error:
        raise PodtuiError(f"cannot use the records file {path}: {error}") from error


def write(
    connection: sqlite3.Connection, rows: Iterable[tuple[Key, RecordRow]], version: int
) -> None:
    """Write a batch in one transaction, with the version counter after the batch."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for (resource, namespace, name), row in rows:
            if row.object is None:
                connection.execute(
                    "DELETE FROM records WHERE resource = ? AND namespace = ? AND name = ?",
                    (resource, namespace, name),
                )
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        resource,
                        namespace,
                        name,
                        row.resource_version,
                        row.written,
                        msgspec.json.encode(row.object),
                    ),
                )
        connection.execute("UPDATE meta SET value = ? WHERE key = 'rv'", (version,))
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _create_private(path: str) -> None:
    """Create the file with mode 0600 before SQLite opens it: the WAL file gets the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _read(path: str) -> Loaded:
    try:
        with contextlib.closing(connect(path)) as connection:
            _check(connection)
            return _rows(connection)
    except sqlite3.Error as error:
        code = error.sqlite_errorcode if hasattr(error, "sqlite_errorcode") else 0
        if code & 0xFF in _DAMAGE or code == _SHORT_READ:
            raise _Damaged(str(error)) from error
        raise


def _check(connection: sqlite3.Connection) -> None:
    """Create the schema in an empty file. Raises `_Damaged` for an unknown schema or a damaged
    file."""
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables == 0 and version == 0:
        connection.executescript(_SCHEMA)
        return
    if version != SCHEMA_VERSION:
        raise _Damaged(f"schema version {version}, this podtui writes {SCHEMA_VERSION}")
    problem: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise _Damaged(problem)


def _rows(connection: sqlite3.Connection) -> Loaded:
    rows: dict[Key, RecordRow] = {}
    unreadable: list[Key] = []
    for resource, namespace, name, rv, written, data in connection.execute(
        "SELECT resource, namespace, name, rv, written, data FROM records ORDER BY written, rv"
    ):
        key: Key = (resource, namespace, name)
        try:
            rows[key] = RecordRow(_DECODERS[key[0]].decode(data), rv, written)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            log.warning("dropping the unreadable record %s: %s", "/".join(key), error)
            unreadable.append(key)
    for key in unreadable:
        connection.execute(
            "DELETE FROM records WHERE resource = ? AND namespace = ? AND name = ?", key
        )
    counter = connection.execute("SELECT value FROM meta WHERE key = 'rv'").fetchone()
    if counter is None:
        raise _Damaged("the counter is missing")
    version = max((counter[0], *(row.resource_version for row in rows.values())))
    words = ", ".join("/".join(key) for key in unreadable)
    return Loaded(rows, version, f"dropped unreadable records: {words}" if words else "")


def _move_aside(path: str, now: datetime) -> str:
    stem = aside = f"{path}.damaged-{now:%Y%m%dT%H%M%SZ}"
    attempt = 1
    while os.path.lexists(aside):
        attempt += 1
        aside = f"{stem}-{attempt}"
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(path + suffix, aside + suffix)
    return aside


# --- writing in the background


class Writer:
    """Writes changes in a thread. `submit` and `notify` may be called from any thread.

    Raises `podtui.errors.PodtuiError` if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._connection = connect(path)
        except sqlite3.Error as error:
            raise PodtuiError(f"cannot write the records file {path}: {error}") from error
        self._wake = threading.Condition()
        self._pending: dict[Key, RecordRow] = {}
        self._version = 0
        self._callbacks: list[Callable[[str], None]] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="podtui-records", daemon=True)
        self.commits = 0
        self._thread.start()

    def submit(self, key: Key, row: RecordRow) -> None:
        """Queue the row for one of the next commits."""
        with self._wake:
            self._pending.pop(key, None)
            self._pending[key] = row
            self._version = row.resource_version
            if len(self._pending) == 1:
                self._wake.notify()

    def notify(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` from the writer's thread with an empty text once everything submitted
        is on disk, or with the error if the commit failed."""
        with self._wake:
            if not self._closing:
                self._callbacks.append(callback)
                self._wake.notify()
                return
        callback("the records are closed")

    def close(self) -> None:
        """Write pending changes once and stop. Blocks; idempotent."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            self._connection.close()

    def _step(self) -> bool:
        """Wait for work and commit once. Return False when the writer is done."""
        with self._wake:
            self._wake.wait_for(lambda: self._pending or self._callbacks or self._closing)
            self._wake.wait_for(lambda: self._callbacks or self._closing, GATHER_SECONDS)
            batch, self._pending = self._pending, {}
            callbacks, self._callbacks = self._callbacks, []
            closing, version = self._closing, self._version
        problem = self._commit(batch, version) if batch else ""
        for callback in callbacks:
            callback(problem)
        if not problem:
            return not closing
        with self._wake:
            self._pending = batch | self._pending
            self._wake.wait_for(lambda: self._closing, RETRY_SECONDS)
        return not closing

    def _commit(self, batch: dict[Key, RecordRow], version: int) -> str:
        """Commit the batch. Return the error, empty on success."""
        durable = any(RESOURCES[resource].durable for resource, _, _ in batch)
        try:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            write(self._connection, batch.items(), version)
        except sqlite3.Error as error:
            log.warning("cannot write %d records to %s: %s", len(batch), self._path, error)
            return str(error)
        self.commits += 1
        return ""
