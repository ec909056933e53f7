"""The data of a log view, independent of a screen: lines, filter and search results, levels, marks.

`work` does long tasks in pieces of about a millisecond, newest lines first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from re import Pattern
from typing import Final

from msgspec import Struct

from podtui.tui.views.logs.filters import EVERY_LINE, LogFilter, matching_lines
from podtui.tui.views.logs.levels import Level, continues, level_of
from podtui.tui.views.logs.line_buffer import (
    DISK_BYTES,
    EVENT,
    EVENT_WARNING,
    EVENTS,
    GAP,
    REMARKS,
    Chunk,
    LineBuffer,
    is_log,
)
from podtui.tui.views.logs.line_index import LineSet, RowCount, RowIndex
from podtui.tui.views.logs.merge import HeadLine
from podtui.tui.views.logs.times import split_lines

TRACE_LINES: Final = 200
"""Lines of the previous chunk searched for the level of a stack trace that continues in a chunk."""
NEAR: Final = 20
"""Lines searched upward for that level if the level of only one line is requested."""
LEVELS_KEPT: Final = 512
"""Maximum number of chunks whose levels are cached, at one byte per line."""


class Query(Struct, frozen=True):
    """Selects the lines to show. Remarks about the log itself (gaps, restarts) are always shown."""

    filter: LogFilter = EVERY_LINE
    level: Level = Level.UNKNOWN
    events: bool = True

    @property
    def narrows(self) -> bool:
        return self.filter.pattern is not None or bool(self.level) or not self.events


class LogLines:
    """Lines, their levels and marks, and the rows in which they are shown."""

    def __init__(self, disk_bytes: int = DISK_BYTES) -> None:
        self.buffer = LineBuffer(disk_bytes)
        self.query = Query()
        self.pattern: Pattern[bytes] | None = None
        self.found: LineSet | None = None
        self.marks: list[int] = []
        self.log_lines = 0
        """Number of log lines since the last `clear`, without remarks and events."""
        self._last_stamp = 0
        self._levels: OrderedDict[int, bytearray] = OrderedDict()
        self._count: RowCount | None = None
        self._uneven: Callable[[Chunk], bool] | None = None
        self.rows = RowIndex(self.buffer)

    # --- lines

    def write(self, lines: Sequence[bytes], tag: int = 0) -> None:
        """Add lines as the API sends them."""
        stamps, texts = split_lines(lines, self._last_stamp)
        self.add(stamps, texts, tag)

    def add(self, stamps: Sequence[int], texts: Sequence[bytes], tag: int) -> None:
        """Add lines of one source or kind with their times."""
        self.buffer.append(texts, stamps, tag)
        self._last_stamp = stamps[-1] if stamps else self._last_stamp
        if tag < GAP:
            self.log_lines += len(texts)

    def clear(self) -> None:
        """Drop all lines and their matches; keep the filter and the search."""
        self.buffer.clear()
        self.marks.clear()
        self._levels.clear()
        self.log_lines = self._last_stamp = 0
        self.rebuild(self._count, self._uneven)

    def close(self) -> None:
        """Free the lines for good."""
        self.buffer.close()
        self._index(None)
        self.found = None

    def head(self, until: int) -> list[HeadLine]:
        """Return all lines before ``until``."""
        head: list[HeadLine] = []
        for chunk in self.buffer.chunks:
            if chunk.first >= until:
                break
            block = self.buffer.block(chunk)
            count = min(chunk.count, until - chunk.first)
            head += map(
                HeadLine,
                block.stamps[:count],
                block.tags[:count],
                islice(block.lines(), count),
                range(chunk.first, chunk.first + count),
            )
        return head

    def replace_head(self, until: int, head: Sequence[HeadLine]) -> dict[int, int]:
        """Replace all lines before ``until``; the later ones keep their sequence numbers. Returns
        the new numbers of the replaced lines that are kept.
        """
        # Newer lines keep their numbers, so that those of a longer head become smaller, even
        # negative.
        first = until - len(head)
        moved = {
            line.sequence: new for new, line in enumerate(head, first) if line.sequence is not None
        }
        self.buffer.replace_head(
            until,
            [line.text for line in head],
            [line.stamp for line in head],
            bytes(line.tag for line in head),
        )
        self.log_lines += sum(line.sequence is None and is_log(line.tag) for line in head)
        self.marks = sorted(
            moved.get(mark, mark) for mark in self.marks if mark >= until or mark in moved
        )
        for gone in [key for key in self._levels if key < until]:
            del self._levels[gone]
        for lines in (self.rows.shown, self.found):
            if lines is not None:
                lines.forget_head(until)
        self.rows.forget_head(until)
        return moved

    def refresh(self) -> None:
        """Register new lines and drop those beyond the buffer's bounds."""
        self.buffer.trim()
        if self.rows.shown is not None:
            self.rows.shown.refresh()
            # Scan the newest chunk now: a user who follows the log waits for it.
            self.rows.shown.scan_more()
        if self.found is not None:
            self.found.refresh()
        self.rows.refresh()
        first = self.buffer.first
        if self.marks and self.marks[0] < first:
            del self.marks[: bisect_left(self.marks, first)]

    # --- shown lines and rows

    def rebuild(
        self, count: RowCount | None = None, uneven: Callable[[Chunk], bool] | None = None
    ) -> None:
        """Rebuild the shown lines and rows; for ``count`` and ``uneven`` see `RowIndex`."""
        self._count, self._uneven = count, uneven
        shown = None
        if self.query.narrows:
            shown = LineSet(self.buffer, self._passing, self.query.filter.context)
            shown.scan_more()
        self._index(shown)
        self.search(self.pattern)

    def recount(self, count: RowCount | None, uneven: Callable[[Chunk], bool] | None) -> None:
        """Rebuild the rows of the shown lines; for ``count`` and ``uneven`` see `RowIndex`."""
        self._count, self._uneven = count, uneven
        self._index(self.rows.shown)

    def _index(self, shown: LineSet | None) -> None:
        if self._uneven is None:
            self.rows = RowIndex(self.buffer, shown, self._count)
        else:
            self.rows = RowIndex(self.buffer, shown, self._count, self._uneven)

    def search(self, pattern: Pattern[bytes] | None) -> None:
        """Search the shown lines, including future ones, for a pattern; None ends the search."""
        self.pattern = pattern
        self.found = None if pattern is None else LineSet(self.buffer, self._matching)
        if self.found is not None:
            self.found.scan_more()

    def work(self) -> bool:
        """Do one piece of the pending work. Returns False if there was none."""
        # In this order, because each builds on the one before: rows and matches are those of the
        # shown lines.
        if self.rows.shown is not None and self.rows.shown.scan_more():
            self.rows.refresh()
            return True
        if self.found is not None and self.found.scan_more():
            return True
        return self.rows.count_more()

    @property
    def progress(self) -> float:
        """The share of lines (0 to 1) that filter and search have scanned."""
        whole = len(self.buffer)
        shares = [s.scanned / whole for s in (self.rows.shown, self.found) if s and whole]
        return min(shares, default=1.0)

    def before(self, sequence: int) -> int | None:
        """Return the line shown above this one, or None."""
        shown = self.rows.shown
        if shown is None:
            return sequence - 1 if sequence > self.buffer.first else None
        rank = shown.rank(sequence)
        return shown.at(rank - 1) if rank else None

    def is_context(self, sequence: int) -> bool:
        """Return True if a line is shown only as context of a line that passed the filter."""
        shown = self.rows.shown
        return shown is not None and bool(self.query.filter.context) and not shown.is_hit(sequence)

    def _passing(self, chunk: Chunk, start: int) -> Iterable[int]:
        block, query = self.buffer.block(chunk), self.query
        hits = query.filter.hits(block, start)
        if query.level:
            levels = self._levels_of(chunk)
            hits = [n for n in hits if Level(levels[n]).rank >= query.level]
        tags = block.tags
        # Remarks about the log pass every filter; events can be hidden by a switch of their own.
        remarks = [n for n in range(start, len(block)) if tags[n] in REMARKS]
        if remarks:
            hits = sorted({*hits, *remarks})
        if not query.events and (EVENT in tags or EVENT_WARNING in tags):
            hits = [n for n in hits if tags[n] not in EVENTS]
        return hits

    def _matching(self, chunk: Chunk, start: int) -> Iterable[int]:
        assert self.pattern is not None
        hits = matching_lines(self.buffer.block(chunk), self.pattern, start)
        shown = self.rows.shown
        if shown is None or not hits:
            return hits
        # Only shown lines match. Context lines are shown because of hits in this chunk and its
        # neighbours, so these are scanned first.
        number = self.buffer.place_of(chunk.first)
        reach = 1 if self.query.filter.context else 0
        for near in self.buffer.chunks[max(0, number - reach) : number + reach + 1]:
            shown.scan(near)
        members = set(shown.members(chunk))
        return [n for n in hits if n in members]

    # --- levels

    def level(self, sequence: int) -> Level:
        """Return the level of a line. Raises IndexError for a line that is not kept."""
        chunk = self.buffer.chunk_of(sequence)
        index = sequence - chunk.first
        levels = self._levels.get(chunk.first, b"")
        if index >= len(levels):
            level = self._level_of(chunk, index)
            if level is not None:
                return level
            levels = self._levels_of(chunk)
        return Level(levels[index])

    def _level_of(self, chunk: Chunk, index: int) -> Level | None:
        """Return the level of one line without computing the levels of its whole chunk.

        This suffices for the few visible lines of the thousands that arrive. Returns None if the
        level depends on lines more than `NEAR` lines above.
        """
        block = self.buffer.block(chunk)
        tag = block.tags[index]
        if tag >= GAP:
            return Level.WARN if tag == EVENT_WARNING else Level.INFO
        for above in range(index, max(-1, index - NEAR), -1):
            if block.tags[above] == tag:
                line = block.line(above)
                level = level_of(line)
                if level or not continues(line):
                    return level
        return None

    def _levels_of(self, chunk: Chunk) -> bytearray:
        levels = self._levels.setdefault(chunk.first, bytearray())
        self._levels.move_to_end(chunk.first)
        if len(levels) < chunk.count:
            self._detect_levels(chunk, levels)
        while len(self._levels) > LEVELS_KEPT:
            self._levels.popitem(last=False)
        return levels

    def _detect_levels(self, chunk: Chunk, levels: bytearray) -> None:
        """Append the levels of new lines. A continuation line has the level of the line above of
        the same source."""
        block = self.buffer.block(chunk)
        start = len(levels)
        # The last known level of each source. In a chunk that has grown, its own levels show it.
        above = self._above(chunk) if not start else dict(zip(block.tags, levels, strict=False))
        for index, line in enumerate(block.lines(start), start):
            tag = block.tags[index]
            if tag >= GAP:
                level = Level.WARN if tag == EVENT_WARNING else Level.INFO
            else:
                level = level_of(line)
                if not level and continues(line):
                    level = above.get(tag, Level.UNKNOWN)
            above[tag] = level
            levels.append(level)

    def _above(self, chunk: Chunk) -> dict[int, int]:
        """Return the last level of each source, by tag, in the last lines of the previous chunk.

        Empty if the first line of this chunk is not a continuation line.
        """
        number = self.buffer.place_of(chunk.first)
        if number == 0 or not continues(self.buffer.block(chunk).line(0)):
            return {}
        block = self.buffer.block(self.buffer.chunks[number - 1])
        above: dict[int, int] = {}
        for index in range(max(0, len(block) - TRACE_LINES), len(block)):
            level = level_of(block.line(index))
            if level:
                above[block.tags[index]] = level
        return above

    # --- marks

    def toggle_mark(self, sequence: int) -> bool:
        """Mark or unmark a line. Returns True if it is marked now."""
        index = bisect_left(self.marks, sequence)
        if index < len(self.marks) and self.marks[index] == sequence:
            del self.marks[index]
            return False
        insort(self.marks, sequence)
        return True

    def next_mark(self, sequence: int, step: int) -> int | None:
        """Return the marked line after (``step`` 1) or before this one, wrapping at the ends."""
        if not self.marks:
            return None
        index = bisect_left(self.marks, sequence + 1 if step > 0 else sequence)
        return self.marks[(index if step > 0 else index - 1) % len(self.marks)]
