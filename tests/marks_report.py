"""Which tests cover which acceptance cases, pod fields and rows of the comparison with peers, and
how they ended.

``pytest --marks-report=FILE`` writes it as JSON; ``scripts/coverage_docs.py`` turns the reports of
a whole run into ``docs/conformance.md`` and ``docs/pod-fields.md``, ``scripts/comparison_docs.py``
into ``docs/comparison.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

PROPERTY: Final = "podtui-marks"
ANSWERS: Final = ("honoured", "no-effect", "refused")


def note_marks(item: pytest.Item) -> None:
    """Carry the marks of a test in its report, also from a worker process.

    Raises `pytest.UsageError` for a mark that says nothing usable.
    """
    cases: list[int] = []
    for mark in item.iter_markers("case"):
        if not mark.args or not all(isinstance(number, int) for number in mark.args):
            raise pytest.UsageError(f"{item.nodeid}: case wants numbers")
        cases += mark.args
    fields: dict[str, str] = {}
    for mark in item.iter_markers("field"):
        answer = mark.kwargs.get("answer")
        if answer not in ANSWERS or not mark.args:
            raise pytest.UsageError(f"{item.nodeid}: field wants paths and answer= {ANSWERS}")
        fields |= dict.fromkeys(mark.args, answer)
    rows: set[str] = set()
    for mark in item.iter_markers("compares"):
        if not mark.args or not all(isinstance(row, str) for row in mark.args):
            raise pytest.UsageError(f"{item.nodeid}: compares wants ids of rows")
        rows.update(mark.args)
    if cases or fields or rows:
        said = {"cases": sorted(set(cases)), "fields": fields, "compares": sorted(rows)}
        text = json.dumps(said)
        item.user_properties.append((PROPERTY, text))


class MarksReport:
    """Gathers what the tests say; the worst outcome of a test's runs counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marks = dict(report.user_properties).get(PROPERTY)
        if marks is None or (report.when != "call" and report.outcome == "passed"):
            return
        node = report.nodeid.partition("[")[0]
        new = {"cases": [], "fields": {}, "compares": [], "outcome": "passed"}
        entry = self._found.setdefault(node, new)
        said = json.loads(str(marks))
        for kind in ("cases", "compares"):
            entry[kind] = sorted({*entry[kind], *said[kind]})  # type: ignore[misc]
        entry["fields"] = {**entry["fields"], **said["fields"]}  # type: ignore[dict-item]
        if report.outcome == "failed" or entry["outcome"] == "passed":
            entry["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._found, indent=1, sort_keys=True) + "\n")
