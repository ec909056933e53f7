"""Panes, prompt and saved state of the main screen, in the running app."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import MouseMove
from tui_app import bar_text, main, make_app, running, screen_text, table_text, wait_for
from tui_scene import FakeClient, full_client, node, pod, status

from podtui.tui.screens.help_screen import AliasesScreen
from podtui.tui.screens.main.screen_memory import MemoryFile
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.widgets.columns import ColumnsScreen
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.prompt import Prompt


async def test_sizes_hidden_panes_sorting_and_columns_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    async with running(size=(200, 60), memory=MemoryFile(path)) as (app, pilot):
        screen = main(app)
        before = screen.logs.size
        await pilot.press("3", "greater_than_sign", "greater_than_sign", "alt+up")
        await wait_for(pilot, lambda: screen.logs.size.width == before.width + 8, "the width")
        assert screen.logs.size.height == before.height + 2
        await pilot.press("4", "backslash")
        await wait_for(pilot, lambda: not screen.node.display, "the node is hidden")
        assert screen.active == "pods"
        assert "hidden: 4 Node" in bar_text(app, "status")
        await pilot.press("R", "ctrl+w")
        await pilot.press("q")
        await wait_for(pilot, lambda: app.session.is_leaving, "the end")
    again = MemoryFile(path)
    again.read()
    async with running(size=(200, 60), memory=again) as (app, pilot):
        screen = main(app)
        await wait_for(pilot, lambda: screen.logs.size.width == before.width + 8, "the width")
        assert not screen.node.display
        assert screen.pods.table.set.order[1] == "uid-crash-loop"
        assert "NAMESPACE" in table_text(app)[0]
        await pilot.press("4")
        await wait_for(pilot, lambda: screen.node.display, "its number shows the node again")
        await pilot.press("equals_sign")
        await wait_for(pilot, lambda: screen.logs.size == before, "sizes as at first")


async def test_a_screen_opens_with_its_pods_visible_and_focused(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    memory = MemoryFile(path, "/root/one")
    async with running(size=(80, 24), memory=memory) as (app, pilot):
        await pilot.press("3", "plus")
        await wait_for(pilot, lambda: not main(app).pods.display, "only the log")
        await pilot.press("q")
        await wait_for(pilot, lambda: app.session.is_leaving, "the end")
    for root in ("/root/one", "/root/two"):
        again = MemoryFile(path, root)
        again.read()
        async with running(size=(80, 24), memory=again) as (app, _):
            assert main(app).pods.display
            assert app.focused is main(app).pods.table


@pytest.mark.parametrize("size", [(80, 24), (50, 20)])
async def test_an_action_shows_a_selection_that_is_out_of_sight(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        screen = main(app)
        screen.pods.table.select("uid-web")
        await pilot.press("3", "plus")
        await wait_for(pilot, lambda: not screen.pods.display, "only the log")
        await pilot.press("r")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert screen.pods.display
        assert screen.pods.table.cursor_in_sight
        await pilot.press("escape")


async def test_an_action_scrolls_to_the_row_under_the_cursor() -> None:
    client = FakeClient()
    client.fill([pod(f"p{n:03}", status()) for n in range(60)], nodes=[node()])
    async with running(client, size=(80, 24)) as (app, pilot):
        table = main(app).pods.table
        table.scroll_to(y=40, animate=False, force=True)
        await wait_for(pilot, lambda: not table.cursor_in_sight, "the wheel scrolls away")
        await pilot.press("r")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert table.cursor_key == "uid-p000"
        assert table.cursor_in_sight
        await pilot.press("escape")


async def test_an_invalid_state_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_text("{")
    memory = MemoryFile(path)
    memory.read()
    async with running(memory=memory) as (app, _):
        assert any("is not used" in n.message for n in app.notices)


def dragged(x: int, y: int) -> MouseMove:
    """Move with the left button pressed, which a pilot does not support."""
    return MouseMove(None, x, y, 0, 5, 1, False, False, False, screen_x=x, screen_y=y)


async def test_a_border_is_dragged_with_the_mouse() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        border = screen.pods.region.bottom - 1
        await pilot.mouse_down(offset=(60, border))
        screen.body.post_message(dragged(60, border + 5))
        await wait_for(pilot, lambda: screen.pods.region.bottom - 1 == border + 5, "the new size")
        # The end of a drag is not a click on the explanation in the border.
        await pilot.mouse_up(offset=(60, border + 5))
        await pilot.pause()
        assert app.screen is screen


async def test_the_prompt_shows_errors_completes_and_keeps_history() -> None:
    async with running() as (app, pilot):
        prompt = app.screen.query_one(Prompt)
        await pilot.press("slash", *"restarts>x")
        fault = prompt.query_one("#prompt-fault")
        await wait_for(pilot, lambda: fault.display, "the fault")
        assert "at 10: 'x' is not a number" in str(fault.render())
        await pilot.press("enter")
        assert prompt.is_open, "a fault is not submitted"
        await pilot.press("backspace", "3", "enter")
        assert main(app).pods.table.set.order == ["uid-crash-loop"]
        await pilot.press("escape", "slash", *"status=Ter")
        await wait_for(pilot, lambda: "status=Terminating" in screen_text(app), "a completion")
        await pilot.press("tab", "enter")
        assert main(app).pods.table.set.order == ["uid-leaving"]
        await pilot.press("escape", "slash", "up", "up")
        assert prompt.input.value == "restarts>3"


async def test_shows_only_unhealthy_pods() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        await pilot.press("ctrl+z")
        shown = set(screen.pods.table.set.order)
        assert {"uid-crash-loop", "manifest:hello.yaml"} <= shown
        assert not {"uid-web", "uid-batch"} & shown
        assert "unhealthy only" in str(screen.pods.border_title)
        await pilot.press("escape")
        assert "uid-web" in screen.pods.table.set.order


async def test_columns_are_selected() -> None:
    async with running(size=(150, 40)) as (app, pilot):
        await pilot.press("W")
        assert isinstance(app.screen, ColumnsScreen)
        await pilot.press("j", "j", "space", "enter")
        assert "READY" not in table_text(app)[0]
        await pilot.press("W", "r", "escape")
        assert "READY" not in table_text(app)[0], "a cancelled choice changes nothing"
        await pilot.press("W", "r", "enter")
        assert "READY" in table_text(app)[0]


async def test_back_returns_to_the_previous_position() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        screen = main(app)
        await pilot.press("colon", *"po web", "enter")
        await wait_for(pilot, lambda: screen.pods.table.set.filter.text == "web", "the filter")
        await pilot.press("2")
        await pilot.press("minus")
        assert (screen.active, screen.pods.table.set.filter.text) == ("pods", "web")
        await pilot.press("minus")
        assert screen.active == "events"
        await pilot.press("1", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        await pilot.press("escape")
        await pilot.press("alt+left")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod again")


async def test_commands_sort_hide_and_list() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        await pilot.press("colon", *"sort restarts", "enter")
        await wait_for(pilot, lambda: "RESTARTS↓" in table_text(app)[0], "the order")
        await pilot.press("colon", *"hide node", "enter")
        await wait_for(pilot, lambda: not screen.node.display, "the node is hidden")
        await pilot.resize_terminal(80, 24)
        await wait_for(
            pilot, lambda: "hidden: 4 Node" in bar_text(app, "status"), "the count is shown"
        )
        await pilot.press("ctrl+a")
        assert isinstance(app.screen, AliasesScreen)


async def test_the_table_is_saved_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (_, pilot):
        await pilot.press("ctrl+s")

        def saved() -> str:
            return "".join(file.read_text("utf-8") for file in tmp_path.iterdir())

        await wait_for(pilot, lambda: "crash-loop-n1" in saved(), "its rows")
        assert "web-n1" in saved()


async def test_logs_of_marked_pods_are_merged() -> None:
    client = full_client()
    app = make_app(client)
    async with app.run_test(size=(120, 36)) as pilot:
        await wait_for(pilot, lambda: "uid-web" in main(app).pods.table.set.index, "the pods")
        main(app).pods.table.select("uid-counter")
        await pilot.press("space")
        main(app).pods.table.select("uid-web")
        await pilot.press("space", "l")
        await wait_for(
            pilot,
            lambda: {"counter-n1", "web-n1"} <= {name for name, _ in client.queries[-2:]},
            "both logs",
        )
        assert {"counter-n1", "web-n1"} <= {name for name, _ in client.queries[-2:]}
