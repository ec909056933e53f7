"""Edits carried out on a text, and shown before they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from podtui.errors import PodtuiError
from podtui.why.source import BREAK
from podtui.why.types import Edit

CONTEXT = 2


class EditError(PodtuiError):
    """Raised where a text is not the one that an edit was made for."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits done. Raises `EditError`."""
    starts = [0, *(match.end() for match in BREAK.finditer(text))]
    placed: list[tuple[int, Edit]] = []
    for edit in edits:
        if edit.line > len(starts):
            raise EditError(f"the file has no line {edit.line} any more")
        mark = edit.line == 1 and text.startswith("\ufeff")
        offset = starts[edit.line - 1] + edit.column - 1 + mark
        if not text.startswith(edit.old, offset):
            raise EditError(f"line {edit.line} is not what it was")
        placed.append((offset, edit))
    end = len(text)
    for offset, edit in sorted(placed, key=lambda pair: pair[0], reverse=True):
        if offset + len(edit.old) > end:
            raise EditError(f"two changes meet in line {edit.line}")
        text = text[:offset] + edit.new + text[offset + len(edit.old) :]
        end = offset
    return text


def diff_lines(text: str, edits: Iterable[Edit], context: int = CONTEXT) -> tuple[str, ...]:
    """What the edits change, with so many lines around it: lines that begin with a blank, ``-`` or
    ``+``, and ``@@`` between places that are apart. Raises `EditError`."""
    return diff_texts(text, apply_edits(text, edits), context)


def diff_texts(before: str, after: str, context: int = CONTEXT) -> tuple[str, ...]:
    """The same for two texts."""
    old, new = BREAK.split(before), BREAK.split(after)
    return tuple(difflib.unified_diff(old, new, lineterm="", n=context))[2:]
