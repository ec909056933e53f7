"""Which tests run the terminal's app, found by reading them, so that nobody has to mark them.

A test is marked ``screen`` when it, a fixture of it, or a function of ``tests/`` that one of them
names calls ``run_test``, or when it compares a picture. A test that starts an app unseen by this
reading fails and says so: ``make unit`` is to stay without screens.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

TESTS: Final = str(Path(__file__).parent)
STARTS_AN_APP: Final = "run_test"
PICTURE: Final = "snap_compare"


def _names(code: CodeType) -> Iterator[str]:
    """What the code names, the functions within it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _ours(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    return file.startswith(TESTS) and file != __file__


class Reader:
    """Follows functions to those that they name; remembers what it found."""

    def __init__(self) -> None:
        self._known: dict[CodeType, bool] = {}
        self._asked: dict[int, tuple[Any, bool]] = {}

    def starts_an_app(self, function: Any) -> bool:
        """Whether ``run_test`` is named in the function, or in one of ``tests/`` that it names."""
        function = getattr(function, "__func__", function)
        # By identity: what a module has is not always hashable. Kept, so that no id comes again.
        if id(function) not in self._asked:
            self._asked[id(function)] = function, self._read(function)
        return self._asked[id(function)][1]

    def _read(self, function: Any) -> bool:
        inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
        plain = inspect.unwrap(inspect.unwrap(inner), stop=inspect.ismethod)
        plain = getattr(plain, "__func__", plain)
        if not isinstance(plain, FunctionType) or not _ours(plain):
            return False
        code = plain.__code__
        if code not in self._known:
            self._known[code] = False  # for functions that name each other
            names = set(_names(code))
            self._known[code] = STARTS_AN_APP in names or any(
                self.starts_an_app(other) for other in self._named(plain.__globals__, names)
            )
        return self._known[code]

    def _named(self, scope: dict[str, Any], names: set[str]) -> Iterator[Any]:
        for name in names & scope.keys():
            found = scope[name]
            if isinstance(found, ModuleType):
                if str(getattr(found, "__file__", "")).startswith(TESTS):
                    yield from (vars(found)[n] for n in names & vars(found).keys())
            elif isinstance(found, type):
                yield from (part for part in vars(found).values() if callable(part))
            elif callable(found):
                yield found


def needs_a_screen(item: pytest.Item, reader: Reader) -> bool:
    """Whether the test runs an app, by itself or through its fixtures."""
    if not isinstance(item, pytest.Function):
        return False
    if PICTURE in item.fixturenames:
        return True
    definitions = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    fixtures = (each.func for definition in definitions for each in definition)
    return reader.starts_an_app(item.obj) or any(reader.starts_an_app(one) for one in fixtures)


class ScreenMarks:
    """The plugin: marks what was collected, and sees that an app runs in no other test."""

    def __init__(self) -> None:
        self._running: pytest.Item | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        reader = Reader()
        for item in items:
            if needs_a_screen(item, reader):
                item.add_marker("screen")

    def pytest_collection_finish(self) -> None:
        if (module := sys.modules.get("textual.app")) is not None:
            self._guard(module.App)

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._running = item

    def _guard(self, app: Any) -> None:
        start = app.run_test

        def run_test(*args: Any, **kwargs: Any) -> Any:
            if self._running is not None and self._running.get_closest_marker("screen") is None:
                pytest.fail("starts an app in a way that tests/screen_mark.py does not see")
            return start(*args, **kwargs)

        app.run_test = run_test
