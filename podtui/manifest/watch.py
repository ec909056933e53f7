"""Waiting for the folder to change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# The direct interface that watchfiles documents: `awatch` would bring a task and time-outs of its
# own, and could not be stopped without waiting for it.
from watchfiles._rust_notify import RustNotify  # pyright: ignore[reportPrivateUsage]

from podtui.manifest import inotify
from podtui.manifest.inotify import Inotify, Said
from podtui.manifest.listing import FolderStamp

_log = logging.getLogger(__name__)

ADDED: Final = 1
MODIFIED: Final = 2
DELETED: Final = 3
_DEBOUNCE_MS: Final = 100
_STEP_MS: Final = 8
_TIMEOUT_MS: Final = 60_000
_BLIND_SECONDS: Final = 0.5
_STORM: Final = 1024
"""The system's queue has an end, and `watchfiles` does not say when something fell off it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What was said of each name: any of `ADDED`, `MODIFIED` and `DELETED`.

    ``lost``: more may have changed than that.
    """

    names: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    lost: bool = False


class _Pump:
    """Hands what the system reports to the loop, until it is closed."""

    def __init__(self, folder: str, wake: asyncio.Event) -> None:
        self.folder = folder
        self.loop = asyncio.get_running_loop()
        self.changes: dict[str, set[int]] = {}
        self.lost = False
        self.broken = False
        self._wake = wake

    def _arrive(self, found: Iterable[tuple[int, str]]) -> None:
        """Take in pairs of what was done and a name; an empty one is the folder itself, of which a
        change says nothing about what is in it."""
        for kind, name in found:
            if name:
                self.changes.setdefault(name, set()).add(kind)
            else:
                self.lost = True
        self._wake.set()

    def take(self) -> Changes:
        """What has arrived since the last time."""
        found, self.changes = self.changes, {}
        lost, self.lost = self.lost or self.broken or len(found) >= _STORM, False
        return Changes({name: frozenset(kinds) for name, kinds in found.items()}, lost)

    def _break(self, error: Exception) -> None:
        _log.warning("The watch of the static-pod folder broke: %s", error)
        self.broken = True

    def close(self) -> None:
        """Report nothing more."""
        raise NotImplementedError


_KINDS: Final = (
    (inotify.IN_CREATE | inotify.IN_MOVED_TO, ADDED),
    (inotify.IN_MODIFY | inotify.IN_ATTRIB, MODIFIED),
    (inotify.IN_DELETE | inotify.IN_MOVED_FROM, DELETED),
)


class _Reading(_Pump):
    """Reads from the kernel when there is something to read."""

    def __init__(self, folder: str, wake: asyncio.Event) -> None:
        """Raises OSError."""
        super().__init__(folder, wake)
        self._inotify = Inotify(folder)
        self._held: list[tuple[int, str]] = []
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.loop.add_reader(self._inotify.fileno, self._read)

    def _read(self) -> None:
        try:
            said = self._inotify.read()
        except OSError as error:
            self._break(error)
            self.loop.remove_reader(self._inotify.fileno)
            said = [Said(inotify.IN_IGNORED, "")]
        for mask, name in said:
            self._held += [(kind, name) for bits, kind in _KINDS if mask & bits and name]
            if not name:
                self._held.append((MODIFIED, ""))
            self.broken |= bool(mask & inotify.IN_IGNORED)
        self._wait_for_more()

    def _wait_for_more(self) -> None:
        """A file is made, written and renamed in several steps, which are looked at as one."""
        now = self.loop.time()
        if self._timer is None:
            self._since = now
        else:
            self._timer.cancel()
        left = self._since + _DEBOUNCE_MS / 1000 - now
        self._timer = self.loop.call_later(max(0.0, min(_STEP_MS / 1000, left)), self._hand_on)

    def _hand_on(self) -> None:
        self._timer = None
        held, self._held = self._held, []
        self._arrive(held)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.loop.remove_reader(self._inotify.fileno)
        self._inotify.close()


class _Polling(_Pump):
    """One thread that asks `watchfiles`: for systems other than Linux."""

    def __init__(self, folder: str, wake: asyncio.Event) -> None:
        """Raises OSError and RuntimeError."""
        super().__init__(folder, wake)
        self._notify = RustNotify([folder], False, False, 300, False, True)
        self._stop = threading.Event()
        # A thread of its own: an executor's job would have to end before the loop can.
        threading.Thread(target=self._run, name="manifest-watch", daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                found = self._notify.watch(_DEBOUNCE_MS, _STEP_MS, _TIMEOUT_MS, self._stop)
                if found == "stop":
                    return
                if not isinstance(found, str):
                    self._tell(found)
        except (OSError, RuntimeError) as error:
            self._break(error)
            self._tell(set())
        finally:
            self._notify.close()

    def _tell(self, found: set[tuple[int, str]]) -> None:
        named = [(kind, *os.path.split(path)) for kind, path in found]
        told = [(kind, name if folder == self.folder else "") for kind, folder, name in named]
        # The loop may be closed by the time that something changes.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._arrive, told)

    def close(self) -> None:
        self._stop.set()


def _pump(folder: str, wake: asyncio.Event) -> _Pump:
    """Raises OSError and RuntimeError."""
    return _Reading(folder, wake) if inotify.IS_HERE else _Polling(folder, wake)


class FolderWatch:
    """Wakes whoever waits when something in the folder changes.

    It says where to look: what changed there is for a listing to find out. Where the system gives
    no watch (none left, a file system without), waiting just takes its time and the listings do
    the work.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._wake = asyncio.Event()
        self._pump: _Pump | None = None
        self._watched: tuple[int, int] | None = None
        self._warned = False

    def follow(self, folder: FolderStamp | None, *, single: bool) -> bool:
        """Watch what is at the path now, which may be another folder than before, or nothing.

        Returns whether a watch has begun: nothing is known yet of what changed before it.
        """
        identity = (folder.device, folder.inode) if folder is not None else None
        if single:
            # A replaced file is a new inode; the folder around it is what stays.
            identity = (0, 0) if folder is not None else None
        if self._pump is not None and self._pump.broken:
            self.close()
        if identity == self._watched:
            return False
        self.close()
        if identity is None:
            return False
        target = os.path.dirname(self._path) if single else self._path
        try:
            self._pump = _pump(target, self._wake)
        except (OSError, RuntimeError) as error:
            if not self._warned:
                _log.warning("The static-pod folder cannot be watched, only polled: %s", error)
                self._warned = True
            return False
        self._watched = identity
        return True

    async def wait(self, seconds: float) -> Changes | None:
        """What changed within ``seconds``; None where nothing did."""
        pump = self._pump
        try:
            async with asyncio.timeout(seconds if pump else min(seconds, _BLIND_SECONDS)):
                await self._wake.wait()
        except TimeoutError:
            return None
        self._wake.clear()
        return pump.take() if pump is not None else Changes(lost=True)

    def close(self) -> None:
        """Let the watch go."""
        pump, self._pump, self._watched = self._pump, None, None
        if pump is not None:
            pump.close()
