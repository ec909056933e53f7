from __future__ import annotations

import math

from podtui.tui.views.logs.pace import (
    FLOOD_FRAME_SECONDS,
    FRAME_SECONDS,
    MAX_DELAY_SECONDS,
    MAX_FRAME_LINES,
    TYPING_SECONDS,
    FramePace,
    pause_seconds,
    slice_seconds,
)
from podtui.tui.widgets.keys_first import KEYS_FIRST_SECONDS

START = 1_000.0


def drawn(pace: FramePace, *, lines: int, idle: float = math.inf, seconds: float = 2.0) -> int:
    """Return the number of frames drawn while each brings new lines."""
    count = 0
    for frame in range(round(seconds / FRAME_SECONDS)):
        pace.add(lines)
        count += pace.takes(START + frame * FRAME_SECONDS, idle)
    return count


def test_every_frame_is_drawn_unless_its_lines_are_too_many_to_read() -> None:
    assert drawn(FramePace(), lines=MAX_FRAME_LINES - 1) == 30
    slow = drawn(FramePace(), lines=MAX_FRAME_LINES)
    assert 2 / FLOOD_FRAME_SECONDS - 1 <= slow <= 2 / FLOOD_FRAME_SECONDS + 1


def test_a_key_that_is_held_down_delays_frames_only_up_to_the_limit() -> None:
    pace = FramePace()
    assert pace.takes(START, math.inf)
    assert not pace.takes(START + MAX_DELAY_SECONDS - 0.01, 0.0)
    assert pace.takes(START + MAX_DELAY_SECONDS, 0.0)
    assert not pace.takes(START + MAX_DELAY_SECONDS + 0.01, 0.0)
    assert pace.takes(START + MAX_DELAY_SECONDS + 0.01, KEYS_FIRST_SECONDS)


def test_background_work_leaves_more_time_to_other_tasks_while_the_user_types() -> None:
    typing, resting = TYPING_SECONDS / 2, TYPING_SECONDS
    assert slice_seconds(typing) < slice_seconds(resting)
    assert pause_seconds(typing) > pause_seconds(resting)
    assert pause_seconds(0.0) == KEYS_FIRST_SECONDS, "the effect of a key is drawn first"
