"""The current match of a search in a log, and the search as it is typed."""

from __future__ import annotations

from collections.abc import Callable

from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.viewport import Anchor


class MatchCursor:
    """The number of the current match, and of all matches found so far.

    A search is typed in the prompt: with each key, the view goes to the first match from the line
    where the search began, and back there when the prompt is cancelled.
    """

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.count: int = 0
        self.number: int = 0
        """The number of the current match, from 1; 0 for none."""
        self.seeking = False
        """True if the view moves to the first match as soon as the search finds it."""
        self.anchor: Anchor | None = None
        """The position of the view where the search began; None while following."""
        self.line: int | None = None
        """The cursor line where the search began; None while following."""

    @property
    def searching(self) -> bool:
        return self._lines.pattern is not None

    def clear(self) -> None:
        """Forget all matches; a search goes on with new lines."""
        self.count = self.number = 0

    def begin(self, anchor: Anchor | None, line: int | None) -> None:
        """Remember the position where a search begins."""
        self.anchor, self.line = anchor, line

    def end(self) -> bool:
        """Stop seeking. Returns True if the line where the search began is a match, which is then
        the current one.
        """
        self.seeking = False
        matches = self._lines.found
        if matches is None or self.line is None or self.line not in matches:
            return False
        self.count, self.number = matches.count, matches.rank(self.line) + 1
        return True

    def move(self, moved: Callable[[int], int]) -> None:
        """Follow lines that got other sequence numbers; ``moved`` returns the new ones."""
        if self.anchor is not None:
            self.anchor = Anchor(moved(self.anchor.line), self.anchor.offset)
        if self.line is not None:
            self.line = moved(self.line)

    def seek(self, cursor: int | None) -> int | None:
        """Return the line of the first match at or below the line where the search began, in a
        circle. Returns None if there is none, or if the cursor is there already.
        """
        matches = self._lines.found
        if not self.seeking or matches is None:
            return None
        # The newest lines are searched first: an earlier match may still be found.
        self.seeking = self._lines.progress < 1
        if not matches.count:
            return None
        first = self._lines.buffer.first
        rank = matches.rank(first if self.line is None else max(self.line, first)) % matches.count
        target = matches.at(rank)
        if target == cursor and self.number == rank + 1:
            return None
        self.count, self.number = matches.count, rank + 1
        return target

    def step(self, line: int | None, *, forward: bool) -> int | None:
        """Return the next or previous match from ``line``, in a circle; without a search, the next
        line that passed the filter. Returns None if there is none. Ends the seeking.
        """
        self.seeking = False
        targets = self._lines.found or self._lines.rows.shown
        if line is None or targets is None or not targets.count:
            return None
        rank = targets.rank(line)
        # The first step of a search may select the current line itself.
        leaves = line in targets and bool(self.number or not self.searching)
        if forward:
            rank += leaves
        elif leaves or line not in targets:
            rank -= 1
        rank %= targets.count
        self.number = rank + 1 if self.searching else 0
        return targets.at(rank)

    def recount(self, cursor: int | None) -> bool:
        """Count the matches again after work on the search. Returns True if the count may have
        changed.
        """
        matches = self._lines.found
        count = matches.count if matches is not None else 0
        if count == self.count and self._lines.progress >= 1:
            return False
        self.count, self.number = count, min(self.number, count)
        if matches is not None and self.number and cursor is not None:
            self.number = matches.rank(cursor) + 1
        return True
