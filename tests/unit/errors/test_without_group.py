"""Errors of task groups, raised without their group."""

from __future__ import annotations

import asyncio

import pytest

from podtui.errors import EngineError, EngineNotFound, first_error, without_group


async def fail(error: Exception) -> None:
    raise error


async def test_the_error_of_a_task_is_raised_without_its_group() -> None:
    with pytest.raises(EngineNotFound, match="gone") as caught, without_group():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(EngineNotFound("gone")))
    assert isinstance(caught.value.__cause__, ExceptionGroup)


async def test_the_error_of_a_nested_group_is_raised_without_both_groups() -> None:
    async def nested() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(EngineError("refused")))

    with pytest.raises(EngineError, match="refused"), without_group():
        async with asyncio.TaskGroup() as group:
            group.create_task(nested())


def test_an_error_without_a_group_is_raised_as_it_is() -> None:
    error = LookupError("no pod")
    with pytest.raises(LookupError) as caught, without_group():
        raise error
    assert caught.value is error
    assert error.__cause__ is None


def test_an_error_of_the_engine_hides_no_programming_error() -> None:
    bug, refused = TypeError("bug"), EngineError("refused")
    group = ExceptionGroup("", [refused, ExceptionGroup("", [EngineError("gone"), bug])])
    assert first_error(group) is bug
    assert first_error(ExceptionGroup("", [refused, EngineError("gone")])) is refused
