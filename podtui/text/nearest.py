"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

MAYBE: Final = 0.6
"""The default similarity that a suggestion needs."""
SURE: Final = 0.82
"""The similarity of a typing error, as opposed to a guess."""
_MARGIN: Final = 0.05
"""The minimum difference in similarity between the sure name and the next one."""
_LONGEST: Final = 64
_SHORTEST: Final = 4
"""Shorter names that differ in one letter are usually different names."""
_DIGITS: Final = re.compile("[0-9]+")


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def closest(name: str, candidates: Iterable[str], cutoff: float = MAYBE) -> str:
    """Return the most similar candidate; empty if none is similar enough."""
    if len(name) > _LONGEST:
        return ""
    names = {_folded(candidate): candidate for candidate in candidates}
    folded = _folded(name)
    if folded in names:
        return names[folded]
    matches = difflib.get_close_matches(folded, names, n=1, cutoff=cutoff)
    return names[matches[0]] if matches else ""


def meant(name: str, candidates: Iterable[str]) -> str:
    """Return the name that ``name`` spells with a typing error; empty if several are similar, or if
    the numbers in them differ: ``data-2`` is not ``data-3``."""
    if len(name) > _LONGEST:
        return ""
    folded, digits = _folded(name), _DIGITS.findall(name)
    names: dict[str, list[str]] = {}
    for candidate in candidates:
        if _DIGITS.findall(candidate) == digits:
            names.setdefault(_folded(candidate), []).append(candidate)
    if folded in names:
        return names[folded][0] if len(names[folded]) == 1 else ""
    near = set(difflib.get_close_matches(folded, names, n=2, cutoff=SURE))
    near.update(other for other in names if _is_slip(folded, other))
    ratios = sorted(((_ratio(folded, other), other) for other in near), reverse=True)
    ambiguous = len(ratios) > 1 and ratios[1][0] > ratios[0][0] - _MARGIN
    return names[ratios[0][1]][0] if ratios and not ambiguous else ""


def _is_slip(name: str, other: str) -> bool:
    """Return whether one letter is wrong, missing or too many, or two are exchanged."""
    if abs(len(name) - len(other)) > 1 or min(len(name), len(other)) < _SHORTEST:
        return False
    a, b = _without_common_start(name, other)
    a, b = _without_common_start(a[::-1], b[::-1])
    return max(len(a), len(b)) <= 1 or (len(a) == 2 and a == b[::-1])


def _without_common_start(name: str, other: str) -> tuple[str, str]:
    count = 0
    while name[count : count + 1] == other[count : count + 1] != "":
        count += 1
    return name[count:], other[count:]


def _ratio(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return a sentence with the name that was probably meant: a question if it is a typing error,
    which podtui can correct, and otherwise a guess. Empty if none is similar."""
    names = tuple(candidates)
    sure = meant(name, names)
    guess = sure or closest(name, names)
    return f'did you mean "{sure}"?' if sure else f'perhaps "{guess}" is meant' if guess else ""
