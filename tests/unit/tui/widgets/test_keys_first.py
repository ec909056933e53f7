from __future__ import annotations

import math

import pytest

from podtui.tui.widgets.keys_first import KEYS_FIRST_SECONDS, delay_for_keys


def test_drawing_waits_for_the_rest_of_the_time_after_a_key() -> None:
    assert delay_for_keys(0.0) == KEYS_FIRST_SECONDS
    assert delay_for_keys(0.01) == pytest.approx(KEYS_FIRST_SECONDS - 0.01)
    assert delay_for_keys(KEYS_FIRST_SECONDS) == 0
    assert delay_for_keys(math.inf) == 0


def test_a_key_that_is_held_down_delays_drawing_only_up_to_the_limit() -> None:
    assert delay_for_keys(0.0, waited=0.29, max_delay=0.3) > 0
    assert delay_for_keys(0.0, waited=0.3, max_delay=0.3) == 0
