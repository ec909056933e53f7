"""The comparison with peers says of podtui nothing that no test showed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from comparison_docs import (
    DATA,
    comparison_document,
    proofs_by_row,
    read_rows,
)
from coverage_docs import Proof, read_reports
from marks_report import MarksReport, note_marks

CELLS = """
[[sections]]
title = "One"
[sections.rows.a]
feature = "A | b"
k9s = "yes"
lazydocker = "–"
podman = "?"
podtui = "partly"
words = "`x|y`"
[[sections]]
title = "Two"
[sections.rows.b]
feature = "B"
k9s = "yes"
lazydocker = "yes"
podman = "yes"
podtui = "no"
words = "another program"
"""
TEXT = 'head = "Head."\ntail = "Tail."\n' + CELLS


def proof(name: str, *rows: str, outcome: str = "passed") -> Proof:
    return Proof(f"tests/test_x.py::{name}", (), {}, outcome, rows)


def problems(*proofs: Proof) -> list[str]:
    return proofs_by_row(read_rows(TEXT), proofs)[1]


def test_the_committed_rows_can_be_read() -> None:
    rows = read_rows((DATA / "comparison.toml").read_text()).rows
    assert {row.answer for row in rows} == {"yes", "partly", "no"}
    assert len(rows) >= 77, "none of the reference's rows is left out"


def test_a_row_that_is_proved_is_no_problem() -> None:
    assert problems(proof("test_one", "a")) == []
    assert problems(proof("test_one", "a", outcome="skipped"), proof("test_two", "a")) == []


@pytest.mark.parametrize(
    ("proofs", "problem"),
    [
        ((), "row a says partly, and no test that passed proves it"),
        (
            (proof("test_one", "a", outcome="skipped"),),
            "row a says partly, and no test that passed proves it",
        ),
        (
            (proof("test_one", "a"), proof("test_two", "a", outcome="failed")),
            "row a: tests/test_x.py::test_two failed",
        ),
        (
            (proof("test_one", "a"), proof("test_two", "c")),
            "tests/test_x.py::test_two: no such row of the comparison: c",
        ),
        (
            (proof("test_one", "a", "b"),),
            "row b says no, yet tests/test_x.py::test_one proves something of it",
        ),
    ],
)
def test_what_is_not_proved_is_told(proofs: tuple[Proof, ...], problem: str) -> None:
    assert problems(*proofs) == [problem]


def test_the_document_has_each_row_with_its_tests() -> None:
    comparison = read_rows(TEXT)
    tests = [proof(f"test_{n}", "a") for n in range(5)]
    found, _ = proofs_by_row(comparison, tests)
    lines = comparison_document(comparison, found).splitlines()
    links = ", ".join(f"[test_{n}](../tests/test_x.py)" for n in range(3))
    assert f"| A \\| b | yes | – | ? | **partly**: `x\\|y` | {links} and 2 more |" in lines
    assert "| B | yes | yes | yes | **no**: another program | – |" in lines
    assert "Of 2 rows podtui has 0 wholly, 1 partly, 1 not at all." in lines
    assert (lines[2], lines[-1]) == ("Head.", "Tail.")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('k9s = "yes"\n', "", "a: wants"),
        ('podman = "?"', 'podman = ""', "a: wants"),
        ('podtui = "no"', 'podtui = "perhaps"', "b: podtui is one of"),
        ("rows.b", "rows.a", "ids used twice: a"),
    ],
)
def test_rows_that_are_wrong_are_refused(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=words):
        read_rows(TEXT.replace(old, new, 1))


class Item:
    """As much of a test as its marks need."""

    nodeid = "tests/test_x.py::test_one[a]"

    def __init__(self, *marks: pytest.Mark) -> None:
        self.marks = marks
        self.user_properties: list[tuple[str, object]] = []

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if mark.name == name)


def test_marks_come_through_the_report(tmp_path: Path) -> None:
    report = MarksReport(tmp_path / "marks.json")
    for rows, outcome in ((("a",), "passed"), (("b", "a"), "skipped")):
        item = Item(pytest.mark.compares(*rows).mark)
        note_marks(item)  # type: ignore[arg-type]
        report.pytest_runtest_logreport(
            pytest.TestReport(
                item.nodeid,
                ("", 0, ""),
                {},
                outcome,
                None,
                "call",
                user_properties=item.user_properties,
            )
        )
    report.pytest_sessionfinish()
    (found,) = read_reports([tmp_path / "marks.json"])
    assert (found.node, found.compares) == ("tests/test_x.py::test_one", ("a", "b"))


@pytest.mark.parametrize("rows", [(), (1,)])
def test_a_mark_without_rows_is_refused(rows: tuple[object, ...]) -> None:
    with pytest.raises(pytest.UsageError, match="compares wants ids of rows"):
        note_marks(Item(pytest.mark.compares(*rows).mark))  # type: ignore[arg-type]
