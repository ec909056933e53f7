"""Text typed after ``/`` or ``:`` is entered into an input line, or ignored."""

from __future__ import annotations

from typing import Any

import pytest
from picture_scenes import OVERVIEW
from picture_scenes import SCENES as ALL_SCENES
from pictures import Scene, played
from textual.widgets import Input
from tui_app import main, running, wait_for
from tui_scene import full_client

from podtui.tui.app import PodtuiApp
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.widgets.bars import key_hints

SCENES = {
    "overview": OVERVIEW[120, 36],
    # One scene of each screen, tab and dialog.
    **{f"{one.shows.__name__}-{one.tab}{one.opened_by}": one
       for one in ALL_SCENES.values()},
    **{
        f"pane-{name}": Scene(shows=MainScreen, text="CrashLoopBackOff", keys=(key,))
        for key, name in (("1", "pods"), ("2", "events"), ("3", "logs"), ("4", "node"))
    },
}  # fmt: skip


def actions_run(app: PodtuiApp, patch: pytest.MonkeyPatch) -> list[str]:
    """Record the actions of keys from now on."""
    found: list[str] = []
    run_action = app.run_action

    async def note(action: Any, *arguments: Any) -> bool:
        found.append(str(action))
        return await run_action(action, *arguments)

    patch.setattr(app, "run_action", note)
    return found


def has_line(app: PodtuiApp) -> bool:
    return isinstance(app.focused, Input)


@pytest.mark.parametrize("name", SCENES)
async def test_typed_text_goes_to_an_input_or_is_ignored(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(SCENES[name], monkeypatch) as (app, pilot):
        screen = app.screen
        for opener, key in (("/", "slash"), (":", "colon")):
            if has_line(app):
                return
            hints = {hint.shown for hint in key_hints(screen)}
            await pilot.press(key)
            await pilot.pause()
            if has_line(app):
                await pilot.press("escape")
                await pilot.pause()
                continue
            assert opener not in hints, "a key in the hints performs its action"
            with monkeypatch.context() as patch:
                actions = actions_run(app, patch)
                await pilot.press(*"rejected 1 hlny", "backspace", "q", "enter")
                await pilot.pause()
            assert app.screen is screen
            assert actions == []
            # On a dialog, the notification waits until it is closed.
            assert any("ignored" in note.message for note in (*app.notices, *app.held))


async def test_keys_work_after_the_typed_text() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        for end in ("enter", "escape"):
            main(app).pods.table.select("uid-too-big")
            await pilot.press("4", "slash", *"r", end)
            await pilot.pause()
            assert client.retried == []
            await pilot.press("1")
            assert main(app).active == "pods", f"after {end}"
        await pilot.press("r")
        await wait_for(pilot, lambda: client.retried == ["too-big-n1"], "the retry")


async def test_every_pane_shows_the_key_of_its_filter_or_search() -> None:
    async with running() as (app, pilot):
        for pane in "1234":
            await pilot.press(pane)
            await pilot.pause()
            assert "/" in {hint.shown for hint in key_hints(app.screen)}


async def test_an_input_hides_keys_that_it_consumes() -> None:
    async with running() as (app, pilot):
        await pilot.press("3", "slash")
        await wait_for(pilot, lambda: isinstance(app.focused, Input), "the line of the log")
        shown = {hint.shown for hint in key_hints(app.screen)}
        assert "esc" in shown
        assert not {"/", "+", "tab", ":", "?", "q"} & shown
