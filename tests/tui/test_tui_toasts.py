"""Notices that come again and again, and many at once."""

from __future__ import annotations

from collections.abc import Iterable

from textual.notifications import Notification
from textual.widgets._toast import Toast  # pyright: ignore[reportPrivateUsage]
from tui_app import make_app, wait_for

from podtui.tui.widgets.notices import MOST, Toasts


def told(toasts: Iterable[Notification]) -> list[tuple[str, str]]:
    return [(one.title, one.message) for one in toasts]


def test_an_equal_notice_stands_once_with_its_count() -> None:
    toasts = Toasts()
    for _ in range(3):
        toasts.add(Notification("nothing is changed", title="Read-only", severity="warning"))
    assert told(toasts) == [("Read-only ×3", "nothing is changed")]


def test_without_a_title_the_count_is_behind_the_message() -> None:
    toasts = Toasts()
    toasts.add(Notification("The last pane stays."))
    toasts.add(Notification("The last pane stays."))
    assert told(toasts) == [("", "The last pane stays. ×2")]


def test_others_between_do_not_make_it_another() -> None:
    toasts = Toasts()
    for message in ("a", "b", "a"):
        toasts.add(Notification(message))
    assert told(toasts) == [("", "b"), ("", "a ×2")]


def test_other_severity_or_title_is_another_notice() -> None:
    toasts = Toasts()
    toasts.add(Notification("a"))
    toasts.add(Notification("a", severity="error"))
    toasts.add(Notification("a", title="t"))
    assert told(toasts) == [("", "a"), ("", "a"), ("t", "a")]


def test_no_more_than_a_few_the_newest() -> None:
    toasts = Toasts()
    for number in range(10):
        toasts.add(Notification(str(number)))
    assert told(toasts) == [("", str(number)) for number in range(10 - MOST, 10)]


def test_one_that_has_gone_counts_from_one_again() -> None:
    toasts = Toasts()
    gone = Notification("a")
    toasts.add(gone)
    del toasts[gone]
    toasts.add(Notification("a"))
    assert told(toasts) == [("", "a")]


async def test_a_refused_key_pressed_ten_times_takes_one_place() -> None:
    app = make_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        for _ in range(10):
            app.notify("podtui runs read-only", title="Read-only", severity="warning")
        app.notify("a")
        app.notify("b")

        def shown() -> list[str]:
            return [toast.render().plain for toast in app.screen.query(Toast)]

        wanted = ["Read-only ×10\npodtui runs read-only", "a", "b"]
        await wait_for(pilot, lambda: shown() == wanted, "three toasts")
