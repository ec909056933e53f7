"""k9s' filter grammar: a regular expression, ``!`` for what it does not match, ``-l`` for labels,
``-f`` for letters in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from podtui.errors import UsageError

Matches = Callable[[str, Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """``text`` as it was typed; empty matches everything."""

    text: str
    matches: Matches


def _everything(search: str, labels: Mapping[str, str]) -> bool:
    return True


ALL = Filter("", _everything)


def parse_filter(text: str) -> Filter:
    """Raises `UsageError` where the expression is not one."""
    wanted = text.strip()
    if not wanted or wanted in ("!", "-l", "-f"):
        return ALL
    if wanted.startswith("-l"):
        return Filter(wanted, _labels(wanted[2:].strip()))
    if wanted.startswith("-f"):
        return Filter(wanted, _fuzzy(wanted[2:].strip()))
    inverse = wanted.startswith("!")
    pattern = wanted[1:].strip() if inverse else wanted
    # Small letters find both cases, as in less and vim.
    flags = re.IGNORECASE if pattern == pattern.lower() else 0
    try:
        found = re.compile(pattern, flags).search
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}") from error
    return Filter(wanted, lambda search, labels: (found(search) is None) is inverse)


def _fuzzy(letters: str) -> Matches:
    lower = letters.lower().replace(" ", "")

    def matches(search: str, labels: Mapping[str, str]) -> bool:
        remaining = iter(search.lower())
        return all(letter in remaining for letter in lower)

    return matches


def _labels(selector: str) -> Matches:
    terms = [_term(term.strip()) for term in selector.split(",") if term.strip()]
    return lambda search, labels: all(term(labels) for term in terms)


def _term(term: str) -> Callable[[Mapping[str, str]], bool]:
    if "!=" in term:
        key, _, value = (part.strip() for part in term.partition("!="))
        return lambda labels: labels.get(key) != value
    if "=" in term:
        key, _, value = (part.strip() for part in term.replace("==", "=").partition("="))
        return lambda labels: labels.get(key) == value
    if term.startswith("!"):
        return lambda labels: term[1:].strip() not in labels
    return lambda labels: term in labels
