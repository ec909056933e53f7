"""The pace of a log view: when a frame is drawn, and how long its background work runs at once."""

from __future__ import annotations

from typing import Final

from podtui.tui.widgets.keys_first import delay_for_keys

FRAME_SECONDS: Final = 1 / 15
MAX_FRAME_LINES: Final = 250
"""New lines per frame that can still be read: with more, drawing every frame would only delay the
lines."""
FLOOD_FRAME_SECONDS: Final = 1 / 4
MAX_DELAY_SECONDS: Final = 0.5
"""Maximum delay of a frame by keys: the user may hold a key down."""
SLICE_SECONDS: Final = 0.004
"""Seconds of filtering, searching and counting before the event loop may handle keys again."""
PAUSE_SECONDS: Final = 0.001
"""Seconds left to other tasks between two slices."""
TYPING_SECONDS: Final = 0.12
"""Seconds after a key in which another key is likely. During this time slices are short: a search
blocks the threads that read keys and write to the terminal."""
TYPING_SLICE_SECONDS: Final = 0.0015
TYPING_PAUSE_SECONDS: Final = 0.005


class FramePace:
    """Decides which frames are drawn, from the new lines and from the time of the last frame."""

    def __init__(self) -> None:
        self._new_lines = 0
        self._drawn_at = 0.0

    def add(self, lines: int) -> None:
        """Count new lines."""
        self._new_lines += lines

    def takes(self, now: float, idle: float) -> bool:
        """Return whether to draw a frame now. ``idle`` is the time since the last key press."""
        waited = now - self._drawn_at
        if delay_for_keys(idle, waited, MAX_DELAY_SECONDS):
            return False
        if self._new_lines >= MAX_FRAME_LINES and waited < FLOOD_FRAME_SECONDS:
            return False
        self._new_lines, self._drawn_at = 0, now
        return True


def slice_seconds(idle: float) -> float:
    """Return how long background work may block the event loop."""
    return SLICE_SECONDS if idle >= TYPING_SECONDS else TYPING_SLICE_SECONDS


def pause_seconds(idle: float) -> float:
    """Return how long background work pauses between two slices."""
    if idle >= TYPING_SECONDS:
        return PAUSE_SECONDS
    return max(TYPING_PAUSE_SECONDS, delay_for_keys(idle))
