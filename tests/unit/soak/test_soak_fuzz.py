"""The inputs of the soak test, and each response parser with one input of each kind."""

from __future__ import annotations

from copy import deepcopy

from soak.fuzz import LANES, NAMES, TARGETS, edited, edited_tree
from soak.report import Result, markdown

RECIPE = bytes(range(64))


def test_the_same_recipe_gives_the_same_inputs() -> None:
    first = list(edited(b"kind: Pod\nspec: {}\n", RECIPE))
    assert first == list(edited(b"kind: Pod\nspec: {}\n", RECIPE))
    assert len(first) == 16
    assert len(set(first)) > 8


def test_a_tree_is_edited_in_place_and_restored() -> None:
    tree = {"a": [1, {"b": 2}], "c": "d"}
    kept = deepcopy(tree)
    assert any(one != kept for one in edited_tree(tree, RECIPE))
    assert tree == kept


def test_three_million_inputs_are_split_completely() -> None:
    assert sum(target.inputs for target in TARGETS) >= 3_000_000
    assert sorted(name for lane in LANES for name in lane) == sorted(NAMES)


def test_timeouts_and_failures_are_reported() -> None:
    def row(done: int, problem: str = "") -> str:
        result = Result(
            name="a", title="A", unit="kills", done=done, planned=9, seconds=1.0, problem=problem
        )
        return markdown([result]).splitlines()[-1]

    assert row(9) == "| A | 9 kills |  | held | 1 s |"
    assert "4 of 9 kills" in row(4)
    assert "stopped by the time limit" in row(4)
    assert "BROKEN" in row(9, "it fell over")
