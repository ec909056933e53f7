"""The work for a key, for a frame of lines and for a change: counted, not timed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from log_app import LogApp, fill, numbered
from msgspec import structs
from recorded_calls import record_calls
from textual.geometry import Region
from textual.widget import Widget
from tui_app import main, running, screen_text, wait_for
from tui_scene import full_client, pod, status

from podtui.api.v1 import Pod
from podtui.client.protocol import Changed
from podtui.tui import app as app_module
from podtui.tui.app import PodtuiApp
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.screens.main import pods_pane
from podtui.tui.screens.node import node_screen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.views.logs import pace
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView

# --- the log


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[LogView]:
    """The views that drew a row, one entry for each row."""
    return record_calls(monkeypatch, LogView, "render_line")


async def painted(drawn: list[LogView], pilot: Any) -> int:
    """Return the number of rows drawn so far, once nothing is left to draw."""
    await pilot.pause(0.05)
    return len(drawn)


async def test_lines_below_the_view_draw_nothing(drawn: list[LogView]) -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.focus()
        await pilot.press("up")
        before = await painted(drawn, pilot)
        view.write(numbered(500, 100))
        view.draw_frame()
        assert view.virtual_size.height == 600
        assert await painted(drawn, pilot) == before


async def test_moving_the_cursor_draws_two_rows(drawn: list[LogView]) -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.focus()
        await pilot.press("up")
        before = await painted(drawn, pilot)
        await pilot.press("up")
        assert await painted(drawn, pilot) == before + 2


async def test_a_search_draws_only_matching_rows(drawn: list[LogView]) -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(30_000))
        before = await painted(drawn, pilot)
        view.search("nowhere")
        assert await painted(drawn, pilot) == before, "neither the key nor the check draws"
        view.search("line 2999[12]")
        assert await painted(drawn, pilot) == before + 2
        view.search("")
        assert await painted(drawn, pilot) == before + 4


async def test_repeating_a_search_keeps_its_position() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(30_000))
        view.search("line 7$")
        await wait_for(pilot, lambda: view.match_count == 1, "the match far above")
        view.search("line 7$")
        view.previous_match()
        assert view.current == 7


# --- the frame of a pane


async def test_a_note_draws_only_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (app, pilot):
        await pilot.press("3")
        pane = main(app).logs
        await wait_for(pilot, lambda: pane.view.lines.log_lines, "the log")
        drawn: list[Region] = []
        refresh = Widget.refresh

        def refreshed(widget: Widget, *regions: Region, **settings: Any) -> Widget:
            if widget is pane:
                drawn.extend(regions or [pane.region])
            return refresh(widget, *regions, **settings)

        monkeypatch.setattr(Widget, "refresh", refreshed)
        pane.set_note("seven matches")
        width, height = pane.outer_size
        left, top = pane.content_offset
        assert drawn == [Region(-left, height - 1 - top, width, 1)]
        # Check at once: the next log line changes this row, too.
        (row,) = pane.render_lines(Region(0, height - 1, width, 1))
        assert "seven matches" in row.text


async def test_a_change_builds_only_the_rows_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(full_client()) as (app, pilot):
        await pilot.press("4", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, NodeScreen)
        await pilot.press("2")
        made = record_calls(monkeypatch, node_screen, "share_row")
        web = next(one for one in app.model.pods.values() if one.metadata.name == "web-n1")
        asks = pod("web", status(), requests={"cpu": "300m"}).spec
        monkeypatch.setattr(PodtuiApp, "idle", 1.0)
        app.model.fold(Pod, Changed((structs.replace(web, spec=asks),)))
        app.publish_pending()
        screen.publish(app.model.all_changes(), app.session.now())
        assert [one.metadata.name for one in made] == ["web-n1"]
        key = web.metadata.uid
        assert screen.pods.set.rows[key].cells[1].text == "300m"
        gone = structs.replace(web, status=structs.replace(web.status, phase="Failed"))
        app.model.fold(Pod, Changed((gone,)))
        app.publish_pending()
        assert key not in screen.pods.set.rows


async def test_focusing_the_node_builds_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (app, pilot):
        made = record_calls(monkeypatch, pods_pane, "pod_row")
        await pilot.press("4")
        assert main(app).active == "node"
        assert not made
        lines = main(app).node.view.lines
        assert any(span.text.startswith("cpu") for line in lines for span in line)


# --- the cursor


async def test_keys_after_a_move_apply_to_the_new_row() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        table = screen.pods.table
        app.simulate_key("j")
        app.simulate_key("p")
        await wait_for(pilot, lambda: screen.active == "logs", "the log")
        await wait_for(
            pilot,
            lambda: screen.logs.target is not None and screen.logs.target.previous,
            "the previous log",
        )
        target = screen.logs.target
        assert target is not None
        assert target.key == table.cursor_key


async def test_the_cursor_is_drawn_before_details_of_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (app, pilot):
        screen = main(app)
        table = screen.pods.table
        await pilot.pause(0.05)
        lines = record_calls(monkeypatch, Table, "render_line")
        drawn: list[int] = []
        monkeypatch.setattr(screen.node, "choose", lambda key: drawn.append(lines.count(table)))
        app.simulate_key("j")
        await wait_for(pilot, lambda: drawn, "the details of the row")
        assert drawn[0] == 2


# --- screens above one another


async def test_changes_of_a_covered_screen_draw_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        await pilot.press("4", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the screen")
        await pilot.pause(0.2)
        drawn = record_calls(monkeypatch, LinesView, "render_line")
        table = main(app).pods.table
        client.change(pod("counter", status(restarts=77)))
        key = next(k for k, one in app.model.pods.items() if one.metadata.name == "counter-n1")
        await wait_for(pilot, lambda: table.set.rows[key].cells[4].text == "77", "the change below")
        await pilot.pause(0.2)
        assert not drawn
        await pilot.press("escape")

        def is_shown() -> bool:
            lines = screen_text(app).splitlines()
            return any("counter-n1" in line and "77" in line for line in lines)

        await wait_for(pilot, is_shown, "the change")
        assert is_shown()


# --- keys have priority


async def test_changes_wait_for_the_paint_of_a_key_with_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (app, pilot):
        await pilot.pause(0.5)
        published = record_calls(monkeypatch, main(app), "publish")
        monkeypatch.setattr(PodtuiApp, "idle", 0.0)
        monkeypatch.setattr(app_module, "MAX_DELAY_SECONDS", math.inf)
        app.model.fold(Pod, Changed((pod("web", status(restarts=5)),)))
        app.publish_pending()
        assert not any(changes.pods for changes in published)
        monkeypatch.setattr(PodtuiApp, "idle", 1.0)
        await wait_for(pilot, lambda: any(changes.pods for changes in published), "the change")
        monkeypatch.setattr(PodtuiApp, "idle", 0.0)
        monkeypatch.setattr(app_module, "MAX_DELAY_SECONDS", 0.0)
        app.model.fold(Pod, Changed((pod("web", status(restarts=6)),)))
        published.clear()
        app.publish_pending()
        assert published[0].pods, "a key is held down, and still changes are shown"


async def test_log_frames_wait_for_the_paint_of_a_key_with_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = await fill(app, numbered(100))
        view.idle = lambda: 0.0
        monkeypatch.setattr(pace, "MAX_DELAY_SECONDS", math.inf)
        view.write(numbered(5, 100))
        before = view.lines.rows.rows
        await pilot.pause(3 * pace.FRAME_SECONDS)
        assert view.lines.rows.rows == before
        monkeypatch.setattr(pace, "MAX_DELAY_SECONDS", 0.0)
        await wait_for(pilot, lambda: view.lines.rows.rows == before + 5, "its turn")
