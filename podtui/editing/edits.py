"""Edits of a text: their application, and their preview as a diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from podtui.api.local import Edit
from podtui.errors import PodtuiError

# The line breaks of YAML 1.1, as the manifest reader counts them.
BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
CONTEXT = 2


class EditError(PodtuiError):
    """Raised if the text is not the one that an edit was made for."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply all edits to the text. Raises `EditError`."""
    starts = [0, *(match.end() for match in BREAK.finditer(text))]
    placed: list[tuple[int, Edit]] = []
    for edit in edits:
        if edit.line > len(starts):
            raise EditError(f"line {edit.line} no longer exists")
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


def edits_between(before: str, after: str) -> tuple[Edit, ...]:
    """Return the edits of whole lines that turn one text into the other."""
    old, new = _with_breaks(before), _with_breaks(after)
    edits: list[Edit] = []
    for tag, start, end, from_, to in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            removed, added = "".join(old[start:end]), "".join(new[from_:to])
            if start == 0:
                # Positions do not count a byte-order mark.
                removed, added = removed.removeprefix("\ufeff"), added.removeprefix("\ufeff")
            edits.append(Edit(start + 1, 1, removed, added))
    return tuple(edits)


def _with_breaks(text: str) -> list[str]:
    """Split a text after each line break."""
    ends = [match.end() for match in BREAK.finditer(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return pieces if pieces[-1] else pieces[:-1]
