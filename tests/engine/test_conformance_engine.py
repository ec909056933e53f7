"""Every golden case on the real engine, by default and under ``kubeletStrict``."""

from __future__ import annotations

import pytest

from conformance.golden import ROOT, load
from conformance.report import MODES, document
from conformance.run import Found, run

CASES = load()
NAMES = [case.name for case in CASES]


@pytest.fixture(scope="module")
def found() -> Found:
    """Run all cases once for all tests: they wait for their times in parallel."""
    return run(CASES, MODES)


@pytest.mark.parametrize("mode", range(len(MODES)), ids=MODES)
@pytest.mark.parametrize("case", NAMES)
def test_a_case_agrees_or_departs_as_listed(found: Found, case: str, mode: int) -> None:
    result = found.results[case][mode]
    assert result.passed, "\n".join((result.verdict, *map(str, result.bad)))


def test_the_record_of_the_node_agrees(found: Found) -> None:
    assert found.node == ()


def test_the_document_lists_the_results(found: Found) -> None:
    text = (ROOT / "docs" / "golden.md").read_text()
    assert text == document(found.results, found.node), "run make conformance WRITE=1"
