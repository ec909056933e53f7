"""An app on a scripted client, ready for assertions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.errors import NoWidget
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from tui_scene import THEMES, FakeClient, full_client, now

from podtui.api.v1 import Pod
from podtui.tui.app import PodtuiApp
from podtui.tui.commands.agent import Agent
from podtui.tui.commands.agent_supervisor import AgentSupervisor
from podtui.tui.model.model import LinkState
from podtui.tui.preferences.theme_catalogue import ThemeCatalogue
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.widgets.tones import LinesView


async def wait_for(pilot: Pilot[Any], condition: Callable[[], object], what: str) -> None:
    """Run the app until ``condition`` is true."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if condition():
            return
        await pilot.pause(0.02)
    pytest.fail(f"not in time: {what}")


async def notified(app: PodtuiApp, pilot: Pilot[Any], text: str) -> None:
    """Wait for a notification with ``text`` in its title or message."""

    def found() -> bool:
        return any(text in f"{note.title}: {note.message}" for note in app.notices)

    await wait_for(pilot, found, text)


def make_app(
    client: FakeClient | None = None,
    *,
    theme: str = "podtui-dark",
    agent: Agent | None = None,
    compares_folder: bool = True,
    asks_to_switch: bool = False,
    **settings: Any,
) -> PodtuiApp:
    settings.setdefault("now", now)
    requested_path: Path | None = settings.pop("requested_path", Path.cwd() / "static_pods")
    return PodtuiApp(
        full_client() if client is None else client,
        themes=ThemeCatalogue([THEMES], theme),
        supervisor=AgentSupervisor(
            agent, requested_path, compares_folder=compares_folder, asks_to_switch=asks_to_switch
        ),
        **settings,
    )


@asynccontextmanager
async def running(
    client: FakeClient | None = None,
    size: tuple[int, int] = (120, 36),
    *,
    listed: type = Pod,
    **settings: Any,
) -> AsyncIterator[tuple[PodtuiApp, Pilot[None]]]:
    """Start the app, and yield it once it shows the client's objects; those of the kind ``listed``
    must have been listed."""
    app = make_app(client, **settings)
    async with app.run_test(size=size) as pilot:
        await wait_for(
            pilot,
            lambda: (
                app.model.link is LinkState.CONNECTED
                and app.model.is_synced(listed)
                and app.model.pods.keys() <= main(app).pods.table.set.rows.keys()
            ),
            "the pods are shown",
        )
        pilot.press = _settled_press(app, pilot)  # type: ignore[method-assign]
        yield app, pilot


def _settled_press(app: PodtuiApp, pilot: Pilot[None]) -> Callable[..., Awaitable[None]]:
    """Return ``pilot.press`` that also waits until the app has handled the keys.

    On a busy machine, the pilot returns before. A command that a test blocks keeps the app waiting,
    so this ends after a second.
    """
    press = pilot.press

    async def settled(*keys: str) -> None:
        await press(*keys)
        deadline = time.monotonic() + 1.0
        while (app.handling_key.is_set() or app.waiting_keys) and time.monotonic() < deadline:
            await pilot.pause(0.01)

    return settled


def strips_of(app: App[Any]) -> list[Strip]:
    """Return the lines of the screen, including the visible screens behind it."""
    width, height = app.size
    lines = [Strip.blank(width) for _ in range(height)]
    for screen in app.screen_stack:
        for widget, region, clip in _places(screen):
            shown = region.intersection(clip).intersection(app.size.region)
            crop = shown.translate((-region.x, -region.y))
            for y, strip in zip(shown.line_range, widget.render_lines(crop), strict=True):
                line = lines[y]
                lines[y] = Strip.join([line.crop(0, shown.x), strip, line.crop(shown.right, width)])
    return [line.simplify() for line in lines]


def _places(screen: Screen[Any]) -> list[tuple[Widget, Region, Region]]:
    """Return the visible widgets, from back to front: each with its region and its clipping
    region.
    """
    found = [(screen.find_widget(screen), screen)] if screen.styles.background.a == 1 else []
    for widget in screen.walk_children(Widget):
        vertical, horizontal = widget.scrollbars_enabled
        bars = [widget.vertical_scrollbar] * vertical + [widget.horizontal_scrollbar] * horizontal
        for each in (widget, *bars):
            with suppress(NoWidget):
                if each.visible:
                    found.append((screen.find_widget(each), each))
    found.sort(key=lambda place: place[0].order)
    return [(widget, place.region, place.clip) for place, widget in found if place.visible_region]


def screen_text(app: App[Any]) -> str:
    return "\n".join(strip.text for strip in strips_of(app))


def main(app: PodtuiApp) -> MainScreen:
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen


def table_text(app: PodtuiApp, pane: str = "pods") -> list[str]:
    """Return the lines of a table, without trailing spaces."""
    table = {"pods": main(app).pods.table, "events": main(app).events.table}[pane]
    return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


def log_text(view: LogView) -> str:
    """Return the visible lines of a log."""
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


def view_text(view: LinesView) -> str:
    return "\n".join("".join(span.text for span in line) for line in view.lines)


def bar_text(app: PodtuiApp, name: str) -> str:
    from podtui.tui.widgets.bars import Bar

    return app.screen.query_one(f"#{name}", Bar).render_line(0).text.rstrip()
