"""When the screen looks for garbage: not while somebody types, and not never."""

from __future__ import annotations

import gc

import msgspec
import pytest
from tui_app import running
from tui_scene import pod, status

from podtui.api.v1 import Pod
from podtui.tui.pods.pod_rows import pod_row
from podtui.tui.tidying import (
    AGAIN,
    DUE,
    MIDDLE,
    NEVER,
    OVERDUE,
    PAUSE,
    QUIET,
    Tidying,
    is_due,
    take_over,
)


def test_it_waits_for_a_quiet_moment_but_not_for_ever() -> None:
    assert not is_due(DUE, QUIET / 2)
    assert is_due(DUE, QUIET)
    assert not is_due(DUE - 1, 1000 * QUIET), "there is little to find"
    assert is_due(OVERDUE, 0.0)


def test_python_looks_at_what_is_young_alone() -> None:
    before = gc.get_threshold()
    try:
        take_over()
        assert gc.get_threshold() == (before[0], MIDDLE, NEVER)
    finally:
        gc.set_threshold(*before)


def test_looks_are_counted_from_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 100.0
    looked: list[str] = []
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, DUE))
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: looked.append(name))
    tidying = Tidying(lambda: at)
    assert not tidying.look()
    at += QUIET
    tidying.touched()
    assert not tidying.look()
    at += QUIET
    assert tidying.look()
    assert looked == ["collect", "freeze"]


def test_what_was_looked_at_is_looked_at_again_in_a_long_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = 100.0
    looked: list[str] = []
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, DUE))
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: looked.append(name))
    tidying = Tidying(lambda: at)
    at += AGAIN
    tidying.touched()
    at += PAUSE / 2
    assert tidying.look()
    assert looked == ["collect", "freeze"], "somebody was here a moment ago"
    at += PAUSE / 2
    assert tidying.look()
    assert looked[2:] == ["unfreeze", "collect", "freeze"]
    at += PAUSE
    assert tidying.look()
    assert looked[5:] == ["collect", "freeze"], "it is not so long ago"


def test_pods_and_their_rows_are_nothing_to_look_through() -> None:
    one = pod("a", status(), requests={"cpu": "1"})
    read = msgspec.json.decode(msgspec.json.encode(one), type=Pod)
    assert not any(
        gc.is_tracked(part) for part in (read, read.spec, read.status, pod_row(read, None, now=0.0))
    )


@pytest.mark.screen
async def test_keys_put_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[str] = []

    def touch(_: Tidying) -> None:
        touched.append("key")

    monkeypatch.setattr(Tidying, "touched", touch)
    async with running() as (_, pilot):
        before = len(touched)
        await pilot.press("j")
        assert len(touched) > before
