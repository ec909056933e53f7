"""The guard in conftest.py for tests that run an app without the mark."""

from __future__ import annotations

import pytest
from textual.app import App


def test_an_app_without_the_mark_fails_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="runs an app"):
        App[None]().run_test()
