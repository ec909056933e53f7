"""Keys first: drawing that no key has caused waits until the effect of a key is drawn."""

from __future__ import annotations

import math
from typing import Final

KEYS_FIRST_SECONDS: Final = 0.03
"""Seconds after a key press in which drawing its effect has priority."""


def delay_for_keys(idle: float, waited: float = 0.0, max_delay: float = math.inf) -> float:
    """Return the seconds that other drawing still waits, 0 if it is due.

    ``idle`` is the time since the last key press, ``waited`` the time since the last drawing. After
    ``max_delay`` it is due in any case, since the user may hold a key down.
    """
    return max(0.0, KEYS_FIRST_SECONDS - idle) if waited < max_delay else 0.0
