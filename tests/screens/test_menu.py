"""The menu, and other clickable elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from textual import events
from textual.pilot import Pilot
from tui_app import bar_text, main, notified, running, wait_for
from tui_scene import FakeClient, full_client, gallery, node, pod, status

from podtui.tui.app import PodtuiApp
from podtui.tui.commands.key_registry import known_bindings
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.screens.menu import MOVES, MOVING, Choice, Menu, choices, menu_lines
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.why import Explanations
from podtui.tui.widgets.bars import key_hints
from podtui.tui.widgets.cells import Line, Span, line_width
from podtui.tui.widgets.dialogs import ListDialog, Picker
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView

CHOICES = (
    Choice("act.edit", "e", "Edit", "Edit the manifest, see the plan, then apply it", "edit"),
    Choice("act.undo", "u", "Undo delete", "Bring back what was deleted last", "undo"),
    Choice("app.quit", "q", "Quit", "", "quit"),
)


def text_of(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


def test_groups_have_titles_and_labels_that_do_not_fit_are_dropped() -> None:
    lines, numbers = menu_lines(CHOICES, 1, 70)
    assert [text_of(line) for line in lines] == [
        "  Commands on pods",
        "  e         Edit",
        "❯ u         Undo delete          Bring back what was deleted last",
        "",
        "  Everywhere",
        "  q         Quit",
    ]
    assert numbers == [None, 0, 1, None, None, 2]
    wide, _ = menu_lines(CHOICES, 0, 90)
    assert text_of(wide[1]).endswith("then apply it")


def open_menu(app: PodtuiApp) -> Menu | None:
    return app.screen if isinstance(app.screen, Menu) else None


async def right_click(pilot: Pilot[Any], widget: Any, x: int, y: int) -> Menu:
    app = pilot.app
    assert isinstance(app, PodtuiApp)
    await pilot.click(widget, offset=(x, y), button=3)
    await wait_for(pilot, lambda: (menu := open_menu(app)) and menu.view.lines, "the menu")
    menu = open_menu(app)
    assert menu is not None
    return menu


async def take(pilot: Pilot[Any], menu: Menu, words: str) -> None:
    """Click on the line of a menu with ``words``."""
    row = next(n for n, line in enumerate(menu.view.lines) if f" {words} " in f"{text_of(line)} ")
    while row >= menu.view.scroll_y + menu.view.size.height:
        await pilot.press("down")
    region = menu.view.content_region
    await pilot.click(offset=(region.x + 14, region.y + row - round(menu.view.scroll_y)))


async def test_a_right_click_selects_a_row_and_opens_its_menu() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        table = main(app).pods.table
        before = table.cursor_key
        menu = await right_click(pilot, table, 6, 3)
        chosen = table.cursor_key
        assert chosen == table.set.order[2] != before
        await take(pilot, menu, "Describe")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        screen = app.screen
        assert isinstance(screen, PodScreen)
        assert screen.pod is not None
        assert screen.pod.metadata.uid == chosen


def is_in_sight(dialog: ListDialog[Any]) -> bool:
    """Return whether the line of the cursor is visible."""
    top = round(dialog.view.scroll_y)
    seen = dialog.rows[top : top + dialog.view.size.height]
    return dialog.place in seen


async def test_the_cursor_stays_in_sight() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        menu = await right_click(pilot, main(app).pods.table, 6, 3)
        picker = Picker("Which?", [(Span(f"item {n}"),) for n in range(40)], start=30)
        assert len(menu.items) > menu.view.size.height
        for dialog in (menu, picker):
            if dialog is picker:
                app.push_screen(picker)
                await wait_for(pilot, lambda: app.screen is picker and is_in_sight(picker), "it")
                await pilot.click(picker.view, offset=(8, 4))
                assert 0 < picker.place < 30, "a click moves the cursor, and takes no keys"
            for key, place in (("end", len(dialog.items) - 1), ("home", 0)):
                await pilot.press(key)
                await pilot.pause()
                assert dialog.place == place
                assert is_in_sight(dialog)


async def test_a_right_click_on_a_title_sorts_nothing() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        before = table.set.sort
        await right_click(pilot, table, 40, 0)
        assert table.set.sort == before


async def test_the_menu_lists_actions_of_the_pane_under_the_pointer() -> None:
    async with running(size=(120, 36)) as (app, pilot):
        logs = main(app).logs.view
        await wait_for(pilot, lambda: len(logs.buffer), "the log")
        await pilot.click(logs, offset=(10, 2), button=3)
        await wait_for(pilot, lambda: open_menu(app), "the menu")
        assert isinstance(app.screen_stack[0].focused, LogView)
        assert logs.follow
        first = text_of(menu_lines(choices(main(app)), 0, 80)[0][0])
        assert first.strip() == "Logs"


async def test_keys_open_navigate_and_close_the_menu() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        await pilot.press("m")
        await wait_for(pilot, lambda: open_menu(app), "the menu")
        menu = open_menu(app)
        assert menu is not None
        await pilot.press("end")
        await pilot.pause()
        assert menu.view.scroll_y > 0
        await pilot.press("home", "escape")
        assert open_menu(app) is None
        await pilot.press("f10", "down", "down", "up", "enter")
        await pilot.pause()
        assert open_menu(app) is None


async def test_a_click_outside_closes_the_menu() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        await right_click(pilot, main(app).pods.table, 6, 3)
        await pilot.click(offset=(1, 1))
        await pilot.pause()
        assert open_menu(app) is None


async def test_the_menu_lists_each_action_once_and_no_navigation() -> None:
    async with running() as (app, _):
        names = [choice.id for choice in choices(main(app))]
        assert len(names) == len(set(names))
        assert {"act.delete", "act.undo", "main.why", "table.faults", "app.quit"} <= set(names)
        assert not {"table.up", "app.menu", "main.next"} & set(names)


async def test_a_read_only_session_offers_no_writing_action() -> None:
    async with running(readonly=True) as (app, _):
        names = {choice.id for choice in choices(main(app))}
        assert "act.delete" not in names
        assert "main.why" in names


async def test_a_cause_precedes_its_fix_and_marks_truncation() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        pods = main(app).pods
        pods.table.select("uid-crash-loop")
        await pilot.pause()

        def explained(count: int) -> list[str]:
            hint = (Span("  X ", "hint-key"), Span("a cure of several words"))
            with patch.object(Explanations, "of", return_value=(Span("cause " * count), *hint)):
                pods.explain()
            assert max(map(line_width, pods.explanation)) <= 74
            assert pods.why.display is (len(pods.explanation) > 1)
            return " ".join(map(text_of, pods.explanation)).split("  ")

        assert explained(7)[1:] == [" X a cure of several words"]
        assert explained(17)[1:] == [" X a cure of several words"]
        assert explained(22) == [" ".join(["cause"] * 22), " X: details"]
        assert explained(30)[0].endswith("cause …")


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_a_click_on_the_explanation_opens_why(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        pods = main(app).pods
        pods.table.select("uid-crash-loop")
        await wait_for(pilot, lambda: pods.explanation, "the explanation")
        border = pods.region.bottom - 1
        await pilot.click(offset=(6, border))
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the why screen")
        assert isinstance(app.screen, WhyScreen)


async def test_back_and_menu_keys_are_shown_at_80_columns() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await wait_for(pilot, lambda: bar_text(app, "hints").startswith(" X Why "), "the hints")
        assert " m Menu " in bar_text(app, "hints")
        await pilot.press("X")
        await wait_for(pilot, lambda: isinstance(app.screen, WhyScreen), "the why screen")
        assert " esc Back " in bar_text(app, "hints")


async def test_a_long_table_scrolls_with_cursor_and_wheel() -> None:
    client = full_client()
    async with running(client, size=(80, 24)) as (app, pilot):
        table = main(app).pods.table
        for n in range(9):
            client.change(pod(f"zz{n}", status()))
        await wait_for(pilot, lambda: len(table.set) > table.size.height, "more pods")
        last = table.set.rows[table.set.order[-1]]
        await pilot.press("end")
        await wait_for(pilot, lambda: table.scroll_y > 0, "the end of the table")
        await wait_for(pilot, lambda: last.search.split()[0] in shown_of(table), "its last row")
        x, y = table.region.x + 5, table.region.y + 3
        app.post_message(
            events.MouseScrollUp(None, x, y, 0, -1, 0, shift=False, meta=False, ctrl=False)
        )
        await wait_for(pilot, lambda: last.search.split()[0] not in shown_of(table), "rows above")
        assert last.search.split()[0] not in shown_of(table)


async def test_a_long_text_scrolls() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        view = app.screen.query_one(LinesView)
        before = view.render_line(0).text
        await pilot.press("pagedown")
        await wait_for(pilot, lambda: view.render_line(0).text != before, "the next page")
        assert view.render_line(0).text != before


def shown_of(table: Table) -> str:
    return "\n".join(table.render_line(y).text for y in range(table.size.height))


def test_ids_excluded_from_the_menu_exist() -> None:
    ids = {known.id for known in known_bindings()}
    assert ids >= MOVING
    assert {name.partition(".")[0] for name in ids} >= MOVES


def hint_ids(app: PodtuiApp) -> set[str]:
    return {hint.id for hint in key_hints(app.screen)}


async def test_pod_actions_are_not_offered_on_a_file() -> None:
    async with running(size=(200, 60)) as (app, pilot):
        table = main(app).pods.table
        for row, there in (("manifest:hello.yaml", False), ("uid-web", True)):
            assert table.select(row)
            await wait_for(
                pilot, lambda there=there: ("act.restart" in hint_ids(app)) is there, "the hints"
            )
            hints = hint_ids(app)
            assert ({"act.shell", "main.logs", "main.yaml"} <= hints) is there
            assert {"act.edit", "act.delete"} <= hints, "a file can be edited and deleted"
            offered = {choice.id for choice in choices(app.screen)}
            assert ({"act.restart", "act.shell", "act.forward"} <= offered) is there
        table.select("manifest:hello.yaml")
        await pilot.press("r")
        await notified(app, pilot, "hello.yaml has no pod")


async def test_an_empty_table_offers_nothing_to_open() -> None:
    client = FakeClient()
    client.fill((), (), (), (node(),))
    async with running(client) as (app, pilot):
        await wait_for(pilot, lambda: "Ready" in bar_text(app, "header"), "the node")
        assert not {"table.open", "act.edit"} & hint_ids(app)
        client.fill(gallery(), (), (), (node(),))
        await wait_for(pilot, lambda: "table.open" in hint_ids(app), "a row to open")


@pytest.mark.parametrize("readonly", [False, True])
async def test_an_empty_screen_explains_where_pods_come_from(
    tmp_path: Path, readonly: bool
) -> None:
    client = FakeClient()
    client.fill((), (), (), ())
    folder = tmp_path / "pods"
    async with running(client, requested_path=folder, readonly=readonly) as (app, pilot):
        pane = main(app).pods

        def empty_text() -> str:
            return "\n".join(text_of(line) for line in pane.table.empty)

        await wait_for(pilot, lambda: "No pods yet" in empty_text(), "the empty table")
        assert "does not exist yet" in empty_text()
        assert ("from a template" in empty_text()) is not readonly
        folder.mkdir()
        main(app).publish(app.model.all_changes(), app.session.now())
        assert "does not exist yet" not in empty_text()
