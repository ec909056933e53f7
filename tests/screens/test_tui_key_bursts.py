"""Keys that arrive in one burst: fast typing, paste, or a slow connection."""

from __future__ import annotations

import pytest
from tui_app import main, running, wait_for

from podtui.tui.app import PodtuiApp
from podtui.tui.screens.help_screen import HelpScreen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen


def burst(app: PodtuiApp, *keys: str) -> None:
    """Send all keys before any of them is processed."""
    for key in keys:
        app.simulate_key(key)


async def test_a_command_and_enter_in_one_burst() -> None:
    async with running() as (app, pilot):
        burst(app, "colon", *"node", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")


async def test_a_filter_and_enter_in_one_burst() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"web", "enter")
        await wait_for(pilot, lambda: table.set.filter.text == "web", "the filter")
        await wait_for(pilot, lambda: table.has_focus, "the table")
        assert app.screen is main(app), "no letter was a key of the table"


async def test_a_log_filter_in_one_burst() -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        burst(app, "slash", *"GET", "enter")
        logs = main(app).logs
        await wait_for(
            pilot, lambda: logs.view.has_focus and logs.narrowing() == ["/GET"], "the filter"
        )


async def test_keys_after_enter_in_a_filter_go_to_the_table() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"web", "enter", "y")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod's YAML")
        assert table.set.filter.text == "web"


async def test_keys_after_escape_in_a_filter_go_to_the_table() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"web", "escape", "G")
        await wait_for(pilot, lambda: table.cursor_key == table.set.order[-1], "the last row")
        assert not table.set.is_filtered


async def test_keys_after_a_command_go_to_the_screen_that_it_opens() -> None:
    async with running() as (app, pilot):
        burst(app, "colon", *"node", "enter", "question_mark")
        await wait_for(pilot, lambda: isinstance(app.screen, HelpScreen), "the keys")
        assert isinstance(app.screen_stack[-2], NodeScreen)


async def test_keys_after_a_log_filter_go_to_the_log() -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        logs = main(app).logs
        before = logs.view.wrap
        burst(app, "slash", *"GET", "enter", "w")
        await wait_for(pilot, lambda: logs.view.wrap is not before, "the key of the log")
        assert logs.narrowing()[:1] == ["/GET"]


@pytest.mark.parametrize(
    ("opened", "closing"),
    [(["question_mark"], "q"), (["y"], "q"), (["colon", *"tree", "enter"], "qq")],
)
async def test_keys_after_a_search_go_to_the_searched_screen(
    opened: list[str], closing: str
) -> None:
    async with running() as (app, pilot):
        await pilot.press(*opened)
        await wait_for(pilot, lambda: app.screen is not main(app), "the screen")
        burst(app, "slash", *"web", "enter", *closing)
        await wait_for(pilot, lambda: app.screen is main(app), "it is closed")


async def test_a_backspace_within_a_burst() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"wx", "backspace", *"eb", "enter")
        await wait_for(pilot, lambda: table.set.filter.text == "web", "the filter")
        await wait_for(pilot, lambda: table.has_focus, "the table")


async def test_an_invalid_filter_stays_open() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"we(", "enter", "backspace", "b", "enter", "y")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod's YAML")
        assert table.set.filter.text == "web"


async def test_keys_after_quit_are_dropped() -> None:
    async with running() as (app, pilot):
        burst(app, "q", *"jj/web", "enter")
        await wait_for(pilot, lambda: not app.is_running, "the end")
    assert app.return_code == 0
