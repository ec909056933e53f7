"""Set the hypothesis profile and the garbage collection before the tests.

Collecting six thousand tests makes millions of objects that stay to the end. Without this each
full round of the collector walks through all of them. And each test makes three reports, which go
from the workers to the controller: they carry only what is read.
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
        gc.disable()  # xdist's controller runs no test; its reports end by their counts
        return (yield)
    import examples as _  # noqa: F401 - chooses the profile, for tests without settings too

    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLD)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[
    None, dict[str, Any] | None, dict[str, Any] | None
]:
    report = yield
    if report is not None and report.get("outcome") == "passed":
        report["keywords"] = {}  # the longest part, and not used
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Collect once: pytest does so five times, to find lost tasks. The controller has none."""
    if not config.pluginmanager.has_plugin("dsession"):
        gc.collect()
    gc.freeze()
