"""Sets of completion indexes, compared with sets of numbers."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.controllers.job_indexes import Indexes

SETS = st.sets(st.integers(0, 30))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0,1"), ((0, 1, 2, 5, 7, 8), "0-2,5,7,8")],
)
def test_the_text_joins_three_neighbours(indexes: tuple[int, ...], text: str) -> None:
    assert str(Indexes.of(indexes)) == text
    assert Indexes.parse(text, 100) == Indexes.of(indexes)


def test_parsing_leaves_out_what_is_no_index_of_the_job() -> None:
    assert str(Indexes.parse("0-3,x,5-y,7-20,40", 10)) == "0-3,7-9"
    assert Indexes.parse("0-2000000000", 2**31).total == 2_000_000_001


@given(SETS, SETS)
@examples(200)
def test_indexes_are_sets_of_numbers(first: set[int], second: set[int]) -> None:
    one, other = Indexes.of(first), Indexes.of(second)
    assert (one | other) == Indexes.of(first | second)
    assert one.common(other) == len(first & second)
    assert one.total == len(first)
    assert {index for index in range(40) if index in one} == first
    assert one.missing(25, 7) == [index for index in range(25) if index not in first][:7]
    assert Indexes.parse(str(one), 31) == one
