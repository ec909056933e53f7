"""Search patterns: their case, their compilation, and the ranges that match."""

from __future__ import annotations

import re


def compile_search(pattern: str) -> re.Pattern[bytes]:
    """Compile a search: a regular expression if it is valid, otherwise literal text."""
    source = pattern.encode()
    try:
        return re.compile(source, case_flags(pattern))
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(source), case_flags(pattern))


def case_flags(pattern: str) -> int:
    """Return the flags by which a lower-case pattern matches either case, as in less and vim. An
    escape such as ``\\S`` does not count as an upper-case letter.
    """
    plain = re.sub(r"\\.", "", pattern)
    return re.MULTILINE | (0 if plain != plain.lower() else re.IGNORECASE)


def spans_of(
    pattern: re.Pattern[bytes] | None, line: bytes, *, groups: bool = False
) -> list[tuple[int, int]]:
    """Return the byte ranges of all matches of a pattern, or of their groups."""
    if pattern is None:
        return []
    if groups:
        return [m.span(g) for m in pattern.finditer(line) for g in range(1, (m.lastindex or 0) + 1)]
    return [m.span() for m in pattern.finditer(line) if m.end() > m.start()]
