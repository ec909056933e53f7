"""Set the hypothesis profile and the garbage collection before the tests.

Six thousand collected tests are millions of objects that live until the end. They are frozen, so
that the garbage collector does not visit them in each full collection. Each test sends three
reports from its worker to the controller; they contain only the fields that are used.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any, Final

import pytest

# Apps and examples make many short-lived objects: the default of 700 means frequent runs.
THRESHOLD: Final = (20_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    if session.config.pluginmanager.has_plugin("dsession"):
        gc.disable()  # xdist's controller runs no test; reference counts free its reports
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
        report["keywords"] = {}  # the longest field, which is not used
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Collect once, to find lost tasks; pytest does so five times. The controller has no tasks."""
    if not config.pluginmanager.has_plugin("dsession"):
        gc.collect()
    gc.freeze()
