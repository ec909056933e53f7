"""The thread that writes changes to disk in batches.

Of several changes of one object between two commits, only the last is written. A failed commit is
retried, together with newer changes, until it succeeds or the writer closes.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

from podtui.errors import PodtuiError
from podtui.store.database import Key, RecordRow, connect, write
from podtui.store.resources import RESOURCES

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
RETRY_SECONDS = 1.0


class Writer:
    """Owns the writing connection. `submit` and `notify` may be called from any thread.

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
