"""Takes pictures of a screen: one start of the app, one picture in each theme.

A scene lists the steps that open its screen. A picture must not depend on the clock, the machine,
the terminal or earlier tests: clients and times are scripted, cursors do not blink, and the
picture is taken once nothing changes any more.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from picture_world import world
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input
from tui_app import main, make_app, screen_text, strips_of, table_text, wait_for
from tui_scene import LOG, FakeClient

from podtui.tui.app import PodtuiApp
from podtui.tui.model.model import LinkState

DARK: Final = "podtui-dark"
LIGHT: Final = "podtui-light"
BIG: Final = (100, 34)
SMALL: Final = (80, 24)
STILL: Final = 8
"""Consecutive equal checks after which a screen counts as settled."""
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Stage:
    """The app and client of a scene; ``patch`` is undone at its end."""

    app: PodtuiApp
    pilot: Pilot[Any]
    patch: pytest.MonkeyPatch

    def does(self, name: str, action: Callable[[], Awaitable[object]]) -> None:
        """Start an action, as a key does."""

        async def run() -> None:
            await action()

        self.app.session.start(name, run)


Opens = Callable[[Stage], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """``shows`` is the screen that must be open at the end, ``text`` a text that it must show.

    Steps: select the pod ``select``, call ``opens``, press ``keys``. ``opened_by`` is the function
    that opens the dialog, as ``module.function``; ``tab`` is the tab that must be open."""

    shows: type[Screen[Any]]
    text: str
    select: str = "uid-crash-loop"
    opens: Opens | None = None
    keys: Sequence[str] = ()
    size: tuple[int, int] = BIG
    client: Callable[[], FakeClient] = world
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    opened_by: str = ""
    tab: str = ""

    def sized(self, *size: int) -> Scene:
        return dataclasses.replace(self, size=size)


class TakenPicture(App[str]):
    """Stands for the app in `snap_compare`: its picture is already taken."""

    def __init__(self, svg: str) -> None:
        super().__init__()
        self._svg = svg

    def run(self, *args: Any, **settings: Any) -> str:
        return self._svg


def take(scene: Scene, themes: Sequence[str]) -> dict[str, str]:
    """Return the picture as SVG, by theme."""
    with _elsewhere() as patch:
        return asyncio.run(_play(scene, themes, patch))


@contextmanager
def _elsewhere() -> Iterator[pytest.MonkeyPatch]:
    """Use the same time zone and colours on each machine."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", "UTC")
            time.tzset()
            patch.delenv("NO_COLOR", raising=False)
            yield patch
    finally:
        time.tzset()


async def _play(scene: Scene, themes: Sequence[str], patch: pytest.MonkeyPatch) -> dict[str, str]:
    async with played(scene, patch, themes[0]) as (app, pilot):
        taken: dict[str, str] = {}
        for theme in themes:
            app.theme = theme
            await wait_until_stable(pilot)
            taken[theme] = app.export_screenshot(title=app.title, simplify=True)
        return taken


@asynccontextmanager
async def played(
    scene: Scene, patch: pytest.MonkeyPatch, theme: str = DARK
) -> AsyncIterator[tuple[PodtuiApp, Pilot[Any]]]:
    """Return the app once it shows the scene."""
    app = make_app(scene.client(), theme=theme, **scene.settings)
    async with app.run_test(size=scene.size) as pilot:
        await wait_for(pilot, lambda: app.model.link is not LinkState.STARTING, "the agent")
        await wait_for(pilot, lambda: main(app).opened, "the first screen")
        await _choose(app, pilot, scene.select)
        if scene.opens is not None:
            scene.opens(Stage(app, pilot, patch))
            await pilot.pause()
        await pilot.press(*scene.keys)
        await wait_for(pilot, lambda: type(app.screen) is scene.shows, scene.shows.__name__)
        await wait_for(pilot, lambda: scene.text in screen_text(app), scene.text)
        if scene.tab:
            assert getattr(app.screen, "tab", "") == scene.tab
        yield app, pilot


async def _choose(app: PodtuiApp, pilot: Pilot[Any], key: str) -> None:
    if not key:
        return
    await wait_for(pilot, lambda: app.model.usage, "the figures")
    await wait_for(pilot, lambda: main(app).pods.table.select(key), "the pod")
    name = app.model.pods[key].metadata.name
    await wait_for(pilot, lambda: any(name in line for line in table_text(app)), "the pod's row")
    event_count = sum(one.involvedObject.name == name for one in app.model.events.values())

    def log_is_shown() -> bool:
        # The log of the previous pod stays for a moment, and may have as many lines.
        target = main(app).logs.target
        return target is not None and target.key == key

    await wait_for(pilot, log_is_shown, "the pod's own log")
    buffer = main(app).logs.view.buffer
    await wait_for(pilot, lambda: len(buffer) >= len(LOG) + event_count, "the log and its events")


async def wait_until_stable(pilot: Pilot[Any]) -> None:
    """Run the app until nothing changes any more: logs and events arrive asynchronously."""
    last, same = None, 0
    for _ in range(400):
        await pilot.pause(POLL_SECONDS)
        for one in pilot.app.screen.query(Input):
            one.cursor_blink = False
        # Compare cells: much cheaper than pictures.
        cells = strips_of(pilot.app)
        last, same = cells, same + 1 if cells == last else 0
        if same >= STILL:
            return
    pytest.fail("the picture goes on changing")
