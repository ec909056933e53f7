"""Compute rates from counters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

LEAST_SECONDS: Final = 0.1
"""Minimum distance of two readings: with less, jitter would cause giant rates."""


@dataclass(frozen=True, slots=True)
class Reading:
    value: int
    at: datetime


def rate(before: Reading | None, now: Reading) -> float | None:
    """Return units per second. Return None before the second reading, if the readings are too
    close, or if the counter decreased because it was reset."""
    if before is None or now.value < before.value:
        return None
    elapsed = (now.at - before.at).total_seconds()
    return (now.value - before.value) / elapsed if elapsed >= LEAST_SECONDS else None
