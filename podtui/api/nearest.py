"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

MAYBE: Final = 0.6
"""The default similarity that a suggestion needs."""
_LONGEST: Final = 64


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def closest(name: str, known: Iterable[str], cutoff: float = MAYBE) -> str:
    """Return the most similar known name; empty if none is similar enough."""
    if len(name) > _LONGEST:
        return ""
    names = {_folded(candidate): candidate for candidate in known}
    folded = _folded(name)
    if folded in names:
        return names[folded]
    found = difflib.get_close_matches(folded, names, n=1, cutoff=cutoff)
    return names[found[0]] if found else ""
