"""Watches the folder for changes.

The kernel reports changes by inotify, which costs nothing while nothing changes. If no watch is
available (because the limit of watches is reached), `watchfiles` polls the folder instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from asyncinotify import Inotify, Mask
from watchfiles import watch

from podtui.manifest.listing import FolderStamp

_log = logging.getLogger(__name__)

ADDED: Final = 1
MODIFIED: Final = 2
DELETED: Final = 3
_KINDS: Final = (
    (Mask.CREATE | Mask.MOVED_TO, ADDED),
    (Mask.MODIFY | Mask.ATTRIB, MODIFIED),
    (Mask.DELETE | Mask.MOVED_FROM, DELETED),
)
_WATCHED: Final = (
    Mask.CREATE | Mask.MOVED_TO | Mask.MODIFY | Mask.ATTRIB | Mask.DELETE | Mask.MOVED_FROM
    | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)  # fmt: skip
POLL_MS: Final = 500

Report = Callable[[Iterable[tuple[int, str]]], None]
"""Takes pairs of `ADDED`, `MODIFIED` or `DELETED`, and a name in the folder. An empty name means
the folder itself: anything in it may have changed."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The events for each name: any of `ADDED`, `MODIFIED` and `DELETED`.

    ``lost``: further changes may have been missed.
    """

    names: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    lost: bool = False


class _KernelWatch:
    """Reports inotify events of the folder, in the event loop that created this watch."""

    def __init__(self, folder: str, report: Report) -> None:
        """Raises OSError if the kernel refuses the watch."""
        self.ended = False
        self._report = report
        self._loop = asyncio.get_running_loop()
        # With a timeout of 0, reads return None if there is no event.
        self._inotify = Inotify(cache_size=256, sync_timeout=0)
        try:
            # The library does not specify the type parameter of PathLike.
            self._inotify.add_watch(folder, _WATCHED)  # pyright: ignore[reportUnknownMemberType]
        except OSError:
            self._inotify.close()
            raise
        self._loop.add_reader(self._inotify.fd, self._read)

    def _read(self) -> None:
        changes: list[tuple[int, str]] = []
        while (event := self._inotify.sync_get()) is not None:
            name = os.fspath(event.name) if event.name is not None else ""
            if not name:
                # An event of the folder itself, or an overflow of the kernel's queue.
                changes.append((MODIFIED, ""))
            self.ended |= Mask.IGNORED in event.mask
            changes += [(kind, name) for mask, kind in _KINDS if name and event.mask & mask]
        self._report(changes)

    def close(self) -> None:
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()


class _PollingWatch:
    """Reports changes that polling finds, from a thread to the event loop that created this
    watch."""

    def __init__(self, folder: str, report: Report) -> None:
        self.ended = False
        self._folder = folder
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        # Not a job of the executor, because the loop would wait for its end at shutdown.
        threading.Thread(target=self._poll, name="manifest-watch", daemon=True).start()

    def _poll(self) -> None:
        changes: Iterable[tuple[int, str]] = ()
        try:
            for changes in watch(
                self._folder,
                watch_filter=None,
                stop_event=self._stop,
                step=POLL_MS,
                debounce=POLL_MS,
                raise_interrupt=False,
                force_polling=True,
                poll_delay_ms=POLL_MS,
                recursive=False,
            ):
                self._pass_on(changes)
        except (OSError, RuntimeError) as error:
            _log.warning("Polling of the static-pod folder stopped: %s", error)
        finally:
            # The next listing begins a new watch.
            self.ended = True
            self._pass_on([(MODIFIED, self._folder)])

    def _pass_on(self, changes: Iterable[tuple[int, str]]) -> None:
        split = [(int(kind), *os.path.split(path)) for kind, path in changes]
        inside = [(kind, name if folder == self._folder else "") for kind, folder, name in split]
        # The loop may already be closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._report, inside)

    def close(self) -> None:
        self._stop.set()


class FolderWatch:
    """Wakes the waiting task when something in the folder changes.

    It reports which names to check; a listing then finds out what changed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._wake = asyncio.Event()
        self._source: _KernelWatch | _PollingWatch | None = None
        self._watched: tuple[int, int] | None = None
        self._names: dict[str, set[int]] = {}
        self._lost = False
        self._warned = False

    def follow(self, folder: FolderStamp | None, *, single: bool) -> bool:
        """Watch the folder or file that is at the path now, if any.

        Returns whether a new watch has begun: changes before it are unknown.
        """
        identity = (folder.device, folder.inode) if folder is not None else None
        if single:
            # A replaced file gets a new inode, so the folder around it is watched.
            identity = (0, 0) if folder is not None else None
        if identity == self._watched and not (self._source and self._source.ended):
            return False
        self.close()
        if identity is None:
            return False
        target = os.path.dirname(self._path) if single else self._path
        try:
            self._source = _KernelWatch(target, self._take)
        except OSError as error:
            if not self._warned:
                _log.warning("The static-pod folder cannot be watched, only polled: %s", error)
                self._warned = True
            self._source = _PollingWatch(target, self._take)
        self._watched = identity
        return True

    def _take(self, changes: Iterable[tuple[int, str]]) -> None:
        for kind, name in changes:
            if name:
                self._names.setdefault(name, set()).add(kind)
            else:
                self._lost = True
        self._wake.set()

    async def wait(self, seconds: float) -> FolderChanges | None:
        """Return the changes within ``seconds``; None if there are none."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return None
        self._wake.clear()
        names, self._names = self._names, {}
        lost, self._lost = self._lost, False
        return FolderChanges({name: frozenset(kinds) for name, kinds in names.items()}, lost)

    def close(self) -> None:
        """Stop watching; a polling thread ends by itself shortly afterwards."""
        if self._source is not None:
            self._source.close()
        self._source = self._watched = None
