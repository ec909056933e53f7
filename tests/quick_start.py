"""Before the tests: hypothesis' profile, and a garbage collector that lets the tests' code alone.

Collecting five thousand tests makes millions of objects that stay to the end. Without this each
full round of the collector walks through all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any, Final

import pytest

# Apps and examples make many short-lived objects; the default of 700 is a round each few of them.
THRESHOLD: Final = (20_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    if session.config.pluginmanager.has_plugin("dsession"):
        return (yield)  # xdist's controller collects nothing
    import examples as _  # noqa: F401 - chooses the profile, for tests without settings too

    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLD)
        gc.enable()
