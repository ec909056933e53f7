"""Follows the static-pod folder and yields a complete `Folder` per change (kubelet.md §1.1, §1.2).

Change notifications only say which names to scan; each scan reads the files with a new stamp. All
names are listed at the start, periodically, and when a change was reported without a name. Any
other scan costs only as much as the names that it checks, however many files the folder has.

Two kinds of changes wait for a deadline: a file that is being written, until it is quiet; and a
missing name, until an editor would have restored it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.api.local import Diagnostic, Severity
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.manifest.fixes import read_with_fix
from podtui.manifest.folder_state import Folder, FolderState
from podtui.manifest.identity import from_record, seen_text
from podtui.manifest.kustomize import read_kustomization, used_names, without_used
from podtui.manifest.listing import (
    FolderStamp,
    Listed,
    Listing,
    Stamp,
    being_edited,
    edit_signs,
    folder_stamp,
    list_names,
    list_path,
    read_file,
    shown_path,
)
from podtui.manifest.objects import FolderDocument
from podtui.manifest.preview import Preview, read_preview, why_no_manifest
from podtui.manifest.result import ReadResult
from podtui.manifest.watch import ADDED, MODIFIED, FolderChanges, FolderWatch

SETTLE_SECONDS: Final = 0.15
"""A file that is written in place is read after it has been quiet for this long."""
BOUND_SECONDS: Final = 1.0
"""A file that is written continuously is read after this long."""
GONE_SECONDS: Final = 0.01
"""A program that replaces a file by deleting and creating it (git does) needs microseconds."""
GONE_EDITED_SECONDS: Final = 0.25
RECHECK_SECONDS: Final = 0.05
"""A file that vanished while it was read is read again after this long."""
POLL_SECONDS: Final = 1.0
SUBFOLDER_SECONDS: Final = 2.0
"""Changes in subfolders are found after this long: the watch reports those of the folder only."""
_BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class _Read:
    """One file, read in a thread; ``result`` is None if its content is unchanged."""

    name: str
    stamp: Stamp | None
    digest: bytes = b""
    result: ReadResult | None = None
    complete: bool = True
    open: bool = False
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """A file that is being written: its latest stamp, and when the first and the latest were
    seen."""

    stamp: Stamp
    first: float
    latest: float

    def due(self) -> float:
        return min(self.latest + SETTLE_SECONDS, self.first + BOUND_SECONDS)


class ManifestFolder:
    """Reads ``path``, a folder or a single file, and follows its changes.

    ``last_good`` are records of an earlier run by manifest path: a file that is invalid when the
    agent starts keeps its earlier pods (departure 1). ``strict`` is ``kubeletStrict``. ``applies``
    is false on a node of a cluster, whose API does not get the documents of the folder.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        node_name: str,
        clock: Clock,
        strict: bool = False,
        last_good: Mapping[str, tuple[Pod, ...]] | None = None,
        full_list_seconds: float = 20.0,
        applies: bool = True,
    ) -> None:
        self._path = os.path.abspath(path)
        self._node_name = node_name
        self._clock = clock
        self._strict = strict
        self._full_seconds = full_list_seconds
        previous = {name: tuple(map(from_record, pods)) for name, pods in (last_good or {}).items()}
        self._state = FolderState(strict=strict, previous=previous, applies=applies)
        self._scans = 0
        self._reconsider = False
        """True if the state changed without a change of a file."""
        self._single = False
        self._around: set[str] = set()
        """All names of the last listing; ``_hidden`` and ``_links`` are the hidden names and the
        links among them."""
        self._hidden: set[str] = set()
        self._links: set[str] = set()
        self._subfolders: set[str] = set()
        """The names below which something may change without an event: subfolders, and the
        kustomization of the folder itself."""
        self._used: dict[str, str] = {}
        """The names that kustomizations use, with the name of that which uses each."""
        # Names that must be looked at again although no event will report them: files that are
        # being written, missing files that may return (since when), and files to read once more (at
        # what time). Each scan checks them and updates `_deadlines`, which wake `_rest`.
        self._unsettled: dict[str, _Unsettled] = {}
        self._deleted: dict[str, float] = {}
        self._recheck: dict[str, float] = {}
        self._deadlines: list[float] = []

    async def snapshots(self) -> AsyncGenerator[Folder, None]:
        """Yield the folder now and after every change, endlessly. For one caller at a time."""
        watch = FolderWatch(self._path)
        try:
            changes = FolderChanges(lost=True)
            last: Folder | None = None
            next_full = self._clock.monotonic()
            while True:
                now = self._clock.monotonic()
                # A full list also finds what the watch missed.
                full = now >= next_full
                if full:
                    next_full = now + self._full_seconds
                listing = await self._list(watch, changes, full=full)
                self._deadlines = [next_full]
                if self._subfolders:
                    self._deadlines.append(now + SUBFOLDER_SECONDS)
                await self._scan(listing, changes.names, full=full)
                folder = self._state.folder(seen_text(self._clock.now()), listing.error)
                # `FolderState.folder` returns the same object if nothing changed.
                if folder is not last:
                    last = folder
                    yield folder
                changes = await self._rest(watch, listing.folder)
        finally:
            watch.close()

    def refuse(
        self, name: str, documents: tuple[FolderDocument, ...], errors: tuple[Diagnostic, ...]
    ) -> None:
        """Record the API's errors about the documents of a file; none if it accepts them now."""
        self._state.refuse(name, documents, errors)
        self._reconsider = True

    async def preview(self, name: str, data: bytes | None) -> Preview:
        """Return the folder as if the file ``name`` had the content ``data``, or did not exist
        (None).

        Nothing is written or remembered. Raises `ValueError` for a name that would not be read.
        """
        reason = why_no_manifest(name, strict=self._strict)
        if not reason and self._single and name != os.path.basename(self._path):
            reason = f"only {os.path.basename(self._path)} is read"
        if reason and data is not None:
            raise ValueError(f"{name or 'a file without a name'} would not be read: {reason}")
        path = self._file_path(name)
        reading = await asyncio.to_thread(
            read_preview, path, data, node_name=self._node_name, strict=self._strict
        )
        before, after = self._state.last, self._state.copy()
        if reading.result is None:
            after.forget(name)
        else:
            written = int(self._clock.now().timestamp() * 1e9)
            stamp = Stamp(written, written, 0, 0)
            after.read(name, shown_path(path), self._scans + 1, stamp, b"", reading.result)
        folder = after.folder(seen_text(self._clock.now()), before.error)
        return Preview(name, before, folder, reading.old, reading.new)

    async def _list(self, watch: FolderWatch, changes: FolderChanges, *, full: bool) -> Listing:
        """List all names, or only those that may have changed."""
        if full or changes.lost:
            listing = await self._list_all()
        else:
            names = {*changes.names, *self._deleted, *self._unsettled, *self._recheck}
            names |= self._links | self._subfolders
            listing = await asyncio.to_thread(list_names, self._path, names, strict=self._strict)
        # Watch first, then list, so that no change is missed between the two.
        while watch.follow(listing.folder, single=listing.single):
            listing = await self._list_all()
        if listing.folder is not None:
            self._single = listing.single
        self._note(listing)
        if self._strict or listing.single or not self._subfolders:
            return listing
        self._used = await asyncio.to_thread(used_names, self._path)
        return without_used(listing, self._used)

    async def _list_all(self) -> Listing:
        return await asyncio.to_thread(list_path, self._path, strict=self._strict)

    def _note(self, listing: Listing) -> None:
        """Update the names of the folder."""
        links = {name for name, listed in listing.files.items() if listed.link}
        below = {name for name, listed in listing.files.items() if listed.folder or listed.rendered}
        if listing.checked is None:
            self._around = {*listing.files, *listing.hidden}
            self._hidden, self._links = set(listing.hidden), links
            self._subfolders = below
            return
        for names, current in (
            (self._around, listing.files.keys() | listing.hidden),
            (self._hidden, listing.hidden),
            (self._links, links),
            (self._subfolders, below),
        ):
            names -= listing.checked
            names |= current

    async def _rest(self, watch: FolderWatch, stamp: FolderStamp | None) -> FolderChanges:
        """Wait for a change or for the next deadline."""
        while True:
            left = min(self._deadlines) - self._clock.monotonic()
            if left <= 0 or self._reconsider:
                self._reconsider = False
                return FolderChanges()
            changes = await watch.wait(min(left, POLL_SECONDS))
            if changes is not None:
                return changes
            # The watch may be absent, or watch a folder that was replaced: compare the stamp of the
            # path.
            if await asyncio.to_thread(folder_stamp, self._path) != stamp:
                return FolderChanges(lost=True)

    async def _scan(
        self, listing: Listing, reports: Mapping[str, frozenset[int]], *, full: bool
    ) -> None:
        """Process one listing: read the files that are due, set deadlines for the others."""
        now = self._clock.monotonic()
        self._scans += 1
        if listing.error and not self._single:
            # An unreadable folder says nothing about its files: keep them.
            return
        self._find_deleted(listing, reports, now)
        due: list[Listed] = []
        for name, listed in listing.files.items():
            if listed.stamp is None:
                self._forget_pending(name)
                self._state.ignore(name, self._shown(name), self._scans, listed.ignored)
            elif self._is_due(name, listed.stamp, reports.get(name, frozenset()), now):
                due.append(listed)
        for start in range(0, len(due), _BATCH):
            batch = due[start : start + _BATCH]
            for read in await asyncio.to_thread(self._read_batch, batch):
                self._apply(read)
        if full and self._strict:
            self._state.drop_invalid()

    def _shown(self, name: str) -> str:
        return shown_path(self._file_path(name))

    def _file_path(self, name: str) -> str:
        return self._path if self._single else os.path.join(self._path, name)

    def _find_deleted(
        self, listing: Listing, reports: Mapping[str, frozenset[int]], now: float
    ) -> None:
        """Forget deleted files, after a delay during which an editor may restore them."""
        arrived = {
            listed.stamp.inode
            for name, listed in listing.files.items()
            if listed.stamp is not None and self._state.stamp(name) is None
        }
        requested = listing.checked
        if requested is None:
            requested = {*self._state.names(), *self._unsettled, *self._recheck}
        for name in requested:
            if name in listing.files:
                self._deleted.pop(name, None)
                continue
            if name not in self._state:
                self._forget_pending(name)
                continue
            stamp = self._state.stamp(name)
            since = self._deleted.setdefault(name, now)
            grace = GONE_SECONDS
            if self._single or self._is_edited(name, reports):
                grace = GONE_EDITED_SECONDS
            # If a new name has the inode, the file was renamed, and the old name will not come
            # back.
            if stamp is None or stamp.inode in arrived or now - since >= grace:
                self._state.forget(name)
                self._forget_pending(name)
            else:
                self._deadlines.append(since + grace)

    def _is_edited(self, name: str, reports: Iterable[str]) -> bool:
        return being_edited(name, {*self._hidden, *reports, *(edit_signs(name) & self._around)})

    def _forget_pending(self, name: str) -> None:
        for pending in (self._deleted, self._unsettled, self._recheck):
            pending.pop(name, None)

    def _is_due(self, name: str, stamp: Stamp, reports: frozenset[int], now: float) -> bool:
        """Return whether to read the file in this scan; set a deadline if it has to wait."""
        previous = self._state.stamp(name)
        if previous == stamp:
            self._unsettled.pop(name, None)
            again = self._recheck.get(name)
            if again is None:
                return False
            if now >= again:
                return True
            self._deadlines.append(again)
            return False
        unsettled = self._unsettled.get(name)
        if unsettled is None or unsettled.stamp != stamp:
            unsettled = _Unsettled(stamp, unsettled.first if unsettled is not None else now, now)
            self._unsettled[name] = unsettled
        # A new file may have been moved here complete; reading it will show.
        arrived = ADDED in reports and MODIFIED not in reports
        # The first scan reads all files at once, so that no pod waits for the start. Later, a file
        # that was last written long enough ago is complete, for example one that was moved here.
        if self._scans == 1 or arrived or self._age(stamp) >= SETTLE_SECONDS:
            return True
        if now >= unsettled.due():
            return True
        self._deadlines.append(unsettled.due())
        return False

    def _age(self, stamp: Stamp) -> float:
        """Return the seconds since the file was written, by wall clock; negative if clocks
        differ."""
        return self._clock.now().timestamp() - stamp.mtime_ns / 1e9

    def _read_batch(self, batch: list[Listed]) -> list[_Read]:
        return [
            self._render(listed.name, listed.stamp)
            if listed.rendered
            else self._read(listed.name, listed.stamp)
            for listed in batch
        ]

    def _render(self, name: str, stamp: Stamp | None) -> _Read:
        result = read_kustomization(self._file_path(name), node_name=self._node_name)
        # The stamp of the whole tree stands for the content: the output is not kept.
        digest = hashlib.blake2b(repr((stamp, result.invalid)).encode(), digest_size=16).digest()
        return _Read(name, stamp, digest, result)

    def _read(self, name: str, listed: Stamp | None) -> _Read:
        path = self._file_path(name)
        shown = shown_path(path)
        try:
            content = read_file(path)
        except FileNotFoundError:
            return _Read(name, None, vanished=True)
        except OSError as error:
            unreadable = Diagnostic(
                severity=Severity.ERROR,
                path=shown,
                code="Unreadable",
                message=f"the file cannot be read: {error.strerror or error}",
                fix="allow the user that runs podtui to read it",
            )
            return _Read(name, listed, b"", ReadResult(diagnostics=(unreadable,)))
        # A file that was only touched, or written with the same content, is not parsed again.
        digest = hashlib.blake2b(content.data, digest_size=16).digest()
        result = None
        if digest != self._state.digest(name):
            result = read_with_fix(
                shown, content.data, node_name=self._node_name, strict=self._strict
            )
        return _Read(name, content.stamp, digest, result, content.complete, content.open)

    def _apply(self, read: _Read) -> None:
        """Pass a file that was read to `FolderState`, unless it is still being written."""
        now = self._clock.monotonic()
        name, stamp = read.name, read.stamp
        if read.vanished or stamp is None:
            self._recheck[name] = now + RECHECK_SECONDS
            self._deadlines.append(now + RECHECK_SECONDS)
            return
        unsettled = self._unsettled.get(name)
        if unsettled is not None and self._scans > 1 and self._is_unfinished(read, stamp, now):
            same = stamp == unsettled.stamp and not read.open
            latest = unsettled.latest if same else now
            self._unsettled[name] = _Unsettled(stamp, unsettled.first, latest)
            self._deadlines.append(self._unsettled[name].due())
            return
        self._unsettled.pop(name, None)
        self._recheck.pop(name, None)
        if 0 <= self._age(stamp) < SETTLE_SECONDS:
            # A second write within one tick of the file system's clock does not change the stamp.
            self._recheck[name] = now + SETTLE_SECONDS
            self._deadlines.append(now + SETTLE_SECONDS)
        if read.result is None:
            self._state.touched(name, stamp)
        else:
            path = self._shown(name)
            self._state.read(name, path, self._scans, stamp, read.digest, read.result)

    def _is_unfinished(self, read: _Read, stamp: Stamp, now: float) -> bool:
        """Return whether the content read may be only part of what is being written."""
        unsettled = self._unsettled[read.name]
        if read.result is None or now >= unsettled.first + BOUND_SECONDS:
            return False
        if read.open:
            return True
        if self._age(stamp) >= SETTLE_SECONDS:
            return False
        if stamp != unsettled.stamp:
            return True
        # A valid document is taken at once; an invalid one may be the first half of a write.
        doubtful = read.result.invalid or not read.complete
        return doubtful and now < unsettled.latest + SETTLE_SECONDS
