"""Application of edits to a text, and their preview as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from podtui.errors import PodtuiError
from podtui.why.source import BREAK, Edit

CONTEXT = 2


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
