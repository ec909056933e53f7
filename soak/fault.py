"""A fault, and its steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from soak.invariants import Excuse
from soak.world import World

NONE: Final = Excuse()


@dataclass(frozen=True, slots=True)
class Step:
    """``count`` injections were made; the invariants are checked with ``excuse``."""

    count: int
    excuse: Excuse = NONE


Steps = Generator[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``full`` and ``short`` are the numbers of injections in the two modes, ``seconds`` the time
    limit of the full mode. ``checked`` describes what is checked besides the invariants."""

    name: str
    title: str
    unit: str
    run: Callable[[World, random.Random, int], Steps]
    full: int
    short: int
    seconds: float
    checked: str = ""
    pods: int = 6
    engine_ends: bool = False
    """True if the engine's event stream, and with it the count of starts, ends with the fault."""
    ends_itself: bool = False
    """True if ``run`` ends when ``World.expired``, after it has removed what it created."""
