"""Keys that arrive in one burst: fast typing, paste, or a slow connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from action_scene import running_app
from tui_app import main, running, wait_for

from podtui.api.local import Plan
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import session
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
        await wait_for(
            pilot, lambda: isinstance(app.screen, NodeScreen) and app.screen.opened, "the node"
        )
        assert isinstance(app.screen, NodeScreen)


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
        assert logs.narrowing() == ["/GET"]


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
    [(["question_mark"], "q"), (["y"], "qq"), (["colon", *"tree", "enter"], "qq")],
)
async def test_keys_after_a_search_go_to_the_searched_screen(
    opened: list[str], closing: str
) -> None:
    async with running() as (app, pilot):
        await pilot.press(*opened)
        await wait_for(pilot, lambda: app.screen is not main(app), "the screen")
        burst(app, "slash", *"web", "enter", *closing)
        await wait_for(pilot, lambda: app.screen is main(app), "it is closed")
        assert app.screen is main(app)


async def test_a_backspace_within_a_burst() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        burst(app, "slash", *"wx", "backspace", *"eb", "enter")
        await wait_for(pilot, lambda: table.set.filter.text == "web", "the filter")
        await wait_for(pilot, lambda: table.has_focus, "the table")
        assert table.set.filter.text == "web"


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


async def test_keys_after_the_key_that_opens_a_list_choose_from_it() -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        burst(app, "R", "1")
        logs = main(app).logs
        await wait_for(pilot, lambda: not logs.view.follow, "the log from the start")
        assert main(app).active == "logs", "1 did not go to the pods"


async def test_keys_after_the_key_that_opens_a_pod_go_to_the_pod() -> None:
    async with running() as (app, pilot):
        burst(app, "enter", "8")
        await wait_for(
            pilot,
            lambda: isinstance(app.screen, PodScreen) and app.screen.tab == "probes",
            "the probes of the pod",
        )
        assert isinstance(app.screen, PodScreen)


async def test_keys_after_a_command_answer_its_question(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, client):
        slow = asyncio.Event()
        planned = client.plan

        async def plan(name: str, text: bytes | None) -> Plan:
            await slow.wait()
            return await planned(name, text)

        client.plan = plan  # type: ignore[method-assign]
        burst(app, "ctrl+d", "y")
        await pilot.pause()
        assert app.screen is main(app), "y did not open the YAML"
        slow.set()
        await wait_for(pilot, lambda: not (tmp_path / "web.yaml").exists(), "the deletion")


async def test_keys_do_not_wait_for_a_command_without_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "QUESTION_SECONDS", 0.01)
    async with running_app(tmp_path) as (app, pilot, client):

        async def plan(name: str, text: bytes | None) -> Plan:
            await asyncio.Event().wait()
            raise AssertionError

        client.plan = plan  # type: ignore[method-assign]
        burst(app, "ctrl+d", "question_mark")
        await wait_for(pilot, lambda: isinstance(app.screen, HelpScreen), "the keys")
        assert app.session.asking == "Delete"


async def test_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, client):

        async def plan(name: str, text: bytes | None) -> Plan:
            await asyncio.Event().wait()
            raise AssertionError

        client.plan = plan  # type: ignore[method-assign]
        burst(app, "ctrl+d", "y", "ctrl+c")
        await wait_for(pilot, lambda: not app.is_running, "the end")
        assert not app.is_running


@pytest.mark.parametrize("steps", range(0, 40, 4))
async def test_the_app_exits_while_a_screen_opens(steps: int) -> None:
    async with running() as (app, pilot):
        burst(app, "colon", *"node", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")
        for _ in range(steps):
            await asyncio.sleep(0)
        app.exit()
    assert not app.is_running
