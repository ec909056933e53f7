"""Waiting for the folder to change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# The direct interface that watchfiles documents: `awatch` would bring a task and time-outs of its
# own, and could not be stopped without waiting for it.
from watchfiles._rust_notify import RustNotify  # pyright: ignore[reportPrivateUsage]

from podtui.manifest.listing import FolderStamp

_log = logging.getLogger(__name__)

ADDED: Final = 1
MODIFIED: Final = 2
DELETED: Final = 3
_DEBOUNCE_MS: Final = 100
_STEP_MS: Final = 20
"""Between two looks: each wakes the processor, and a change waits for one or two."""
_TIMEOUT_MS: Final = 60_000
_BLIND_SECONDS: Final = 0.5
_STORM: Final = 1024
"""The system's queue has an end, and nobody says when something fell off it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What was said of each name: any of `ADDED`, `MODIFIED` and `DELETED`.

    ``lost``: more may have changed than that.
    """

    names: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    lost: bool = False


@dataclass(slots=True)
class _Pump:
    """One thread that hands what the system reports to the loop, until it is told to stop."""

    notify: RustNotify
    folder: str
    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event
    changes: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    stop: threading.Event = field(default_factory=threading.Event)
    lost: bool = False
    broken: bool = False

    def run(self) -> None:
        try:
            while True:
                found = self.notify.watch(_DEBOUNCE_MS, _STEP_MS, _TIMEOUT_MS, self.stop)
                if found == "stop":
                    return
                if not isinstance(found, str):
                    self._tell(found)
        except (OSError, RuntimeError) as error:
            _log.warning("The watch of the static-pod folder broke: %s", error)
            self.broken = True
            self._tell(set())
        finally:
            self.notify.close()

    def _tell(self, found: set[tuple[int, str]]) -> None:
        # The loop may be closed by the time that something changes.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._arrive, found)

    def _arrive(self, found: set[tuple[int, str]]) -> None:
        for kind, path in found:
            folder, name = os.path.split(path)
            if name and folder == self.folder:
                self.changes.setdefault(name, set()).add(kind)
            else:
                # The folder itself, which says nothing about what is in it.
                self.lost = True
        self.wake.set()

    def take(self) -> Changes:
        """What has arrived since the last time."""
        found, self.changes = self.changes, {}
        lost, self.lost = self.lost or self.broken or len(found) >= _STORM, False
        return Changes({name: frozenset(kinds) for name, kinds in found.items()}, lost)


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
            notify = RustNotify([target], False, False, 300, False, True)
        except (OSError, RuntimeError) as error:
            if not self._warned:
                _log.warning("The static-pod folder cannot be watched, only polled: %s", error)
                self._warned = True
            return False
        self._pump = _Pump(notify, target, asyncio.get_running_loop(), self._wake)
        self._watched = identity
        # A thread of its own: an executor's job would have to end before the loop can.
        threading.Thread(target=self._pump.run, name="manifest-watch", daemon=True).start()
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
        """Let the watch go; its thread ends by itself a moment later."""
        pump, self._pump, self._watched = self._pump, None, None
        if pump is not None:
            pump.stop.set()
