"""The node usage of the last minutes, recorded while the screen is open."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from podtui.tui.model.usage import Usage

KEPT: Final = 1200
"""Maximum number of samples: one hour at one sample every three seconds."""


class Sample(Struct, frozen=True):
    """Usage ``at`` a time (Unix seconds): ``cpu`` in millicores, ``memory`` in bytes."""

    at: float
    cpu: int
    memory: int


class NodeHistory:
    """Samples, oldest first, limited to the newest `KEPT`."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)

    def add(self, at: float, usage: Usage) -> None:
        """Add a sample, unless it is not newer than the last one."""
        if not self.samples or at > self.samples[-1].at:
            self.samples.append(Sample(at, usage.cpu, usage.memory))
