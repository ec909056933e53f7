"""Record the calls of a function, to count work instead of timing it."""

from __future__ import annotations

from typing import Any

import pytest


def record_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Return a list that grows by the first argument of each call from now on."""
    calls: list[Any] = []
    original = getattr(owner, name)

    def recorded(*args: Any, **settings: Any) -> Any:
        calls.append(args[0] if args else None)
        return original(*args, **settings)

    monkeypatch.setattr(owner, name, recorded)
    return calls
