"""The reading that finds which tests run an app, and the guard for what it does not find."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import methodcaller
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screen_mark import STARTS_AN_APP, Reader, ScreenMarks


class App:
    def run_test(self) -> str:
        return "runs"


@asynccontextmanager
async def opened() -> AsyncIterator[Any]:
    yield App().run_test()


class Helper:
    async def show(self) -> None:
        async with opened():
            pass


async def by_itself() -> None:
    App().run_test()


async def by_a_helper() -> None:
    async with opened():
        pass


def by_a_class() -> Helper:
    return Helper()


def within() -> Any:
    async def before() -> None:
        App().run_test()

    return before


@given(st.integers())
def by_hypothesis(_number: int) -> None:
    App().run_test()


def first(again: bool) -> Any:
    return second(again)


def second(again: bool) -> Any:
    return first(not again) if again else by_itself


@pytest.mark.parametrize(
    "function", [by_itself, by_a_helper, by_a_class, within, by_hypothesis, first, second]
)
def test_an_app_is_found(function: Any) -> None:
    assert Reader().starts_an_app(function)


def mentions_it() -> str:
    """run_test"""
    return "run_test" + str(len("opened"))


@pytest.mark.parametrize("function", [mentions_it, App, "run_test", None, len])
def test_what_starts_none_is_let_alone(function: Any) -> None:
    assert not Reader().starts_an_app(function)


@pytest.mark.parametrize("marked", [True, False])
def test_an_app_in_a_test_without_the_mark_fails_it(
    request: pytest.FixtureRequest, marked: bool
) -> None:
    class Guarded(App):
        pass

    start = methodcaller(STARTS_AN_APP)  # as no reader finds it
    if marked:
        request.node.add_marker("screen")
    marks = ScreenMarks()
    marks._guard(Guarded)
    marks.pytest_runtest_protocol(request.node)
    if marked:
        assert start(Guarded()) == "runs"
    else:
        with pytest.raises(pytest.fail.Exception, match="starts an app"):
            start(Guarded())
