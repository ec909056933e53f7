from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(autouse=True)
def no_app_without_the_mark(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep ``make unit`` free of screens: fail a test that runs an app without the mark."""
    if request.node.get_closest_marker("screen") is None:

        def run_test(*_args: object, **_kwargs: object) -> None:
            pytest.fail("runs an app: mark the test or its module with pytest.mark.screen")

        monkeypatch.setattr("textual.app.App.run_test", run_test)
