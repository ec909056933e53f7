"""The characters that may not reach a terminal."""

from __future__ import annotations

import unicodedata


def control_characters(text: str) -> list[str]:
    """Return the characters of a text that are control sequences for a terminal or change the
    text direction.
    """
    return [
        ascii(c)
        for c in text
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI")
    ]
