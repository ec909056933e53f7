"""The time spans of plots, selected by keys."""

from __future__ import annotations

from typing import Final

SPANS: Final = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0, "7d": 604800.0}
"""Seconds by name, shortest first."""
USUAL: Final = "1h"


def other_span(name: str, step: int) -> str:
    """Return the name of the span ``step`` places further, limited to the first and last span."""
    names = list(SPANS)
    return names[max(0, min(len(names) - 1, names.index(name) + step))]
