"""Completion in the prompt: commands; in filters, column names and existing values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from textual.suggester import Suggester

from podtui.tui.widgets.cells import Column
from podtui.tui.widgets.filters import column_named

Complete = Callable[[str], str | None]
_HALF: Final = re.compile(r"(%?[A-Za-z][\w./-]*)(=|!=)(.+)")


class Completer(Suggester):
    """A suggester that calls a function. Nothing is cached, since completions change with the
    pods.
    """

    def __init__(self, complete: Complete) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return self._complete(value)


def complete_command(text: str, words: Iterable[str]) -> str | None:
    """Return the first of ``words`` that begins with ``text``."""
    lower = text.lower()
    return next((text + w[len(text) :] for w in words if w.lower().startswith(lower)), None)


def complete_filter(
    text: str, columns: Sequence[Column], values: Callable[[int], Iterable[object]]
) -> str | None:
    """Return ``text`` with its last word completed. ``values`` returns the values of a column,
    given its index.
    """
    last = text[text.rfind(" ") + 1 :]
    half = _HALF.fullmatch(last)
    if half is None:
        names = (name for column in columns for name in column.names)
        return _continued(text, last, names) if len(last) > 1 else None
    place = column_named(half.group(1), columns)
    if place is None:
        return None
    found = sorted({str(v) for v in values(place) if isinstance(v, str) and " " not in v})
    return _continued(text, half.group(3), found)


def _continued(text: str, last: str, candidates: Iterable[str]) -> str | None:
    for candidate in candidates:
        if candidate.startswith(last) and candidate != last:
            return text + candidate[len(last) :]
    return None
