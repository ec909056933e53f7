"""What the node used over the last minutes, as far as a screen was there to see it."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from podtui.tui.pods.usage import Usage

KEPT: Final = 1200
"""Samples; an hour at one in three seconds."""


class Sample(Struct, frozen=True):
    """``at`` in Unix seconds; ``cpu`` in milli cores, ``memory`` in bytes."""

    at: float
    cpu: int
    memory: int


class NodeHistory:
    """Samples, oldest first; the oldest go when there are too many."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)

    def add(self, at: float, usage: Usage) -> None:
        """One that is not newer than the last is known already."""
        if not self.samples or at > self.samples[-1].at:
            self.samples.append(Sample(at, usage.cpu, usage.memory))
