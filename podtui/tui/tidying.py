"""When to look for garbage: a full look stops everything, for as long as there are objects.

With a thousand pods that is a tenth of a second, and Python would do it whenever enough was made:
in the middle of typing, once a second. Here it waits for a moment without keys, as long as it can,
and what it has looked at it leaves alone from then on: nearly all of that stays, and most of what
goes needs nobody to look for it. What does is found in a long pause.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

QUIET: Final = 1.0
"""Seconds without a key after which nobody waits for one to be drawn."""
MIDDLE: Final = 3
"""Looks at the youngest after which those that stayed are looked at once more: with Python's own 10
that takes longer than a key should wait."""
DUE: Final = 30
"""Such looks after which it is time to look at everything."""
OVERDUE: Final = 1200
"""Such looks after which it is done though somebody types."""
PAUSE: Final = 30.0
"""Seconds without a key after which what was left alone is looked at too."""
AGAIN: Final = 600.0
"""Seconds between two such looks: they take longest."""
NEVER: Final = 1 << 30


def is_due(looks: int, idle: float) -> bool:
    """Whether to look at everything now. ``looks`` at what is young were made since the last time,
    and for ``idle`` seconds no key was pressed."""
    return looks >= OVERDUE or (looks >= DUE and idle >= QUIET)


def take_over() -> None:
    """Keep Python from looking at everything by itself; what is young it goes on to look at."""
    gc.set_threshold(gc.get_threshold()[0], MIDDLE, NEVER)


class Tidying:
    """Asked once a second; ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._touched = self._looked_again = clock()

    def touched(self) -> None:
        """A key was pressed, or the mouse."""
        self._touched = self._clock()

    @property
    def idle(self) -> float:
        """Seconds since then."""
        return self._clock() - self._touched

    def look(self) -> bool:
        """Look for garbage where that is due; whether it was."""
        now, idle = self._clock(), self.idle
        if not is_due(gc.get_count()[2], idle):
            return False
        if idle >= PAUSE and now - self._looked_again >= AGAIN:
            self._looked_again = now
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        return True
