"""What came from outside, made fit to be drawn: names, messages, events, texts.

Escape sequences, control characters and marks that turn the direction of text never reach the
terminal (`podtui.tui.ansi` knows them all); wide characters stay.
"""

from __future__ import annotations

from podtui.tui.ansi import plain_text


def clean(text: str) -> str:
    """``text`` on one line."""
    if text.isascii() and text.isprintable():
        return text
    return plain_text(" ".join(text.splitlines()).encode(errors="replace"))


def clean_lines(text: str) -> list[str]:
    """``text`` line by line; a line feed alone ends a line."""
    return [clean(line) for line in text.split("\n")]
