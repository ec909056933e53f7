"""The database file of the records: schema, recovery from damage, and the thread that writes it.

A damaged file is moved aside, whichever error its content raises. Records of kinds that this
version does not know are left in the file, unread: a newer podtui wrote them. A file with a newer
schema is refused, and the file is copied before another version than the one that wrote it uses it
(docs/reliability.md, "Upgrades and downgrades").

Changes are written in batches. Of several changes of one object between two commits, only the last
is written. A failed commit is retried, together with newer changes, until it succeeds or the writer
closes. A record that cannot be written at all does not keep the others from the file.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeGuard

import msgspec

from podtui import __version__
from podtui.api.objects import Object
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.private_files import open_private
from podtui.store.resources import RESOURCES, Key, Resource

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x706F6474
TABLES: Final[Mapping[str, str]] = {
    "records": """CREATE TABLE records (
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    rv INTEGER NOT NULL,
    written REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
)""",
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "usage_rows": "CREATE TABLE usage_rows (level INTEGER, at INTEGER, data BLOB)",
    "usage_rows_by_time": "CREATE INDEX usage_rows_by_time ON usage_rows (level, at)",
}
"""The statements as the file has them. `podtui.store.usage` creates the last two."""
_RECORD_TABLES: Final = ("records", "meta")
_SCHEMA = f"""
BEGIN IMMEDIATE;
{TABLES["records"]};
{TABLES["meta"]};
INSERT INTO meta VALUES ('rv', 0);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
MAX_VERSION: Final = 1 << 62
"""A larger resourceVersion is damage: the next ones would not fit into the file."""
_VERSION_TEXT: Final = re.compile(r"[0-9A-Za-z.+-]{1,40}")
_KIND_TEXT: Final = re.compile(r"[a-z.-]{1,63}")
MAX_SHOWN_CHARACTERS: Final = 200
MAX_SHOWN_RECORDS: Final = 20
_SHORT_READ = 522
_ENVIRONMENT = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_AUTH,
    }
)
"""The result codes that say nothing about the content of the file."""
_DAMAGED_WHILE_OPEN = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY_DBMOVED}
)

_DECODERS = {name: msgspec.json.Decoder(kept.type) for name, kept in RESOURCES.items()}

GATHER_SECONDS = 0.05
RETRY_SECONDS = 1.0
HANG_SECONDS = 30.0
"""A commit that takes longer is reported as a problem."""


class _Damaged(Exception):
    """Raised if the file is not a valid records file; the text says why."""


class _Newer(Exception):
    """Raised if a newer podtui wrote the file; the text says which."""


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
    except Exception:
        connection.close()
        raise
    return connection


def load(path: str, now: datetime, version: str = __version__) -> Loaded:
    """Read the file; create it with mode 0600 if it is missing. A damaged file is moved aside.

    ``version`` is the version of podtui that will write the file. Raises `PodtuiError` if the path
    cannot be used at all (permissions, a link, a directory, locked), or if a newer podtui wrote the
    file.
    """
    try:
        _create_private(path)
        try:
            return _read(path, now, version)
        except _Damaged as damage:
            aside = _aside(path, now)
            _move(path, aside)
            recovered = (
                f"{path} was unusable ({damage}) and was renamed to {aside}; a new file was created"
            )
            log.warning("%s", recovered)
            _create_private(path)
            _read(path, now, version)
            return Loaded(recovered=recovered)
    except _Newer as newer:
        raise PodtuiError(f"{path} was written by {newer}") from newer
    except (OSError, sqlite3.Error, _Damaged) as error:
        raise PodtuiError(f"cannot use the records file {path}: {error}") from error


def write(
    connection: sqlite3.Connection, rows: Iterable[tuple[Key, RecordRow]], version: int
) -> dict[Key, str]:
    """Write a batch in one transaction, with the version counter after the batch. Return the errors
    of the records that cannot be written; the others are written."""
    failed: dict[Key, str] = {}
    connection.execute("BEGIN IMMEDIATE")
    try:
        for key, row in rows:
            try:
                _write_row(connection, key, row)
            except Exception as error:
                if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.DataError):
                    raise  # a fault of the file, not of the record
                failed[key] = f"{type(error).__name__}: {error}"
        connection.execute("UPDATE meta SET value = ? WHERE key = 'rv'", (version,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return failed


def _write_row(connection: sqlite3.Connection, key: Key, row: RecordRow) -> None:
    if row.object is None:
        connection.execute(
            "DELETE FROM records WHERE resource = ? AND namespace = ? AND name = ?", key
        )
        return
    data = msgspec.json.encode(row.object)
    values = (*key, row.resource_version, row.written, data)
    connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", values)


def _create_private(path: str) -> None:
    """Create the file with mode 0600 before SQLite opens it: the WAL file gets the same mode."""
    for suffix, flags in (("-wal", 0), ("-shm", 0), ("", os.O_CREAT)):
        try:
            descriptor = open_private(Path(path + suffix), os.O_RDWR | flags)
        except FileNotFoundError:
            continue
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)


def _read(path: str, now: datetime, version: str) -> Loaded:
    try:
        with contextlib.closing(connect(path)) as connection:
            # A name that is not UTF-8 makes one record unreadable, not the whole file.
            connection.text_factory = _text
            problem = _check(connection)
            notes = [_without_usage(connection, path, now, problem)] if problem else []
            return _take_over(connection, path, now, version, notes)
    except (OSError, MemoryError, _Damaged, _Newer):
        raise
    except Exception as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _ENVIRONMENT and code != _SHORT_READ:
            raise
        # The content of the file raised any other error of SQLite or Python.
        raise _Damaged(str(error) or type(error).__name__) from error


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _check(connection: sqlite3.Connection) -> str:
    """Create the schema in an empty file. Return what is damaged if the records are sound; raises
    `_Damaged` otherwise, and `_Newer`."""
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if not tables and schema == 0:
        connection.executescript(_SCHEMA)
        return ""
    if schema != SCHEMA_VERSION:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        # Both numbers agree if podtui wrote them.
        if schema > SCHEMA_VERSION and meta.get("schema") == schema:
            raise _Newer(_newer_text(_version_text(meta.get("podtui")), schema))
        raise _Damaged(f"schema version {schema}, this podtui writes {SCHEMA_VERSION}")
    for name in _RECORD_TABLES:
        if tables.get(name) != TABLES[name]:
            raise _Damaged(f"the table {name} has another definition")
    problem = _integrity(connection, "1")
    for name in _RECORD_TABLES if problem else ():
        if damage := _integrity(connection, name):
            raise _Damaged(damage)
    if any(tables.get(name, statement) != statement for name, statement in TABLES.items()):
        problem = "the usage history has another definition"
    # Fails if a damaged header makes the file read-only. Nothing reaches the disk.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE meta SET value = value")
    connection.execute("ROLLBACK")
    return problem


def _integrity(connection: sqlite3.Connection, scope: str) -> str:
    """Return the first problem in a table, or in the whole file with scope ``1``."""
    result: str = connection.execute(f"PRAGMA integrity_check({scope})").fetchone()[0]
    return "" if result == "ok" else " ".join(result.split())


def _without_usage(connection: sqlite3.Connection, path: str, now: datetime, problem: str) -> str:
    """Rewrite the file with its sound tables: all but the usage history. Return a note about it.
    Raises `_Damaged`."""
    aside = _aside(path, now)
    _copy(connection, aside)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_master WHERE tbl_name NOT IN (?, ?)", _RECORD_TABLES)
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("VACUUM")
    if left := _integrity(connection, "1"):
        raise _Damaged(left)
    return f"the usage history was unusable ({problem}) and starts over; {aside} is a copy"


def _newer_text(version: str, schema: int) -> str:
    return (
        f"podtui {version or 'of a newer version'} (schema version {schema}); podtui {__version__}"
        f" reads schema version {SCHEMA_VERSION}. Start podtui {version or 'of that version'} or"
        " newer, or replace the file by the copy that the newer podtui made before it used the file"
        " (records.db.backup-*)"
    )


def _version_text(value: object) -> str:
    return value if isinstance(value, str) and _VERSION_TEXT.fullmatch(value) else ""


def _take_over(
    connection: sqlite3.Connection, path: str, now: datetime, version: str, notes: list[str]
) -> Loaded:
    """Read the records, and make the file that of this version of podtui. Copy it first if another
    version wrote it, or if records are dropped. ``notes`` say what was recovered before."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    rows: dict[Key, RecordRow] = {}
    unreadable: dict[int, str] = {}
    unknown: Counter[str] = Counter()
    highest = meta.get("rv")
    if not _is_version(highest):
        raise _Damaged("the counter is missing or damaged")
    for number, resource, namespace, name, rv, written, data in connection.execute(
        "SELECT rowid, resource, namespace, name, rv, written, data FROM records"
        " ORDER BY written, rv"
    ):
        shown = _shown(resource, namespace, name)
        try:
            "/".join((resource, namespace, name)).encode()
            if not _is_version(rv):
                raise ValueError("its resourceVersion is damaged")
            highest = max(highest, rv)
            if resource not in RESOURCES and _KIND_TEXT.fullmatch(resource):
                unknown[resource] += 1
                continue
            rows[resource, namespace, name] = _decoded(resource, namespace, name, rv, written, data)
        except Exception as error:  # noqa: BLE001 - damaged data may raise any error in the decoders
            log.warning("dropping the unreadable record %s: %s", shown, error)
            unreadable[number] = shown
    if unknown:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(unknown.items()))
        log.warning("%s has records of unknown kinds, which are kept: %s", path, kinds)
    writer = _version_text(meta.get("podtui"))
    if unreadable:
        aside = _aside(path, now)
        _copy(connection, aside)
        names = ", ".join([*unreadable.values()][:MAX_SHOWN_RECORDS])
        if len(unreadable) > MAX_SHOWN_RECORDS:
            names += f" (and {len(unreadable) - MAX_SHOWN_RECORDS} more)"
        notes.append(f"dropped unreadable records: {names}; {aside} is a copy of the file before")
    elif writer != version and (rows or unknown):
        backup = f"{path}.backup-{writer or 'unknown'}"
        _copy(connection, backup)
        log.info("podtui %s wrote the records last: %s is a copy", writer or "(unknown)", backup)
    if unreadable or writer != version:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("DELETE FROM records WHERE rowid = ?", [(n,) for n in unreadable])
        _adopt(connection, version)
        connection.execute("COMMIT")
    for note in notes:
        log.warning("%s: %s", path, note)
    return Loaded(rows, highest, "; ".join(notes))


def _adopt(connection: sqlite3.Connection, version: str) -> None:
    """Note in the file which version of podtui writes it."""
    values = {"podtui": version, "schema": SCHEMA_VERSION}
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def _shown(resource: object, namespace: object, name: object) -> str:
    """Return the key of a record, which may be damaged, as a text of bounded length."""
    return ascii(f"{resource}/{namespace}/{name}")[1:-1][:MAX_SHOWN_CHARACTERS]


def _is_version(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < MAX_VERSION


def _decoded(
    resource: Resource, namespace: str, name: str, rv: int, written: object, data: Any
) -> RecordRow:
    """Raises `ValueError`, and any error of the decoder."""
    item = _DECODERS[resource].decode(data)
    meta = item.metadata
    if (meta.namespace, meta.name, meta.resourceVersion) != (namespace, name, str(rv)):
        raise ValueError("it does not match its key")
    if not isinstance(written, float | int) or not math.isfinite(written):
        raise ValueError("its time is damaged")
    return RecordRow(item, rv, written)


def _aside(path: str, now: datetime) -> str:
    """Return a free name for a damaged file."""
    stem = aside = f"{path}.damaged-{now:%Y%m%dT%H%M%SZ}"
    attempt = 1
    while os.path.lexists(aside):
        attempt += 1
        aside = f"{stem}-{attempt}"
    return aside


def _move(path: str, target: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(path + suffix, target + suffix)


def _copy(connection: sqlite3.Connection, target: str) -> None:
    """Write a complete copy of the database, with mode 0600."""
    passing = Path(f"{target}.new")
    passing.unlink(missing_ok=True)
    os.close(open_private(passing, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    with contextlib.closing(sqlite3.connect(passing)) as copy:
        connection.backup(copy)
    passing.replace(target)


# --- writing in the background


Done = Callable[[str], None]
"""Called with an empty text, or with the error."""


class Writer:
    """Writes changes in a thread. `submit` and `notify` may be called from any thread.

    If the file is damaged meanwhile, it is moved aside, and ``snapshot`` returns what to write to a
    new one. ``committed`` is called with the version up to which urgent changes were committed, or
    could not be. Both are called from the thread. Raises `podtui.errors.PodtuiError` if the file
    cannot be opened.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        snapshot: Callable[[], dict[Key, RecordRow]] = dict,
        committed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._snapshot = snapshot
        self._committed = committed
        try:
            self._connection = connect(path)
            self._identity = _identity(path)
        except sqlite3.Error as error:
            raise PodtuiError(f"cannot write the records file {path}: {error}") from error
        # The condition guards what `submit` and `notify` share with the thread. The connection is
        # used by the thread alone.
        self._wake = threading.Condition()
        self._pending: dict[Key, RecordRow] = {}
        self._version = 0
        self._urgent = False
        self._callbacks: list[tuple[Key | None, Done]] = []
        self._committing: list[tuple[Key | None, Done]] | None = None
        """The callbacks of the batch that is being committed."""
        self._commit_began: float | None = None
        """By the clock of the thread's waits: the injected one belongs to the event loop."""
        self._closing = False
        self._ended = False
        self._problem = ""
        self._failed: dict[Key, str] = {}
        self._thread = threading.Thread(target=self._run, name="podtui-records", daemon=True)
        self._durable: bool | None = None
        """True if commits wait for the disk; None on a new connection."""
        self._thread.start()

    def submit(self, key: Key, row: RecordRow, *, urgent: bool = False) -> None:
        """Queue the row for one of the next commits: the very next one if it is urgent."""
        with self._wake:
            # Of several changes of a record only the last is written. It goes to the end, so that
            # rows are in the order of their versions.
            self._pending.pop(key, None)
            self._pending[key] = row
            self._version = row.resource_version
            self._urgent |= urgent
            if urgent or len(self._pending) == 1:
                self._wake.notify()
        if urgent and self._ended:
            self._committed(row.resource_version)

    def notify(self, callback: Done, key: Key | None = None) -> None:
        """Call ``callback`` from the writer's thread with an empty text once everything submitted
        is on disk, or with the error if the commit failed. With ``key``, the errors of other
        records do not count."""
        with self._wake:
            if not self._closing and not self._ended:
                if self._committing is not None and not self._pending:
                    self._committing.append((key, callback))
                    return
                self._callbacks.append((key, callback))
                self._wake.notify()
                return
        callback("the records are closed" if self._closing else self.problem())

    def problem(self) -> str:
        """Return why changes are not written; empty if they are."""
        if self._ended and not self._closing:
            return "the thread that writes the records has ended: restart the agent"
        began = self._commit_began
        if began is not None and (seconds := time.monotonic() - began) > HANG_SECONDS:
            return f"the records cannot be written: the disk has not answered for {seconds:.0f} s"
        if self._problem:
            return f"the records cannot be written: {self._problem}"
        return _failures_text(self._failed)

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
            with self._wake:
                self._ended = True
                callbacks, self._callbacks = self._callbacks, []
                urgent, version = self._urgent, self._version
            for _, callback in callbacks:
                callback("records are no longer written")
            if urgent:
                self._committed(version)

    def _step(self) -> bool:
        """Wait for work and commit once. Return False when the writer is done."""
        with self._wake:
            self._wake.wait_for(lambda: self._pending or self._callbacks or self._closing)
            # Wait for more changes, to commit them together, unless someone waits for the disk.
            self._wake.wait_for(
                lambda: self._callbacks or self._urgent or self._closing, GATHER_SECONDS
            )
            batch, self._pending = self._pending, {}
            callbacks, self._callbacks = self._callbacks, []
            self._committing = callbacks
            closing, version = self._closing, self._version
            urgent, self._urgent = self._urgent, False
        self._commit_began = time.monotonic()
        problem = self._commit(batch, version) if batch else ""
        self._commit_began = None
        with self._wake:
            self._committing = None
        if urgent:
            self._committed(version)
        for key, callback in callbacks:
            failed = self._failed if key is None else {}
            if key is not None and key in self._failed:
                failed = {key: self._failed[key]}
            try:
                callback(problem or _failures_text(failed))
            except Exception:
                log.exception("cannot report the end of a write")
        if not problem:
            return not closing
        with self._wake:
            # Rows that were submitted meanwhile replace those of the failed batch.
            self._pending = batch | self._pending
            self._wake.wait_for(lambda: self._closing, RETRY_SECONDS)
        return not closing

    def _commit(self, batch: dict[Key, RecordRow], version: int) -> str:
        """Commit the batch. Return the error, empty on success."""
        durable = any(RESOURCES[resource].durable for resource, _, _ in batch)
        try:
            if self._identity is None or _identity(self._path) != self._identity:
                # SQLite would go on writing to a file that no one can open again.
                batch |= self._renew("removed or replaced")
            # Only durable records are worth a wait for the disk; see `Retention`.
            if durable is not self._durable:
                level = "FULL" if durable else "NORMAL"
                self._connection.execute(f"PRAGMA synchronous = {level}")
                self._durable = durable
            try:
                failed = write(self._connection, batch.items(), version)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode not in _DAMAGED_WHILE_OPEN:
                    raise
                batch |= self._renew(f"damaged ({error})")
                failed = write(self._connection, batch.items(), version)
        except Exception as error:  # noqa: BLE001 - the thread survives any error of a commit
            self._problem = f"{error}" if isinstance(error, sqlite3.Error) else repr(error)
            log.warning("cannot write %d records to %s: %s", len(batch), self._path, self._problem)
            return self._problem
        for (resource, namespace, name), text in failed.items():
            shown = _shown(resource, namespace, name)
            log.error("the record %s cannot be written: %s", shown, text)
        kept = {key: text for key, text in self._failed.items() if key not in batch}
        self._failed = kept | failed
        self._problem = ""
        return ""

    def _renew(self, what: str) -> dict[Key, RecordRow]:
        """Open a new file in place of the damaged one. Return all records, to be written to it."""
        self._connection.close()
        if self._identity is not None:
            aside = _aside(self._path, self._clock.now())
            kept = f", what was there is kept as {aside}" if os.path.lexists(self._path) else ""
            _move(self._path, aside)
            log.warning(
                "%s was %s: all records are written to a new file%s", self._path, what, kept
            )
        else:
            # An earlier attempt failed, for example because the disk is full.
            Path(self._path).unlink(missing_ok=True)
        self._identity = None
        _create_private(self._path)
        self._connection = connect(self._path)
        self._durable = None
        _check(self._connection)
        _adopt(self._connection, __version__)
        self._identity = _identity(self._path)
        return self._snapshot()


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode, which differ if another file has the name; None without a file."""
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return None
    return info.st_dev, info.st_ino


def _failures_text(failed: Mapping[Key, str]) -> str:
    """Describe the records that cannot be written: the first of them, and how many there are."""
    if not failed:
        return ""
    key, text = next(iter(failed.items()))
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"the record {_shown(*key)} cannot be written: {text}{more}"
