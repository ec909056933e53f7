from __future__ import annotations

from pathlib import Path

import pytest
from preference_files import write_theme
from tui_app import main, running, wait_for
from tui_scene import THEMES

from podtui.tui.preferences.themes import (
    load_themes,
)


async def test_a_changed_theme_is_reloaded_and_an_invalid_one_is_ignored(tmp_path: Path) -> None:
    async with running() as (app, pilot):
        base = (THEMES / "podtui-dark.yaml").read_text()
        path = write_theme(tmp_path, base.replace('running: "#7fd48a"', 'running: "#123456"'))
        table = main(app).pods.table
        app.reload_themes(load_themes([tmp_path]))
        await wait_for(
            pilot,
            lambda: (
                table.tone("running").color is not None
                and table.tone("running").color.name == "#123456"
            ),
            "the new colour",
        )
        path.write_text(base.replace("#7fd48a", "nonsense"))
        app.reload_themes(load_themes([tmp_path]))
        await pilot.pause()
        assert app.theme == "podtui-dark"
        assert table.tone("running").color.name == "#123456"
        assert any("nonsense" in n.message for n in app.notices)


async def test_an_unknown_theme_is_reported_and_the_default_used() -> None:
    async with running(theme="no-such") as (app, pilot):
        await pilot.pause()
        assert any("no-such" in n.message for n in app.notices)


async def test_the_files_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tui_scene import full_client, now

    from podtui.tui.app import PodtuiApp
    from podtui.tui.preferences.theme_catalogue import ThemeCatalogue

    monkeypatch.setattr("podtui.tui.preferences.file_changes.POLL_SECONDS", 0.02)
    base = (THEMES / "podtui-dark.yaml").read_text()
    path = write_theme(tmp_path, base)
    app = PodtuiApp(full_client(), themes=ThemeCatalogue([tmp_path], "podtui-dark"), now=now)
    async with app.run_test() as pilot:
        changed = base.replace('primary: "#6cb6ff"', 'primary: "#ff0000"')

        def is_new() -> bool:
            # The watcher may still be starting: write until it has seen one.
            nonlocal changed
            changed += "\n"
            path.write_text(changed)
            return app.current_theme.primary == "#ff0000"

        await wait_for(pilot, is_new, "the new theme")
        assert app.current_theme.primary == "#ff0000"
