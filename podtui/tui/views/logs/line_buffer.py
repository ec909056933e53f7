"""A buffer that keeps log lines on disk: millions of lines for a few megabytes of memory.

A sequence number identifies a line; it never changes and is never reused. `first` and `end` bound
the lines that are still kept. Lines are stored in chunks: the newest chunk is in memory, full
chunks are written to a `RunStore` and read back one at a time when needed. A chunk on disk costs
one index entry in memory. This module does not depend on a screen.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

SOURCES: Final = 250
"""Maximum number of logs that one view can merge: the tags below it number the logs."""
GAP: Final = 250
"""The tag of a remark on lines that are missing at this place."""
RULE: Final = 251
"""The tag of a separator between two instances of a container."""
EVENT: Final = 252
EVENT_WARNING: Final = 253
EVENTS: Final = (EVENT, EVENT_WARNING)
CUT: Final = 254
"""The tag of a remark on earlier lines of a log that are not loaded yet."""
REMARKS: Final = (GAP, RULE, CUT)


def is_log(tag: int) -> bool:
    return tag < SOURCES


SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a segment; disk space is freed one segment at a time."""
SEGMENTS: Final = 4
"""A full buffer has at least this number of segments: only a part of the lines is dropped at
once."""


class Location(Struct, frozen=True):
    """The location of a byte string; ``segment`` numbers increase and are never reused."""

    segment: int
    offset: int
    size: int


class RunStore:
    """Append-only segments. The first file is opened by the first write."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segment_bytes = segment_bytes
        self._files: dict[int, int] = {}
        self._newest = -1
        self._used = 0
        # A view may disappear without being closed, for example when a test fails.
        weakref.finalize(self, _close, self._files)

    def write(self, data: bytes) -> Location:
        """Append ``data``. Raises OSError, for example if the disk is full; then ``data`` is not
        stored."""
        if self._newest not in self._files or self._used >= self._segment_bytes:
            descriptor = _open_unnamed()
            self._newest += 1
            self._files[self._newest] = descriptor
            self._used = 0
        descriptor, offset = self._files[self._newest], self._used
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], offset + done)
        self._used += done
        return Location(self._newest, offset, done)

    def read(self, location: Location) -> bytes:
        """Return the byte string at ``location``. Raises OSError."""
        data = os.pread(self._files[location.segment], location.size, location.offset)
        if len(data) != location.size:
            raise OSError(f"{len(data)} of {location.size} bytes could be read")
        return data

    def copy(self) -> RunStore:
        """Return a store with duplicated file descriptors, to be read by another thread.

        The caller must release it by `clear`.
        """
        other = RunStore(self._segment_bytes)
        other._files.update({number: os.dup(file) for number, file in self._files.items()})
        return other

    def drop_unused(self, used: Container[int]) -> None:
        """Free the disk space of all other segments."""
        for old in [number for number in self._files if number not in used]:
            os.close(self._files.pop(old))

    def clear(self) -> None:
        """Free all disk space."""
        _close(self._files)


def _close(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _open_unnamed() -> int:
    """Open a file without a name that only the owner can read.

    It is created in ``$TMPDIR`` or ``/var/tmp``: large files fit there, while ``/tmp`` may be a
    tmpfs in memory.
    """
    folder = None
    if not os.environ.get("TMPDIR") and os.access("/var/tmp", os.W_OK | os.X_OK):
        folder = "/var/tmp"
    descriptor, path = tempfile.mkstemp(prefix="podtui-log-", dir=folder)
    # Without a name, the kernel frees the space even if the process is killed.
    os.unlink(path)
    return descriptor


CHUNK_BYTES: Final = 128 * 1024
CHUNK_LINES: Final = 2048
"""Maximum lines of a chunk: work on one chunk stays short, and a line index fits into two bytes."""
DISK_BYTES: Final = 4 * 1024**3
CACHE_BYTES: Final = 12 * 1024 * 1024
"""Cache size for chunks read back from disk. The memory of a buffer is bounded by this,
`PENDING_BYTES` and about 300 bytes per chunk."""
PENDING_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of full chunks that wait in memory because they could not be written to disk."""


class LineBlock:
    """The lines of one chunk: one byte string with a line feed after each line.

    ``ends[i]`` is the offset in ``data`` after line ``i`` and its line feed; ``stamps[i]`` is its
    time in nanoseconds since 1970, 0 for none; ``tags[i]`` is the number of its log, or its kind
    from `GAP` on.
    """

    __slots__ = ("data", "ends", "stamps", "tags")

    def __init__(
        self,
        data: bytes | bytearray = b"",
        ends: array[int] | None = None,
        stamps: array[int] | None = None,
        tags: bytes | bytearray = b"",
    ) -> None:
        self.data = data if isinstance(data, bytes) and data else bytearray(data)
        self.ends = array("I") if ends is None else ends
        self.stamps = array("q") if stamps is None else stamps
        self.tags = bytearray(tags)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        return len(self.data) + 13 * len(self.ends)

    def line(self, index: int) -> bytes:
        start = self.ends[index - 1] if index else 0
        return bytes(self.data[start : self.ends[index] - 1])

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the lines from index ``start`` on."""
        position = self.ends[start - 1] if start else 0
        for end in self.ends[start:]:
            yield bytes(self.data[position : end - 1])
            position = end

    def append(self, lines: Sequence[bytes], stamps: Sequence[int], tags: bytes) -> None:
        base = len(self.data)
        assert isinstance(self.data, bytearray)
        self.data += b"\n".join(lines)
        self.data += b"\n"
        ends = accumulate((len(line) + 1 for line in lines), initial=base)
        next(ends)  # skip the initial value: no line ends at the base
        self.ends.extend(ends)
        self.stamps.extend(stamps)
        self.tags += tags

    def part(self, start: int) -> LineBlock:
        """Return a copy of the lines from index ``start`` on."""
        offset = self.ends[start - 1] if start else 0
        ends = array("I", (end - offset for end in self.ends[start:]))
        return LineBlock(
            bytearray(self.data[offset:]), ends, self.stamps[start:], self.tags[start:]
        )

    def pack(self) -> bytes:
        # One write and one read for each chunk, and nothing to parse: 13 bytes of index for a line.
        return b"".join((self.ends.tobytes(), self.stamps.tobytes(), self.tags, self.data))

    @classmethod
    def unpack(cls, packed: bytes, count: int) -> LineBlock:
        ends, stamps = array("I"), array("q")
        ends.frombytes(packed[: 4 * count])
        stamps.frombytes(packed[4 * count : 12 * count])
        return cls(packed[13 * count :], ends, stamps, packed[12 * count : 13 * count])


class Chunk:
    """An index entry for lines ``first`` to ``first + count``.

    ``block`` is set while the lines are in memory, ``location`` once they are on disk.
    """

    __slots__ = ("block", "count", "first", "location", "nbytes")

    def __init__(self, first: int, block: LineBlock | None = None) -> None:
        self.first = first
        self.block: LineBlock | None = block or LineBlock()
        self.count = len(self.block)
        self.nbytes = self.block.nbytes
        self.location: Location | None = None

    @property
    def end(self) -> int:
        return self.first + self.count


class LineBuffer:
    """An ordered store of lines that counts the lines it had to drop.

    `trim` keeps it within ``disk_bytes``. Chunks that could not be written to disk stay in memory
    and are retried. If they exceed `PENDING_BYTES`, `trim` drops the oldest lines, which frees disk
    space one segment at a time. ``trouble`` holds the last disk error.
    """

    def __init__(self, disk_bytes: int = DISK_BYTES, store: RunStore | None = None) -> None:
        self.disk_bytes = disk_bytes
        self.chunks: list[Chunk] = [Chunk(0)]
        self.nbytes = 0
        self.longest = 0
        """Length in bytes of the longest line since the last `clear`."""
        self.began = 0
        """Sequence number of the first line since the last `clear`."""
        self.trouble = ""
        self._store = store or RunStore(min(SEGMENT_BYTES, disk_bytes // SEGMENTS))
        self._pending: list[Chunk] = []
        self._cache: OrderedDict[int, LineBlock] = OrderedDict()
        self._cached = 0

    @property
    def first(self) -> int:
        """Sequence number of the oldest line kept."""
        return self.chunks[0].first

    @property
    def end(self) -> int:
        """One past the sequence number of the newest line."""
        return self.chunks[-1].end

    @property
    def dropped(self) -> int:
        """Number of lines dropped since the last `clear`."""
        return self.first - self.began

    @property
    def _pending_bytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._pending)

    def __len__(self) -> int:
        return self.end - self.first

    def append(
        self, lines: Sequence[bytes], stamps: Sequence[int] = (), tags: int | bytes = 0
    ) -> None:
        """Add lines given without line feeds; replace a line feed inside a line by a space."""
        if not lines:
            return
        clean = _without_line_feeds(lines)
        self.longest = max(self.longest, max(map(len, clean)))
        stamps = stamps or [0] * len(clean)
        marks = bytes((tags,)) * len(clean) if isinstance(tags, int) else tags
        for start, stop in _parts(clean):
            chunk = self.chunks[-1]
            if chunk.nbytes >= CHUNK_BYTES or chunk.count >= CHUNK_LINES:
                self._pending.append(chunk)
                self._write_pending()
                chunk = Chunk(chunk.end)
                self.chunks.append(chunk)
            assert chunk.block is not None
            chunk.block.append(clean[start:stop], stamps[start:stop], marks[start:stop])
            self.nbytes += chunk.block.nbytes - chunk.nbytes
            chunk.count, chunk.nbytes = len(chunk.block), chunk.block.nbytes

    def replace_head(
        self, until: int, lines: Sequence[bytes], stamps: Sequence[int], tags: bytes
    ) -> None:
        """Replace all lines before ``until``. The lines from there on keep their sequence numbers.
        Must not be called after lines were dropped.
        """
        clean = _without_line_feeds(lines)
        self.longest = max(self.longest, max(map(len, clean), default=0))
        # The new lines are numbered backwards from ``until``. All later lines, and every position
        # that callers keep in them, thus stay as they are.
        index = self.place_of(until)
        kept = self.chunks[index:]
        chunk = kept[0]
        old = self.chunks[:index]
        if until > chunk.first:
            old.append(chunk)
            kept[0] = Chunk(until, self.block(chunk).part(until - chunk.first))
            self.nbytes += kept[0].nbytes
            if len(kept) > 1:
                self._pending.append(kept[0])
        self._forget(old)
        new: list[Chunk] = []
        for start, stop in _parts(clean):
            block = LineBlock()
            block.append(clean[start:stop], stamps[start:stop], tags[start:stop])
            new.append(Chunk(until - len(clean) + start, block))
        self.nbytes += sum(chunk.nbytes for chunk in new)
        self.chunks = [*new, *kept]
        self.began = self.first
        self._pending += new
        self._write_pending()
        self._store.drop_unused(self._used_segments())

    def first_log(self) -> int | None:
        """Return the sequence number of the first line of a log."""
        for chunk in self.chunks:
            for index, tag in enumerate(self.block(chunk).tags):
                if is_log(tag):
                    return chunk.first + index
        return None

    def first_of(self, tag: int) -> int | None:
        """Return the sequence number of the first line with this tag."""
        for chunk in self.chunks:
            index = self.block(chunk).tags.find(tag)
            if index >= 0:
                return chunk.first + index
        return None

    def trim(self) -> None:
        """Drop the oldest lines until the buffer is within its bounds.

        This is separate from `append`, so that a caller who holds row positions can look up the
        affected lines before they are dropped.
        """
        while len(self.chunks) > 1 and (
            self.nbytes > self.disk_bytes
            or (self._pending_bytes > PENDING_BYTES and not self._write_pending())
        ):
            self._drop_segment()

    def clear(self) -> None:
        """Drop all lines; sequence numbers are not reset."""
        self.chunks = [Chunk(self.end)]
        self.began = self.first
        self.nbytes = self.longest = self._cached = 0
        self.trouble = ""
        self._pending.clear()
        self._cache.clear()
        self._store.clear()

    def close(self) -> None:
        """Free the disk space. The buffer is empty afterwards."""
        self.clear()

    def chunk_of(self, sequence: int) -> Chunk:
        """Return the chunk that holds a line. Raises IndexError for a line that is not kept."""
        if not self.first <= sequence < self.end:
            raise IndexError(sequence)
        return self.chunks[self.place_of(sequence)]

    def place_of(self, sequence: int) -> int:
        """Return the index in `chunks` of the chunk that holds a line, or would hold it."""
        return max(0, bisect_right(self.chunks, sequence, key=_first_of) - 1)

    def block(self, chunk: Chunk) -> LineBlock:
        """Return the lines of a chunk, reading them from disk (about 0.05 ms) if necessary.

        If the disk cannot be read, each line is replaced by the error message.
        """
        if chunk.block is not None:
            return chunk.block
        block = self._cache.get(chunk.first)
        if block is not None:
            self._cache.move_to_end(chunk.first)
            return block
        assert chunk.location is not None
        try:
            block = LineBlock.unpack(self._store.read(chunk.location), chunk.count)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            # As many lines as before: each sequence number must still have one.
            block = LineBlock()
            message = f"(this line cannot be read back: {self.trouble})".encode()
            block.append([message] * chunk.count, [0] * chunk.count, bytes(chunk.count))
        self._cache[chunk.first] = block
        self._cached += block.nbytes
        while self._cached > CACHE_BYTES and len(self._cache) > 1:
            self._cached -= self._cache.popitem(last=False)[1].nbytes
        return block

    def snapshot(self) -> LineSnapshot:
        """Return a snapshot of the lines that another thread can read."""
        return LineSnapshot(self.chunks, self._store.copy())

    def __getitem__(self, sequence: int) -> bytes:
        """Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).line(sequence - chunk.first)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in list(self.chunks):
            yield from self.block(chunk).lines()

    def stamp(self, sequence: int) -> int:
        """Return the time of a line in nanoseconds since 1970, 0 for none. Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).stamps[sequence - chunk.first]

    def tag(self, sequence: int) -> int:
        """Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).tags[sequence - chunk.first]

    # --- to disk

    def _write_pending(self) -> bool:
        """Write full chunks to disk. Returns False if a chunk could not be written."""
        while self._pending:
            chunk = self._pending[0]
            assert chunk.block is not None
            try:
                chunk.location = self._store.write(chunk.block.pack())
            except OSError as error:
                self.trouble = error.strerror or str(error)
                return False
            chunk.block = None
            del self._pending[0]
        return True

    def _drop_segment(self) -> None:
        """Drop the oldest lines: all of one segment, or one chunk that is still in memory."""
        oldest = self.chunks[0].location
        count = 1
        if oldest is not None:
            same = (
                c.location is not None and c.location.segment == oldest.segment for c in self.chunks
            )
            count = next((n for n, kept in enumerate(same) if not kept), len(self.chunks))
        self._forget(self.chunks[:count])
        del self.chunks[:count]
        if oldest is not None:
            self._store.drop_unused(self._used_segments())

    def _forget(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self.nbytes -= chunk.nbytes
            if chunk in self._pending:
                self._pending.remove(chunk)
            cached = self._cache.pop(chunk.first, None)
            self._cached -= cached.nbytes if cached is not None else 0

    def _used_segments(self) -> set[int]:
        return {chunk.location.segment for chunk in self.chunks if chunk.location is not None}


class LineSnapshot:
    """The lines of a buffer at one moment. The caller of `LineBuffer.snapshot` must close it."""

    def __init__(self, chunks: Sequence[Chunk], store: RunStore) -> None:
        self._store = store
        self._chunks = [
            (c.count, c.location, c.block.pack() if c.block is not None else b"") for c in chunks
        ]

    def blocks(self) -> Iterator[LineBlock]:
        """Yield one block per chunk, oldest first. Raises OSError."""
        for count, location, packed in self._chunks:
            data = packed if location is None else self._store.read(location)
            yield LineBlock.unpack(data, count)

    def close(self) -> None:
        self._store.clear()


def _without_line_feeds(lines: Sequence[bytes]) -> list[bytes]:
    return [line.replace(b"\n", b" ") if b"\n" in line else line for line in lines]


def _first_of(chunk: Chunk) -> int:
    return chunk.first


def _parts(lines: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Split lines into index ranges of about one chunk at most."""
    start = size = 0
    for index, line in enumerate(lines):
        size += len(line) + 14
        if size >= CHUNK_BYTES or index + 1 - start >= CHUNK_LINES:
            yield start, index + 1
            start, size = index + 1, 0
    if start < len(lines):
        yield start, len(lines)
