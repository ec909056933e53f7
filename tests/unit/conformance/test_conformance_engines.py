"""The golden cases that an engine cannot run, by its missing capabilities."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.__main__ import unavailable
from conformance.golden import load
from podtui.runtime.memory.engine import SIMULATED


@pytest.mark.parametrize(
    ("fields", "cases"),
    [
        ({}, set()),
        ({"supports_memory_limit": False, "reports_oom": False}, {"oom"}),
        ({"reports_oom": False}, {"oom"}),
    ],
)
def test_cases_that_an_engine_cannot_do(fields: dict[str, bool], cases: set[str]) -> None:
    found = unavailable(replace(SIMULATED, **fields))
    assert found.keys() == cases
    assert found.keys() <= {case.name for case in load()}
