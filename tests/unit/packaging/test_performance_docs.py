"""The performance page: tables are replaced, prose is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import ALL, TARGET
from benchmarks.beside import cost_rows, epoch, shares
from benchmarks.following import gaps
from benchmarks.report import Absent, Row, markdown, replaced, row

PAGE = """\
# Page
Before.
<!-- figures: a -->
old
<!-- end of a -->
Between.
<!-- figures: b -->
<!-- end of b -->
After.
"""


def test_figures_replace_only_their_block() -> None:
    once = replaced(PAGE, "a", "new")
    assert "old" not in once
    assert once.index("Before.") < once.index("new") < once.index("Between.")
    assert replaced(once, "a", "new") == once, "a second run changes nothing"
    assert replaced(once, "b", "more").replace("\n\nmore\n\n", "\n") == once


@pytest.mark.parametrize("name", ["c", "a -->"])
def test_figures_without_a_block_are_refused(name: str) -> None:
    with pytest.raises(LookupError):
        replaced(PAGE, name, "new")


@pytest.mark.parametrize("name", ALL)
def test_each_benchmark_has_its_block(name: str) -> None:
    text = Path(TARGET).read_text(encoding="utf-8")
    assert "new figures" in replaced(text, name, "new figures")


def test_a_row_shows_whether_its_bound_held() -> None:
    held = row("a", [1.0, 2.0, 3.0], "s", floor=[2.0], floor_name="bare", bound=1.0)
    missed = row("b", [3.0], "s", bound=2.0)
    assert (held.ratio, held.verdict, missed.verdict) == (1.0, "held", "MISSED")
    table = markdown([held, Absent("c", "not here"), missed])
    assert [line.split("|")[1].strip() for line in table.splitlines()] == [
        "what", "-" * 4, "a", "c", "b",
    ]  # fmt: skip
    assert "not here" in table


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], 0), ([0, 1, 2], 0), ([0, 2], 1), ([2, 3], 2), ([0, 1, 1, 2], 1), ([0, 2, 1, 3], 1)],
)
def test_lost_lines_are_counted(numbers: list[int], expected: int) -> None:
    assert gaps(numbers) == expected


def test_the_cost_of_two_processes_is_listed_and_summed() -> None:
    cost = shares({"screen": 1.0, "agent": 4.0}, {"screen": 1.5, "agent": 4.25}, 10.0)
    assert cost == {"screen": 5.0, "agent": 2.5}
    rows = [found for found in cost_rows("podtui", "CPU", cost, "%") if isinstance(found, Row)]
    assert [found.name for found in rows] == [
        "podtui, the screen: CPU", "podtui, the agent: CPU", "podtui, screen and agent: CPU",
    ]  # fmt: skip
    assert [found.value for found in rows] == [5.0, 2.5, 7.5]


def test_one_process_is_compared_with_the_sum_of_the_others() -> None:
    (found,) = cost_rows("peer", "CPU", {"screen": 8.0}, "%", {"screen": 3.0, "agent": 1.0})
    assert isinstance(found, Row)
    assert (found.name, found.floor, found.ratio) == ("peer: CPU", 4.0, 2.0)


def test_the_engines_timestamp_is_parsed_as_utc() -> None:
    assert epoch(b"1970-01-01T00:01:00.250000999Z number=0") == 60.25
