"""Repeated notifications, and many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from tui_app import make_app, screen_text, wait_for

from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import confirmation
from podtui.tui.widgets.notices import MOST, Notices


@asynccontextmanager
async def app_with_notices() -> AsyncIterator[tuple[Notices, Pilot[None]]]:
    app = Notices()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        yield app, pilot


async def shown_notices(app: Notices, pilot: Pilot[None]) -> list[tuple[str, str]]:
    await pilot.pause()
    return [(one.title, one.message) for one in app.notices]


async def test_equal_notifications_appear_once_with_a_count() -> None:
    async with app_with_notices() as (app, pilot):
        for _ in range(3):
            app.notify("nothing is changed", title="Read-only", severity="warning")
        assert await shown_notices(app, pilot) == [("Read-only ×3", "nothing is changed")]


async def test_without_a_title_the_count_is_behind_the_message() -> None:
    async with app_with_notices() as (app, pilot):
        app.notify("The last pane cannot be hidden.")
        app.notify("The last pane cannot be hidden.")
        assert await shown_notices(app, pilot) == [("", "The last pane cannot be hidden. ×2")]


async def test_equal_notifications_are_counted_despite_others_between() -> None:
    async with app_with_notices() as (app, pilot):
        for message in ("a", "b", "a"):
            app.notify(message)
        assert await shown_notices(app, pilot) == [("", "b"), ("", "a ×2")]


async def test_another_severity_or_title_is_another_notification() -> None:
    async with app_with_notices() as (app, pilot):
        app.notify("a")
        app.notify("a", severity="error")
        app.notify("a", title="t")
        assert await shown_notices(app, pilot) == [("", "a"), ("", "a"), ("t", "a")]


async def test_shows_only_the_newest_few_notifications() -> None:
    async with app_with_notices() as (app, pilot):
        for number in range(10):
            app.notify(str(number))
        assert await shown_notices(app, pilot) == [
            ("", str(number)) for number in range(10 - MOST, 10)
        ]


async def test_an_expired_notification_counts_from_one() -> None:
    async with app_with_notices() as (app, pilot):
        app.notify("a", timeout=0.5)
        await wait_for(pilot, lambda: app.notices, "the first")
        await wait_for(pilot, lambda: not app.notices, "its end")
        app.notify("a")
        assert await shown_notices(app, pilot) == [("", "a")]


async def test_ten_refused_keys_show_one_notification() -> None:
    async with app_with_notices() as (app, pilot):
        for _ in range(10):
            app.notify("podtui is read-only", title="Read-only", severity="warning")
        app.notify("alpha")
        app.notify("beta")

        def places() -> list[str]:
            return sorted(word for word in screen_text(app).split() if word in WORDS)

        await wait_for(pilot, lambda: places() == WORDS, "three toasts")
        assert places() == WORDS


async def test_notifications_never_cover_a_dialog_and_are_shown_after_it() -> None:
    app = make_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        app.notify("web.yaml", title="Applied")
        await wait_for(pilot, lambda: "Applied" in screen_text(app), "the notification")
        lines = [(Span(f"line {number}"),) for number in range(20)]
        app.notify("posted", title="At the same time")
        app.push_screen(confirmation("Undo?", lines, "Undo and replace web-n1"))
        await wait_for(pilot, lambda: "line 3" in screen_text(app), "the dialog")
        app.notify("crashed", title="Alert")
        await pilot.pause()
        shown = screen_text(app)
        for title in ("Applied", "At the same time", "Alert"):
            assert title not in shown
        await pilot.press("escape")
        for title in ("Applied", "At the same time", "Alert"):
            await wait_for(pilot, lambda title=title: title in screen_text(app), title)


async def test_notifications_that_waited_for_a_dialog_are_counted_and_limited() -> None:
    app = make_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:

        def notes() -> list[str]:
            return [note.title for note in (*app.notices, *app.held)]

        for _ in range(2):
            app.notify("crashed", title="Alert")
        await wait_for(pilot, lambda: notes() == ["Alert ×2"], "both")
        for count in (3, 4):
            app.push_screen(confirmation("Undo?", [], "Undo"))
            await wait_for(pilot, lambda: app.held, "the dialog")
            app.notify("crashed", title="Alert")
            await wait_for(pilot, lambda count=count: notes() == [f"Alert ×{count}"], "the next")
            await pilot.press("escape")
            await wait_for(pilot, lambda: app.notices, "the end of the dialog")
            assert notes() == [f"Alert ×{count}"]
        app.push_screen(confirmation("Undo?", [], "Undo"))
        for number in range(10):
            app.notify("crashed", title=str(number))
        await wait_for(pilot, lambda: notes() == ["7", "8", "9"], "the newest")


WORDS = ["alpha", "beta", "×10"]
