"""Malformed answers of the engine."""

from __future__ import annotations

from copy import deepcopy

import pytest
from raised_errors import raises_only

from podtui.errors import EngineError
from soak.fuzz import ANSWERS, READERS, places_of


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_malformed_answer_of_the_engine_is_an_engine_error(name: str) -> None:
    """Each value of a recorded response is replaced, and omitted, one at a time."""
    count = len(list(places_of(ANSWERS[name])))
    for number in range(count):
        for value in (None, True, -1, "x", [], {}, [None]):
            tree = deepcopy(ANSWERS[name])
            holder, key = list(places_of(tree))[number]
            holder[key] = value
            for read in READERS[name]:
                with raises_only(EngineError):
                    read(tree)
        tree = deepcopy(ANSWERS[name])
        holder, key = list(places_of(tree))[number]
        del holder[key]
        for read in READERS[name]:
            with raises_only(EngineError):
                read(tree)
