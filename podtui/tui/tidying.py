"""When to look for garbage: a full look stops everything, for as long as there are objects.

With a thousand pods that is a tenth of a second, and Python would do it whenever enough was made:
in the middle of typing, once a second. Here it waits for a moment without keys, as long as it can.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

QUIET: Final = 1.0
"""Seconds without a key after which nobody waits for one to be drawn."""
DUE: Final = 10
"""Looks at what is young after which Python would look at everything."""
OVERDUE: Final = 400
"""Looks at what is young after which it is done though somebody types."""
NEVER: Final = 1 << 30


def is_due(looks: int, idle: float) -> bool:
    """Whether to look at everything now. ``looks`` at what is young were made since the last time,
    and for ``idle`` seconds no key was pressed."""
    return looks >= OVERDUE or (looks >= DUE and idle >= QUIET)


def take_over() -> None:
    """Keep Python from looking at everything by itself; what is young it goes on to look at."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


class Tidying:
    """Asked once a second; ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._touched = clock()

    def touched(self) -> None:
        """A key was pressed, or the mouse."""
        self._touched = self._clock()

    def look(self) -> bool:
        """Look for garbage where that is due; whether it was."""
        due = is_due(gc.get_count()[2], self._clock() - self._touched)
        if due:
            gc.collect()
        return due
