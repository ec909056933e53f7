"""Texts that are designed to take long."""

from __future__ import annotations

import time

import pytest
from manifests import diagnostics


@pytest.mark.parametrize(
    "piece", ["{{", "{{ ", "<<<<<<< a\n", "{% ", "A=", "# a\n", "[a]", "\n- a"]
)
def test_no_text_takes_quadratic_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    before = time.process_time()
    diagnostics(text)
    once = time.process_time() - before
    before = time.process_time()
    diagnostics(text * 2)
    # Quadratic time would be four times as long, and seconds.
    assert time.process_time() - before < 3 * once + 0.5
