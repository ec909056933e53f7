"""Which lines are shown and which were looked for: patterns as users type them.

``re`` and ``!re`` (lines without it), ``-f letters`` (in this order, anything between), and with
each ``-C N`` for so many lines around. Lower case finds either case. What is no regular expression
is looked for as it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from podtui.errors import UsageError
from podtui.tui.logs.line_buffer import Block

MOST_CONTEXT: Final = 999
_CONTEXT: Final = re.compile(r"(?:^|\s)-C\s*(\S*)")
_SGR: Final = re.compile(rb"\x1b\[[0-9;:]*m")
# What looks around or at the ends of a text would see beyond its line.
_ALONE: Final = re.compile(r"\\[AZ]|\(\?")


class LogFilter(Struct, frozen=True):
    """``pattern`` None shows all. ``marked`` says that the pattern's groups are what is to be
    marked, not all of it."""

    text: str = ""
    pattern: re.Pattern[bytes] | None = None
    inverse: bool = False
    context: int = 0
    marked: bool = False

    def hits(self, block: Block, start: int) -> Iterable[int]:
        """Indexes, from ``start`` on, of the lines that pass by themselves."""
        if self.pattern is None:
            return range(start, len(block))
        found = matching_lines(block, self.pattern, start)
        if not self.inverse:
            return found
        without = set(found)
        return [index for index in range(start, len(block)) if index not in without]

    def spans(self, line: bytes) -> list[tuple[int, int]]:
        """Byte ranges of a line to be marked."""
        return [] if self.inverse else spans_of(self.pattern, line, groups=self.marked)


EVERY_LINE: Final = LogFilter()


def parse_log_filter(text: str) -> LogFilter:
    """Raises `UsageError` for a context that is no number."""
    context = 0

    def take(match: re.Match[str]) -> str:
        nonlocal context
        if not match[1].isdecimal() or int(match[1]) > MOST_CONTEXT:
            raise UsageError(f"-C wants a number up to {MOST_CONTEXT}: -C {match[1]}".rstrip())
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
    """Finds lines that hold these letters in this order; blanks count for nothing."""
    # Each gap stops at the byte that ends it: no line is tried in more than one way.
    letters = "".join(letters.split())
    singles = [re.escape(bytes((byte,))) for byte in letters.encode()]
    source = b"".join(b"[^%b\n]*(%b)" % (byte, byte) for byte in singles)
    return re.compile(b"^" + source, _flags(letters))


def compile_search(pattern: str) -> re.Pattern[bytes]:
    """A search as users type it: a regular expression if it is one, else its plain text; lower
    case finds either case."""
    source = pattern.encode()
    try:
        return re.compile(source, _flags(pattern))
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(source), _flags(pattern))


def _flags(pattern: str) -> int:
    # An escape such as \S is no upper case letter that somebody wants to find.
    plain = re.sub(r"\\.", "", pattern)
    return re.MULTILINE | (0 if plain != plain.lower() else re.IGNORECASE)


def spans_of(
    pattern: re.Pattern[bytes] | None, line: bytes, *, groups: bool = False
) -> list[tuple[int, int]]:
    """Byte ranges that a pattern finds, or those of its groups."""
    if pattern is None:
        return []
    if groups:
        return [m.span(g) for m in pattern.finditer(line) for g in range(1, (m.lastindex or 0) + 1)]
    return [m.span() for m in pattern.finditer(line) if m.end() > m.start()]


def matching_lines(block: Block, pattern: re.Pattern[bytes], start: int = 0) -> list[int]:
    """Indexes, from ``start`` on, of a block's lines that match."""
    if start >= len(block):
        return []
    if b"\x1b" in block.data:
        lines = (_SGR.sub(b"", line) for line in block.lines(start))
        return [n for n, line in enumerate(lines, start) if pattern.search(line)]
    if _ALONE.search(pattern.pattern.decode(errors="replace")):
        return [n for n, line in enumerate(block.lines(start), start) if pattern.search(line)]
    return _matching_run(block, pattern, start)


def _matching_run(block: Block, pattern: re.Pattern[bytes], start: int) -> list[int]:
    """The same over the whole run of bytes at once, which is quicker by far."""
    found: list[int] = []
    ends, data = block.ends, block.data
    position = ends[start - 1] if start else 0
    while (match := pattern.search(data, position)) is not None:
        index = bisect_right(ends, match.start())
        if index >= len(ends):
            break
        # A match that runs over a line's end is a match only if the line matches by itself.
        if match.end() < ends[index] or pattern.search(block.line(index)):
            found.append(index)
        position = ends[index]
    return found
