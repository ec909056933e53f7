"""Waiting for the folder to change, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

# The direct interface that watchfiles documents: one wait with a time-out of its own, no task.
from watchfiles._rust_notify import RustNotify  # pyright: ignore[reportPrivateUsage]

from podtui.clock import Clock
from podtui.manifest.listing import FolderStamp

_log = logging.getLogger(__name__)

ADDED: Final = 1
MODIFIED: Final = 2
DELETED: Final = 3
Changes = Mapping[str, frozenset[int]]
"""What was said of each name: any of `ADDED`, `MODIFIED` and `DELETED`."""

_DEBOUNCE_MS: Final = 100
_STEP_MS: Final = 20
_BLIND_SECONDS: Final = 0.5


class FolderWatch:
    """Wakes whoever waits when something in the folder changes.

    It only wakes: what changed is for a listing to find out. Where the system gives no watch (none
    left, a file system without), waiting just takes its time and the listings do the work.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._stop = threading.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="manifest-watch")
        self._notify: RustNotify | None = None
        self._watched: tuple[int, int] | None = None
        self._warned = False

    def follow(self, folder: FolderStamp | None, *, single: bool) -> bool:
        """Watch what is at the path now; whether that is another folder than before."""
        identity = (folder.device, folder.inode) if folder is not None else None
        if single:
            # A replaced file is a new inode; the folder around it is what stays.
            identity = (0, 0) if folder is not None else None
        if identity == self._watched and (self._notify is not None or identity is None):
            return False
        self._drop()
        if identity is None:
            return True
        target = os.path.dirname(self._path) or "." if single else self._path
        try:
            self._notify = RustNotify([target], False, False, 300, False, True)
        except (OSError, RuntimeError) as error:
            if not self._warned:
                _log.warning("The static-pod folder cannot be watched, only polled: %s", error)
                self._warned = True
            return False
        self._watched = identity
        return True

    async def wait(self, seconds: float) -> Changes | None:
        """What changed within ``seconds``; None where nothing did."""
        notify = self._notify
        if notify is None:
            await self._clock.sleep(min(seconds, _BLIND_SECONDS))
            return None
        loop = asyncio.get_running_loop()
        milliseconds = max(1, round(seconds * 1000))
        try:
            found = await loop.run_in_executor(
                self._executor, notify.watch, _DEBOUNCE_MS, _STEP_MS, milliseconds, self._stop
            )
        except (OSError, RuntimeError) as error:
            _log.warning("The watch of the static-pod folder broke: %s", error)
            self._drop()
            return None
        if isinstance(found, str):
            return None
        kinds: dict[str, set[int]] = {}
        for kind, path in found:
            kinds.setdefault(os.path.basename(path), set()).add(kind)
        return {name: frozenset(said) for name, said in kinds.items()}

    def _drop(self) -> None:
        notify, self._notify, self._watched = self._notify, None, None
        if notify is not None:
            # Behind a wait that may still be under way, in the same thread.
            self._executor.submit(notify.close)

    def close(self) -> None:
        """Stop waiting and let the watch go; returns at once."""
        self._stop.set()
        self._drop()
        self._executor.shutdown(wait=False)
