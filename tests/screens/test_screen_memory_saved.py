from __future__ import annotations

from pathlib import Path

from tui_app import running

from podtui.tui.preferences.preferences import Preferences
from podtui.tui.run import theme_of
from podtui.tui.screens.main.screen_memory import (
    MemoryFile,
)


async def test_a_theme_selected_by_a_key_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    settings = Preferences(theme="podtui-dark")
    async with running(memory=MemoryFile(path), preferences=settings) as (app, pilot):
        await pilot.press("T")
        chosen = app.theme
        assert chosen != "podtui-dark"
        await pilot.press("q")
    again = MemoryFile(path)
    again.read()
    assert theme_of(settings, again) == chosen
    # A theme for a single run does not change the saved choice.
    once = Preferences(theme="podtui-dark", theme_is_fixed=True)
    async with running(memory=again, preferences=once) as (app, pilot):
        await pilot.press("T", "T", "q")
    again.read()
    assert theme_of(settings, again) == chosen
