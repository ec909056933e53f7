"""Changes that arrive while a screen is being opened."""

from __future__ import annotations

from typing import Any

import pytest
from picture_scenes import SCENES as ALL_SCENES
from pictures import Scene, played

from podtui.tui.app import PodtuiApp
from podtui.tui.screens.live_screen import LiveScreen
from podtui.tui.screens.main.main_screen import MainScreen

SCENES: dict[str, Scene] = {
    scene.shows.__name__: scene
    for scene in ALL_SCENES.values()
    if issubclass(scene.shows, LiveScreen) and scene.shows is not MainScreen
}


@pytest.mark.parametrize("name", SCENES)
async def test_a_screen_without_widgets_gets_no_changes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = PodtuiApp.push_screen
    pushed: set[type[Any]] = set()

    def push_then_tick(self: PodtuiApp, screen: Any, *args: Any, **settings: Any) -> Any:
        mounted = push(self, screen, *args, **settings)
        pushed.add(type(screen))
        self.tick()
        return mounted

    monkeypatch.setattr(PodtuiApp, "push_screen", push_then_tick)
    async with played(SCENES[name], monkeypatch):
        assert SCENES[name].shows in pushed
