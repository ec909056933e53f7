"""Generated requests to an agent. The long form is ``python -m soak.fuzz "fuzz operations"``."""

from __future__ import annotations

import asyncio

import pytest
from examples import examples
from hypothesis import Phase, given
from hypothesis import strategies as st

from soak.api_fuzz import fuzz

REQUESTS = 1_000


@given(seed=st.binary(min_size=8, max_size=8))
@examples(5, phases=(Phase.generate,))
def test_no_request_breaks_the_api(tmp_path_factory: pytest.TempPathFactory, seed: bytes) -> None:
    statuses = asyncio.run(fuzz(tmp_path_factory.mktemp("agent"), seed, REQUESTS))
    assert statuses.total() == REQUESTS
    # The requests are not only refused.
    assert statuses[200] + statuses[201] > REQUESTS / 10
