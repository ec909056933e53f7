"""Parse the filter and search patterns that users type.

A pattern is ``re``, ``!re`` (lines that do not match) or ``-f letters`` (fuzzy: these letters in
this order, anything between), each optionally with ``-C N`` for N lines of context. A lower-case
pattern matches either case. Text that is not a valid regular expression is searched literally.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from podtui.errors import UsageError
from podtui.text.terminal_text import after_return
from podtui.tui.views.logs.line_buffer import LineBlock
from podtui.tui.widgets.search import case_flags, compile_search, spans_of

MOST_CONTEXT: Final = 999
_CONTEXT: Final = re.compile(r"(?:^|\s)-C\s*(\S*)")
_SGR: Final = re.compile(rb"\x1b\[[0-9;:]*m")
# Look-arounds and text anchors would see beyond the line when a whole block is searched.
_ALONE: Final = re.compile(r"\\[AZ]|\(\?")


class LogFilter(Struct, frozen=True):
    """A parsed filter; a ``pattern`` of None passes all lines.

    If ``marked``, the groups of the pattern are highlighted instead of the whole match.
    """

    text: str = ""
    pattern: re.Pattern[bytes] | None = None
    inverse: bool = False
    context: int = 0
    marked: bool = False

    def hits(self, block: LineBlock, start: int) -> Iterable[int]:
        """Return the indexes, from ``start`` on, of the lines that pass, without context lines."""
        if self.pattern is None:
            return range(start, len(block))
        hits = matching_lines(block, self.pattern, start)
        if not self.inverse:
            return hits
        without = set(hits)
        return [index for index in range(start, len(block)) if index not in without]

    def spans(self, line: bytes) -> list[tuple[int, int]]:
        """Return the byte ranges of a line to highlight."""
        return [] if self.inverse else spans_of(self.pattern, line, groups=self.marked)


EVERY_LINE: Final = LogFilter()


def parse_log_filter(text: str) -> LogFilter:
    """Parse a filter. Raises `UsageError` if the context is not a number up to `MOST_CONTEXT`."""
    context = 0

    def take(match: re.Match[str]) -> str:
        nonlocal context
        if not match[1].isdecimal() or int(match[1]) > MOST_CONTEXT:
            raise UsageError(f"-C requires a number up to {MOST_CONTEXT}: -C {match[1]}".rstrip())
        context = int(match[1])
        return ""

    rest = _CONTEXT.sub(take, text).strip()
    if rest == "-f" or rest.startswith("-f "):
        letters = rest[2:].strip()
        pattern = fuzzy(letters) if letters else None
        return LogFilter(text, pattern, context=context, marked=True)
    inverse = rest.startswith("!")
    rest = rest.removeprefix("!").strip() if inverse else rest
    pattern = compile_search(rest) if rest else None
    return LogFilter(text, pattern, inverse and pattern is not None, context)


def fuzzy(letters: str) -> re.Pattern[bytes]:
    """Compile a pattern that finds lines with these letters in this order; ignore blanks."""
    # Each gap ends at the first wanted byte: a line can match in one way only, which avoids
    # catastrophic backtracking.
    letters = "".join(letters.split())
    singles = [re.escape(bytes((byte,))) for byte in letters.encode()]
    source = b"".join(b"[^%b\n]*(%b)" % (byte, byte) for byte in singles)
    return re.compile(b"^" + source, case_flags(letters))


def matching_lines(block: LineBlock, pattern: re.Pattern[bytes], start: int = 0) -> list[int]:
    """Return the indexes, from ``start`` on, of a block's lines that match."""
    if start >= len(block):
        return []
    if b"\x1b" in block.data or b"\r" in block.data:
        lines = (_SGR.sub(b"", after_return(line)) for line in block.lines(start))
        return [n for n, line in enumerate(lines, start) if pattern.search(line)]
    if _ALONE.search(pattern.pattern.decode(errors="replace")):
        return [n for n, line in enumerate(block.lines(start), start) if pattern.search(line)]
    return _matching_run(block, pattern, start)


def _matching_run(block: LineBlock, pattern: re.Pattern[bytes], start: int) -> list[int]:
    """Search all bytes of the block at once, which is much faster than line by line."""
    indexes: list[int] = []
    ends, data = block.ends, block.data
    position = ends[start - 1] if start else 0
    while (match := pattern.search(data, position)) is not None:
        index = bisect_right(ends, match.start())
        if index >= len(ends):
            break
        # A match that crosses the end of the line counts only if the line alone matches too.
        if match.end() < ends[index] or pattern.search(block.line(index)):
            indexes.append(index)
        position = ends[index]
    return indexes
