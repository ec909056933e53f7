"""Keys that come in one burst: typed fast, pasted, or over a slow line."""

from __future__ import annotations

from tui_app import main, running, wait_for

from podtui.tui.app import PodtuiApp
from podtui.tui.node.node_screen import NodeScreen


def burst(app: PodtuiApp, *keys: str) -> None:
    """All keys are there before any of them is looked at."""
    for key in keys:
        app.simulate_key(key)


async def test_a_command_and_its_enter_in_one_go() -> None:
    async with running() as (app, pilot):
        burst(app, "colon", *"node", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")


async def test_a_filter_and_its_enter_in_one_go() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"web", "enter")
        await wait_for(pilot, lambda: table.set.filter.text == "web", "the filter")
        await wait_for(pilot, lambda: table.has_focus, "the table")
        assert app.screen is main(app), "no letter was a key of the table"


async def test_a_filter_of_the_log_in_one_go() -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        burst(app, "slash", *"GET", "enter")
        logs = main(app).logs
        await wait_for(
            pilot, lambda: logs.view.has_focus and logs.narrowing() == ["/GET"], "the filter"
        )
