"""Log lines on disk, with little of them in memory: millions at the price of a few megabytes.

A line is known by its sequence number, which never changes and is never reused; `first` and `end`
bound those still kept. Lines lie in chunks; the newest chunk is in memory, full ones are written
to a `RunStore` and read back, a chunk at a time, when somebody looks. What a chunk costs while
nobody looks is its entry in a list. Nothing here knows a screen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from podtui.tui.logs.log_store import Place, RunStore

CHUNK_BYTES: Final = 128 * 1024
CHUNK_LINES: Final = 2048
"""What is done a chunk at a time stays short, and an index fits into two bytes."""
DISK_BYTES: Final = 4 * 1024**3
CACHE_BYTES: Final = 12 * 1024 * 1024
"""Of chunks read back. A buffer is bounded by this, `PENDING_BYTES` and some 300 bytes a chunk."""
PENDING_BYTES: Final = 8 * 1024 * 1024
"""Of full chunks that the disk would not take."""


class Block:
    """The lines of one chunk: their text, each ended by a line feed, in one run of bytes.

    ``ends[i]`` is where line ``i`` ends in ``data``, its line feed included; ``stamps[i]`` is its
    time in nanoseconds since 1970, 0 for none; ``tags[i]`` says what or whose it is.
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
        """From line ``start`` on."""
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
        next(ends)  # the base itself is no line's end
        self.ends.extend(ends)
        self.stamps.extend(stamps)
        self.tags += tags

    def pack(self) -> bytes:
        return b"".join((self.ends.tobytes(), self.stamps.tobytes(), self.tags, self.data))

    @classmethod
    def unpack(cls, packed: bytes, count: int) -> Block:
        ends, stamps = array("I"), array("q")
        ends.frombytes(packed[: 4 * count])
        stamps.frombytes(packed[4 * count : 12 * count])
        return cls(packed[13 * count :], ends, stamps, packed[12 * count : 13 * count])


class Chunk:
    """An entry of the index: lines ``first`` to ``first + count``; ``block`` while in memory."""

    __slots__ = ("block", "count", "first", "nbytes", "place")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0
        self.nbytes = 0
        self.block: Block | None = Block()
        self.place: Place | None = None

    @property
    def end(self) -> int:
        return self.first + self.count


class LineBuffer:
    """An ordered store of lines; what had to go is counted, never silent.

    `trim` keeps it within ``disk_bytes``. What a disk would not take stays in memory and is offered
    again; beyond `PENDING_BYTES` of that `trim` lets the oldest lines go, which gives disk back a
    segment at a time. ``trouble`` says why.
    """

    def __init__(self, disk_bytes: int = DISK_BYTES, store: RunStore | None = None) -> None:
        self.disk_bytes = disk_bytes
        self.chunks: list[Chunk] = [Chunk(0)]
        self.nbytes = 0
        self.longest = 0
        """Bytes of the longest line since the last `clear`."""
        self.began = 0
        """Sequence number of the first line since the last `clear`."""
        self.trouble = ""
        self._store = store or RunStore()
        self._pending: list[Chunk] = []
        self._cache: OrderedDict[int, Block] = OrderedDict()
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
        """Lines that came since the last `clear` and had to go."""
        return self.first - self.began

    @property
    def resident(self) -> int:
        """Bytes of lines in memory."""
        return self._pending_bytes + self.chunks[-1].nbytes + self._cached

    @property
    def _pending_bytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._pending)

    def __len__(self) -> int:
        return self.end - self.first

    def append(
        self, lines: Sequence[bytes], stamps: Sequence[int] = (), tags: int | bytes = 0
    ) -> None:
        """Add lines, without line feeds; a line feed inside one becomes a space."""
        if not lines:
            return
        clean = [line.replace(b"\n", b" ") if b"\n" in line else line for line in lines]
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

    def trim(self) -> None:
        """Let the oldest lines go until what is kept is within its bounds. Apart from `append`, so
        that whoever knows lines by their place can look up where that is first."""
        while len(self.chunks) > 1 and (
            self.nbytes > self.disk_bytes
            or (self._pending_bytes > PENDING_BYTES and not self._write_pending())
        ):
            self._drop_segment()

    def clear(self) -> None:
        """Forget every line; sequence numbers go on."""
        self.chunks = [Chunk(self.end)]
        self.began = self.first
        self.nbytes = self.longest = self._cached = 0
        self.trouble = ""
        self._pending.clear()
        self._cache.clear()
        self._store.clear()

    def close(self) -> None:
        """Give back the disk. The buffer is empty afterwards."""
        self.clear()

    def chunk_of(self, sequence: int) -> Chunk:
        """Raises IndexError for a line that is not kept."""
        if not self.first <= sequence < self.end:
            raise IndexError(sequence)
        return self.chunks[self.place_of(sequence)]

    def place_of(self, sequence: int) -> int:
        """Which of `chunks` holds a line, or would."""
        return max(0, bisect_right(self.chunks, sequence, key=_first_of) - 1)

    def block(self, chunk: Chunk) -> Block:
        """The lines of a chunk, read back where they are not in memory. Takes some 0.05 ms then.

        Where the disk cannot be read, each line says so.
        """
        if chunk.block is not None:
            return chunk.block
        found = self._cache.get(chunk.first)
        if found is not None:
            self._cache.move_to_end(chunk.first)
            return found
        assert chunk.place is not None
        try:
            found = Block.unpack(self._store.read(chunk.place), chunk.count)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            found = Block()
            said = f"(this line cannot be read back: {self.trouble})".encode()
            found.append([said] * chunk.count, [0] * chunk.count, bytes(chunk.count))
        self._cache[chunk.first] = found
        self._cached += found.nbytes
        while self._cached > CACHE_BYTES and len(self._cache) > 1:
            self._cached -= self._cache.popitem(last=False)[1].nbytes
        return found

    def snapshot(self) -> Snapshot:
        """The lines as they are now, to be read in a thread."""
        return Snapshot(self.chunks, self._store.copy())

    def __getitem__(self, sequence: int) -> bytes:
        """Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).line(sequence - chunk.first)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in list(self.chunks):
            yield from self.block(chunk).lines()

    def stamp(self, sequence: int) -> int:
        """Nanoseconds since 1970, 0 for none. Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).stamps[sequence - chunk.first]

    def tag(self, sequence: int) -> int:
        """Raises IndexError."""
        chunk = self.chunk_of(sequence)
        return self.block(chunk).tags[sequence - chunk.first]

    # --- to disk

    def _write_pending(self) -> bool:
        """Whether all that is full is on disk now."""
        while self._pending:
            chunk = self._pending[0]
            assert chunk.block is not None
            try:
                chunk.place = self._store.write(chunk.block.pack())
            except OSError as error:
                self.trouble = error.strerror or str(error)
                return False
            chunk.block = None
            del self._pending[0]
        return True

    def _drop_segment(self) -> None:
        """Let the oldest lines go: those of one segment, or one chunk that is in memory."""
        oldest = self.chunks[0].place
        count = 1
        if oldest is not None:
            same = (c.place is not None and c.place.segment == oldest.segment for c in self.chunks)
            count = next((n for n, kept in enumerate(same) if not kept), len(self.chunks))
        for chunk in self.chunks[:count]:
            self.nbytes -= chunk.nbytes
            if chunk in self._pending:
                self._pending.remove(chunk)
            cached = self._cache.pop(chunk.first, None)
            self._cached -= cached.nbytes if cached is not None else 0
        del self.chunks[:count]
        if oldest is not None:
            self._store.drop_before(oldest.segment + 1)


class Snapshot:
    """The lines of a buffer at one moment. Whoever took it closes it."""

    def __init__(self, chunks: Sequence[Chunk], store: RunStore) -> None:
        self._store = store
        self._chunks = [
            (c.count, c.place, c.block.pack() if c.block is not None else b"") for c in chunks
        ]

    def blocks(self) -> Iterator[Block]:
        """One for each chunk, oldest first. Raises OSError."""
        for count, place, packed in self._chunks:
            yield Block.unpack(packed if place is None else self._store.read(place), count)

    def close(self) -> None:
        self._store.clear()


def _first_of(chunk: Chunk) -> int:
    return chunk.first


def _parts(lines: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Runs of lines that fill no more than about a chunk."""
    start = size = 0
    for index, line in enumerate(lines):
        size += len(line) + 14
        if size >= CHUNK_BYTES or index + 1 - start >= CHUNK_LINES:
            yield start, index + 1
            start, size = index + 1, 0
    if start < len(lines):
        yield start, len(lines)
