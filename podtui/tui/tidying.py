"""Schedule garbage collection: a full collection blocks the event loop while it traverses all
objects.

With a thousand pods that takes a tenth of a second, and Python would do it after a number of
allocations: while the user types, once a second. Here it waits for a moment without keys, as long
as possible. Objects that survive a collection are frozen: most of them stay alive, and most of the
others are freed by reference counting. Garbage among the frozen objects is collected in a long
pause.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

QUIET: Final = 1.0
"""Seconds without a key after which a collection may block."""
MIDDLE: Final = 3
"""Collections of the youngest generation between two of the middle one. With Python's default of
10, a middle collection takes longer than a key should wait.
"""
DUE: Final = 30
"""Middle collections after which a full collection is due in a quiet moment."""
OVERDUE: Final = 1200
"""Middle collections after which a full collection runs even while the user types."""
PAUSE: Final = 30.0
"""Seconds without a key after which the frozen objects are collected as well."""
AGAIN: Final = 600.0
"""Minimum seconds between two collections of the frozen objects, which take longest."""
NEVER: Final = 1 << 30


def is_due(looks: int, idle: float) -> bool:
    """Return whether a full collection is due. ``looks`` counts the middle collections since the
    last one; ``idle`` is seconds since the last key.
    """
    return looks >= OVERDUE or (looks >= DUE and idle >= QUIET)


def take_over() -> None:
    """Disable Python's automatic full collections; those of the younger generations stay on."""
    gc.set_threshold(gc.get_threshold()[0], MIDDLE, NEVER)


class Tidying:
    """The collection schedule, polled once a second. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._touched = self._looked_again = clock()

    def touched(self) -> None:
        """Record a key or mouse event."""
        self._touched = self._clock()

    @property
    def idle(self) -> float:
        """Seconds since the last key or mouse event."""
        return self._clock() - self._touched

    def look(self) -> bool:
        """Run a full collection if one is due; return whether it ran."""
        now, idle = self._clock(), self.idle
        if not is_due(gc.get_count()[2], idle):
            return False
        if idle >= PAUSE and now - self._looked_again >= AGAIN:
            self._looked_again = now
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        return True
