from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.logs import line_buffer
from podtui.tui.views.logs.line_buffer import (
    CHUNK_BYTES,
    CHUNK_LINES,
    LineBuffer,
    Location,
    RunStore,
)

lines = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=60)


class FullDisk(RunStore):
    """Accepts ``room`` bytes, and frees those of dropped segments."""

    def __init__(self, room: int, segment_bytes: int = 4 * CHUNK_BYTES) -> None:
        super().__init__(segment_bytes)
        self.room = room
        self.taken: dict[int, int] = {}

    def write(self, data: bytes) -> Location:
        if sum(self.taken.values()) + len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        place = super().write(data)
        self.taken[place.segment] = self.taken.get(place.segment, 0) + len(data)
        return place

    def drop_unused(self, used: Container[int]) -> None:
        super().drop_unused(used)
        self.taken = {n: size for n, size in self.taken.items() if n in used}


def unwritten_bytes(buffer: LineBuffer) -> int:
    return sum(chunk.nbytes for chunk in buffer.chunks if chunk.block is not None)


@given(st.lists(lines, max_size=6))
def test_lines_round_trip(batches: list[list[bytes]]) -> None:
    buffer = LineBuffer()
    for batch in batches:
        buffer.append(batch)
    flat = [line for batch in batches for line in batch]
    assert list(buffer) == flat
    assert [buffer[i] for i in range(buffer.first, buffer.end)] == flat


def test_lines_times_and_tags_round_trip_through_the_disk() -> None:
    buffer = LineBuffer()
    for n in range(0, 50_000, 100):
        batch = [b"line %d of many" % i for i in range(n, n + 100)]
        buffer.append(batch, list(range(n, n + 100)), bytes(i % 7 for i in range(n, n + 100)))
    assert sum(chunk.location is not None for chunk in buffer.chunks) > 10
    for n in (0, 1, 4321, CHUNK_LINES, CHUNK_LINES - 1, 49_999):
        assert buffer[n] == b"line %d of many" % n
        assert (buffer.stamp(n), buffer.tag(n)) == (n, n % 7)
    buffer.close()


def test_memory_does_not_grow_with_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    # Everything is a fifth of its size, which is enough and takes a fifth of the time.
    size = CHUNK_BYTES // 5
    monkeypatch.setattr(line_buffer, "CHUNK_BYTES", size)
    monkeypatch.setattr(line_buffer, "CACHE_BYTES", 4 * size)
    buffer = LineBuffer()
    batch = [b"y" * 100] * 2_000
    tracemalloc.start()
    try:
        for _ in range(30):
            buffer.append(batch)
        for chunk in buffer.chunks:
            buffer.block(chunk)
        traced, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(buffer.chunks) > 200
    assert sum(chunk.block is not None for chunk in buffer.chunks) == 1
    assert traced < 16 * size
    buffer.close()


def test_over_the_disk_limit_the_oldest_lines_are_dropped_and_counted() -> None:
    buffer = LineBuffer(8 * CHUNK_BYTES, RunStore(2 * CHUNK_BYTES))
    line = b"x" * 999
    for _ in range(2000):
        buffer.append([line])
        buffer.trim()
    assert buffer.dropped > 0
    assert buffer.dropped + len(buffer) == 2000
    assert buffer.nbytes <= 8 * CHUNK_BYTES
    assert buffer[buffer.first] == line
    with pytest.raises(IndexError):
        buffer[buffer.first - 1]
    buffer.close()


def test_without_a_disk_the_newest_lines_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_buffer, "PENDING_BYTES", 4 * CHUNK_BYTES)
    buffer = LineBuffer(store=FullDisk(0))
    for n in range(3000):
        buffer.append([b"%0999d" % n])
        buffer.trim()
    assert buffer.trouble == "No space left on device"
    assert buffer.dropped + len(buffer) == 3000
    assert buffer.dropped > 1000
    assert unwritten_bytes(buffer) < 6 * CHUNK_BYTES
    assert [int(line) for line in buffer] == list(range(buffer.first, 3000))


def test_a_full_disk_drops_the_oldest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_buffer, "PENDING_BYTES", CHUNK_BYTES)
    buffer = LineBuffer(store=FullDisk(12 * CHUNK_BYTES))
    for n in range(4000):
        buffer.append([b"%0999d" % n])
        buffer.trim()
    assert 0 < buffer.dropped < 4000 - 1000
    assert [int(line) for line in buffer] == list(range(buffer.first, 4000))
    buffer.close()


def test_a_temporarily_full_disk_drops_nothing() -> None:
    disk = FullDisk(0)
    buffer = LineBuffer(store=disk)
    for n in range(2000):
        if n == 1000:
            disk.room = 1 << 30
        buffer.append([b"%0999d" % n])
        buffer.trim()
    assert buffer.dropped == 0
    assert unwritten_bytes(buffer) < 2 * CHUNK_BYTES
    assert [int(line) for line in buffer] == list(range(2000))
    buffer.close()


def test_an_unreadable_chunk_is_reported_in_its_place() -> None:
    class Broken(RunStore):
        def read(self, place: Location) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    buffer = LineBuffer(store=Broken())
    buffer.append([b"z" * 100] * 5000)
    assert buffer[0] == b"(this line cannot be read back: Input/output error)"
    assert len(list(buffer)) == 5000
    buffer.close()


@pytest.mark.usefixtures("no_collection")  # other tests' garbage may have files
def test_files_are_unnamed_and_removed_with_the_store() -> None:
    def descriptors() -> set[int]:
        return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()}

    before = descriptors()
    store = RunStore()
    assert descriptors() == before
    place = store.write(b"secret")
    (descriptor,) = descriptors() - before
    assert os.readlink(f"/proc/self/fd/{descriptor}").endswith("(deleted)")
    assert os.fstat(descriptor).st_mode & 0o077 == 0
    assert store.read(place) == b"secret"
    del store
    assert descriptors() == before


def test_a_snapshot_survives_its_source() -> None:
    buffer = LineBuffer()
    buffer.append([b"q%d" % n for n in range(30_000)])
    snapshot = buffer.snapshot()
    buffer.append([b"later"])
    buffer.clear()
    buffer.append([b"other"] * 30_000)
    assert [line for block in snapshot.blocks() for line in block.lines()] == [
        b"q%d" % n for n in range(30_000)
    ]
    snapshot.close()
    buffer.close()


def test_a_line_feed_inside_a_line_does_not_make_two() -> None:
    buffer = LineBuffer()
    buffer.append([b"a\nb", b"c"])
    assert list(buffer) == [b"a b", b"c"]


def test_clear_continues_the_numbering() -> None:
    buffer = LineBuffer()
    buffer.append([b"a", b"b"])
    buffer.clear()
    buffer.append([b"c"])
    assert (buffer.first, buffer.end, buffer[2], buffer.dropped) == (2, 3, b"c", 0)


@pytest.fixture
def small_chunks() -> Iterator[None]:
    """Chunks of a few lines, so that a few lines fill many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_buffer, "CHUNK_LINES", 4)
        patch.setattr(line_buffer, "CHUNK_BYTES", 120)
        yield


@pytest.mark.usefixtures("small_chunks")
@given(st.data(), st.lists(lines, min_size=1, max_size=4))
def test_the_head_is_replaced_and_later_lines_keep_their_numbers(
    data: st.DataObject, batches: list[list[bytes]]
) -> None:
    buffer = LineBuffer()
    kept: dict[int, tuple[bytes, int, int]] = {}
    for number, batch in enumerate(batches):
        end = buffer.end
        buffer.append(batch, range(len(batch)), number)
        kept |= {end + n: (line, n, number) for n, line in enumerate(batch)}
        until = data.draw(st.integers(buffer.first, buffer.end))
        head = data.draw(lines)
        tags = bytes(200 + n % 7 for n in range(len(head)))
        buffer.replace_head(until, head, range(len(head)), tags)
        kept = {n: line for n, line in kept.items() if n >= until}
        first = until - len(head)
        kept |= {first + n: (line, n, tags[n]) for n, line in enumerate(head)}
    assert (buffer.first, buffer.end, buffer.dropped) == (min(kept, default=buffer.end),
                                                          buffer.end, 0)  # fmt: skip
    found = {
        n: (buffer[n], buffer.stamp(n), buffer.tag(n)) for n in range(buffer.first, buffer.end)
    }
    assert found == kept
    assert buffer.nbytes == sum(buffer.block(chunk).nbytes for chunk in buffer.chunks)
    tag = data.draw(st.sampled_from([0, 1, 200, 206]))
    assert buffer.first_of(tag) == min(
        (n for n, line in kept.items() if line[2] == tag), default=None
    )


def test_dropping_a_replaced_head_keeps_the_lines_after_it() -> None:
    """The head is on disk behind the lines that follow it."""
    buffer = LineBuffer(16 * CHUNK_BYTES)
    buffer.append([b"%0999d" % n for n in range(1000)])
    buffer.replace_head(500, [b"%0999d" % n for n in range(500)], [0] * 500, bytes(500))
    for n in range(1000, 3000):
        buffer.append([b"%0999d" % n])
        buffer.trim()
    assert buffer.dropped > 500
    assert list(buffer) == [b"%0999d" % n for n in range(buffer.first, 3000)]
    assert buffer.nbytes <= 16 * CHUNK_BYTES
