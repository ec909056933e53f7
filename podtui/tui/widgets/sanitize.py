"""Sanitize external text (names, messages, events, manifests) for display.

Escape sequences, control characters and marks that change the text direction never reach the
terminal (`podtui.text.terminal_text` defines them); wide characters are kept.
"""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content

from podtui.text.terminal_text import UNKNOWN, one_line

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Sanitize ``text`` and put it on one line."""
    return one_line(text)


def clean_lines(text: str) -> list[str]:
    """Sanitize ``text`` line by line; only a line feed ends a line."""
    return [clean(line) for line in text.split("\n")]


def shell_line(text: str) -> str:
    """Sanitize a shell command and put it on one line, without removing any quote.

    A quote can be the last character of a control sequence. If it were removed with the sequence,
    the shell where the line is pasted would run quoted text as a command.
    """
    return clean(_CONTROL.sub(UNKNOWN, " ".join(text.splitlines())))


def literal(text: str) -> Content:
    """Sanitize ``text`` as `Content`, for places that would parse a string as markup."""
    return Content(clean(text))
