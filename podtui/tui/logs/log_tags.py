"""What a line in the buffer is: a line of a log, by its source, or something said between them."""

from __future__ import annotations

from typing import Final

SOURCES: Final = 250
"""Logs that one view can merge."""
GAP: Final = 250
"""Says what is missing at this place."""
RULE: Final = 251
"""Parts two instances of a container."""
EVENT: Final = 252
EVENT_WARNING: Final = 253
EVENTS: Final = (EVENT, EVENT_WARNING)


def is_log(tag: int) -> bool:
    return tag < SOURCES
