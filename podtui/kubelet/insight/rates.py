"""From counters to rates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

LEAST_SECONDS: Final = 0.1
"""Two looks closer than this tell nothing: any jitter between them would be a giant rate."""


@dataclass(frozen=True, slots=True)
class Reading:
    value: int
    at: datetime


def rate(before: Reading | None, now: Reading) -> float | None:
    """Units each second. None where there is nothing to tell: before the second look, for looks
    too close, and for a counter that went back because what it counts has begun anew."""
    if before is None or now.value < before.value:
        return None
    elapsed = (now.at - before.at).total_seconds()
    return (now.value - before.value) / elapsed if elapsed >= LEAST_SECONDS else None
