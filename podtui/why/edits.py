"""Edits of a text: their application, and their preview as a diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from podtui.errors import PodtuiError

# The line breaks of YAML 1.1, as the manifest reader counts them.
BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
CONTEXT = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces ``old`` at a position by ``new``; both may span several lines."""

    line: int
    column: int
    old: str
    new: str


class EditError(PodtuiError):
    """Raised if the text is not the one that an edit was made for."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply all edits to the text. Raises `EditError`."""
    starts = [0, *(match.end() for match in BREAK.finditer(text))]
    placed: list[tuple[int, Edit]] = []
    for edit in edits:
        if edit.line > len(starts):
            raise EditError(f"the file has no line {edit.line} any more")
        mark = edit.line == 1 and text.startswith("\ufeff")
        offset = starts[edit.line - 1] + edit.column - 1 + mark
        if not text.startswith(edit.old, offset):
            raise EditError(f"line {edit.line} has changed")
        placed.append((offset, edit))
    end = len(text)
    for offset, edit in sorted(placed, key=lambda pair: pair[0], reverse=True):
        if offset + len(edit.old) > end:
            raise EditError(f"two changes overlap in line {edit.line}")
        text = text[:offset] + edit.new + text[offset + len(edit.old) :]
        end = offset
    return text


def diff_lines(text: str, edits: Iterable[Edit], context: int = CONTEXT) -> tuple[str, ...]:
    """Return a unified diff of the edits, with ``context`` lines around them: lines begin with a
    blank, ``-`` or ``+``, and ``@@`` separates distant hunks. Raises `EditError`."""
    return diff_texts(text, apply_edits(text, edits), context)


def diff_texts(before: str, after: str, context: int = CONTEXT) -> tuple[str, ...]:
    """Return the unified diff of two texts, in the format of `diff_lines`."""
    old, new = BREAK.split(before), BREAK.split(after)
    return tuple(difflib.unified_diff(old, new, lineterm="", n=context))[2:]
