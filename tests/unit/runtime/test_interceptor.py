"""Runtimes in front of another one pass every call on."""

from __future__ import annotations

import inspect
from typing import Any

from podtui.runtime.interceptor import RuntimeInterceptor
from podtui.runtime.protocol import Runtime

METHODS = tuple(name for name in vars(Runtime) if not name.startswith("_"))


class Recorder:
    """Records every call with its arguments, and returns this record."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object, **named: object) -> object:
            self.calls.append((name, arguments, named))
            return self.calls[-1]

        async def wait(*arguments: object, **named: object) -> object:
            return call(*arguments, **named)

        return wait if inspect.iscoroutinefunction(getattr(Runtime, name)) else call


async def passed_on(method: str) -> bool:
    parameters = list(inspect.signature(getattr(Runtime, method)).parameters.values())[1:]
    passed = inspect.signature(getattr(RuntimeInterceptor, method)).parameters
    positional = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    named = {p.name: f"value of {p.name}" for p in parameters if p.kind is p.KEYWORD_ONLY}
    recorder = Recorder()
    runtime: Any = RuntimeInterceptor(recorder)  # type: ignore[arg-type]
    result = getattr(runtime, method)(*positional, **named)
    if inspect.isawaitable(result):
        result = await result
    nothing = inspect.signature(getattr(Runtime, method)).return_annotation == "None"
    return (
        list(passed.values())[1:] == parameters
        and recorder.calls == [(method, positional, named)]
        and result == (None if nothing else recorder.calls[0])
    )


async def test_every_call_is_passed_on_with_all_arguments() -> None:
    assert len(METHODS) > 30
    assert [method for method in METHODS if not await passed_on(method)] == []
