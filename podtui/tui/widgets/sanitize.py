"""What came from outside, made fit to be drawn: names, messages, events, texts.

Escape sequences, control characters and marks that turn the direction of text never reach the
terminal (`podtui.terminal_text` knows them all); wide characters stay.
"""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content

from podtui.terminal_text import UNKNOWN, one_line

_OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """``text`` on one line."""
    return one_line(text)


def clean_lines(text: str) -> list[str]:
    """``text`` line by line; a line feed alone ends a line."""
    return [clean(line) for line in text.split("\n")]


def shell_line(text: str) -> str:
    """A line for a shell, on one line: no quote of it is taken out together with a control sequence
    that it ends, else what was quoted would be run where the line is pasted."""
    return clean(_OBEYED.sub(UNKNOWN, " ".join(text.splitlines())))


def literal(text: str) -> Content:
    """``text`` on one line for a border, a label or whatever else would read markup in it."""
    return Content(clean(text))
