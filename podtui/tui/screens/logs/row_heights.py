"""The height of each line of a log, in rows."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from msgspec import Struct

from podtui.tui.screens.logs.log_paint import PaintOptions
from podtui.tui.views.logs.json_rows import row_count
from podtui.tui.views.logs.line_buffer import Chunk, LineBuffer, is_log
from podtui.tui.views.logs.line_index import RowCount


class RowHeights(Struct, frozen=True):
    """Counts the rows of lines: more than one if they are wrapped, or have JSON unfolded below.

    ``expanded`` are the lines whose JSON is unfolded; with ``json_all``, it is unfolded in all.
    """

    buffer: LineBuffer
    options: PaintOptions
    json_all: bool
    expanded: AbstractSet[int]

    @property
    def counting(self) -> tuple[RowCount | None, Callable[[Chunk], bool] | None]:
        """The functions that count the rows of lines, and tell in which chunks they differ; None if
        each line takes one row."""
        if not (self.options.wrap or self.json_all or self.expanded):
            return None, None
        return self._rows_in_chunk, self.is_uneven

    def rows_of(self, line: int) -> int:
        """Return the number of rows of a line, given by its sequence number."""
        count = self.counting[0]
        if count is None:
            return 1
        chunk = self.buffer.chunk_of(line)
        return count(chunk, line - chunk.first)

    def is_uneven(self, chunk: Chunk) -> bool:
        """Return whether a line of the chunk may take several rows."""
        if self.options.wrap or self.json_all:
            return True
        return any(chunk.first <= line < chunk.end for line in self.expanded)

    def _rows_in_chunk(self, chunk: Chunk, index: int) -> int:
        block = self.buffer.block(chunk)
        line, tag = block.line(index), block.tags[index]
        rows = self.options.rows_of(line, tag) if self.options.wrap else 1
        if is_log(tag) and (self.json_all or chunk.first + index in self.expanded):
            rows += row_count(line)
        return rows
