"""Tags of the lines in a buffer: the source of a log line, or the kind of another line."""

from __future__ import annotations

from typing import Final

SOURCES: Final = 250
"""Maximum number of logs that one view can merge."""
GAP: Final = 250
"""A remark on lines that are missing at this place."""
RULE: Final = 251
"""A separator between two instances of a container."""
EVENT: Final = 252
EVENT_WARNING: Final = 253
EVENTS: Final = (EVENT, EVENT_WARNING)


def is_log(tag: int) -> bool:
    return tag < SOURCES
