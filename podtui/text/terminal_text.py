"""Text for a terminal: sanitizes external text, such as names, messages, logs and files.

Escape sequences, control characters and marks that change the text direction never reach the
terminal. The remaining text has the same width on every terminal: characters that join with their
neighbours, or whose width differs between terminals, are replaced or removed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

LONGEST: Final = 16 * 1024
"""The maximum number of characters shown of one line."""
MOST_MARKS: Final = 4
"""The maximum number of marks on one letter. No language uses more, and a larger pile would cover
the lines above."""
NO_LETTER: Final = -1
"""A mark count that means: there is no letter yet to carry a mark."""
UNKNOWN: Final = "\ufffd"
TAB: Final = 8

SGR: Final = r"\x1b\[([0-9;:]*)m"
CONTROL: Final = re.compile(
    SGR
    + r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # other CSI
    + r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC up to their end
    + r"|\x1b[ -/]*[0-~]?"  # other escapes
    + r"|\x9b[0-?]*[ -/]*[@-~]?|[\x90\x98\x9d\x9e\x9f].*?(?:\x07|\x9c|$)"  # the same in C1
    + r"|[\x00-\x1f\x7f-\x9f]"
    + r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c\ufeff\u2028\u2029]"
    # Joiners, selectors and other zero-width characters: terminals disagree on what they join.
    + r"|[\u00ad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u206f\ufe00-\ufe0f]"
    + r"|[\ufff0-\ufffb\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]"
)
"""All control sequences; the first group is the parameters of a colour sequence (SGR)."""

_FILLERS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters that are drawn as blanks or not at all."""
_CONTESTED: Final = (
    (0x2630, 0x2637), (0x268A, 0x268F), (0x3248, 0x324F), (0x4DC0, 0x4DFF), (0x1D300, 0x1D356),
    (0x1D360, 0x1D376),
)  # fmt: skip
"""One cell wide up to Unicode 15 and two since, or vice versa."""
_FLAGS: Final = (0x1F1E6, 0x1F1FF)
"""Regional indicator letters; some terminals draw two of them as a flag."""
_JAMO: Final = ((0x1160, 0x11FF), (0xD7B0, 0xD7FF))
"""Korean vowels and finals, drawn in the cells of the preceding consonant."""


def one_line(text: str) -> str:
    """Sanitize ``text`` to one line of at most `LONGEST` characters; a cut is marked with the full
    size."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable():
        return text
    head = " ".join(text[: LONGEST + 1].splitlines()).expandtabs(TAB)
    whole = len(text) <= LONGEST and len(head) <= LONGEST
    head = head[: LONGEST + 1]
    shown, _ = settled(CONTROL.sub(_picture, head.encode(errors="replace").decode()))
    if whole and len(shown) <= LONGEST:
        return shown
    more = cut_words(len(text.encode(errors="replace")))
    return shown[: LONGEST - len(more)] + more


def lines(text: str) -> str:
    """Sanitize each line of a text with `one_line`; only a line feed ends a line."""
    return "\n".join(map(one_line, text.split("\n")))


def after_return(line: bytes) -> bytes:
    """Return the part of a log line that a terminal shows at last: what follows the last carriage
    return, as in a progress bar. A carriage return at the end belongs to the line ending.
    """
    return line.rstrip(b"\r").rpartition(b"\r")[2] if b"\r" in line else line


def json_text(text: str) -> str:
    """Escape all non-printable characters in JSON, without changing its meaning."""
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def _escape(character: str) -> str:
    import json

    return json.dumps(character)[1:-1] if character > "\x7f" else f"\\u{ord(character):04x}"


def plural(count: int, noun: str, several: str = "") -> str:
    """Return ``1 pod`` or ``2 pods``; ``several`` is the plural if it does not end with ``s``
    alone."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def cut_words(size: int) -> str:
    """Return the suffix of a line of ``size`` bytes that was cut."""
    return f" … ({size:,} bytes, cut)"


def control_symbol(control: str) -> str:
    """Return the replacement of a match of `CONTROL`: a symbol for a single control character, else
    nothing."""
    single = len(control) == 1 and control < " " and control != "\x1b"
    return chr(0x2400 + ord(control)) if single else ""


def _picture(match: re.Match[str]) -> str:
    return control_symbol(match.group())


def settled(text: str, marks: int = NO_LETTER) -> tuple[str, int]:
    """Normalize a text without control sequences so that it has the same width on every terminal.

    ``marks`` is the number of marks on the letter before the text. The number for the last letter
    is returned, to be passed with the text that follows.
    """
    if text.isascii():
        return text, 0 if text else marks
    kinds = set(text)
    instead = {ord(c): new for c in kinds if (new := _instead(c)) != c}
    if instead:
        text = text.translate(instead)
    if not any(map(_is_mark, kinds)):
        return text, 0 if text else marks
    kept: list[str] = []
    for character in text:
        if not _is_mark(character):
            marks = 0
        elif marks >= MOST_MARKS:
            continue
        else:
            if marks == NO_LETTER:
                kept.append("◌")
            marks = max(marks, 0) + 1
        kept.append(character)
    return "".join(kept), marks


@lru_cache(maxsize=8192)
def _instead(character: str) -> str:
    """Return the replacement of a character."""
    code = ord(character)
    if code < 0x300:
        return character
    if _FLAGS[0] <= code <= _FLAGS[1]:
        return chr(ord("A") + code - _FLAGS[0])
    category = unicodedata.category(character)
    if category == "Cf" or character in _FILLERS:
        return ""
    # A spacing mark has no width of its own in newer terminals; for characters unknown to Unicode
    # each terminal guesses the width.
    contested = category in ("Mc", "Cn", "Cs") or _within(code, _CONTESTED)
    return UNKNOWN if contested else character


@lru_cache(maxsize=8192)
def _is_mark(character: str) -> bool:
    """Return whether the character is drawn on the preceding letter."""
    category = unicodedata.category(character)
    return category in ("Mn", "Me") or _within(ord(character), _JAMO)


def cells(text: str) -> int:
    """Return the width in cells of a text from `one_line` or `settled`."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@lru_cache(maxsize=8192)
def _cells(character: str) -> int:
    if _is_mark(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)
