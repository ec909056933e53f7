"""Keys, theme and notifications from the settings, in a running screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from preference_files import read_preferences, write_preferences
from textual.widgets import Input
from tui_app import bar_text, running, wait_for
from tui_scene import full_client, pod, status, waiting

from podtui.tui.app import PodtuiApp
from podtui.tui.preferences.live import PreferencesFile
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.screens.help_screen import HelpScreen
from podtui.tui.widgets.tones import LinesView


async def test_custom_keys_work_and_are_shown(tmp_path: Path) -> None:
    path = write_preferences(
        tmp_path, "keys:\n  app.help: H\n  main.describe: none\n  main.yaml: bogus\n"
    )
    async with running(preferences=read_preferences(path)) as (app, pilot):
        assert "H Help" in bar_text(app, "hints")
        assert any("main.yaml" in n.message for n in app.notices)
        await pilot.press("question_mark", "d")
        assert len(app.screen_stack) == 1
        await pilot.press("H")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("slash", *"Every key", "enter")
        await wait_for(pilot, lambda: app.screen.query_one(Input).value == "Every key", "typed")
        await pilot.press("escape", "slash", *"app.help", "enter", "i")
        view = app.screen.query_one(LinesView)
        await wait_for(pilot, lambda: 0 < len(view.lines) <= 3, "the search")
        shown = "".join(span.text for line in view.lines for span in line)
        assert shown.split() == ["Everywhere", "H", "Help", "app.help"]
        await pilot.press("escape", "escape")
        assert len(app.screen_stack) == 1


async def test_the_file_is_reloaded_and_an_invalid_one_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtui.tui.preferences.file_changes.POLL_SECONDS", 0.02)
    path = tmp_path / "config.yaml"

    def reread() -> Preferences:
        return read_preferences(path)

    file = PreferencesFile(path, reread)
    async with running(preferences_file=file) as (app, pilot):
        write_preferences(tmp_path, "theme: podtui-light\nkeys: {app.help: H}\n")
        await wait_for(pilot, lambda: app.theme == "podtui-light", "the theme")
        assert app.preferred.keymap == {"app.help": "H"}
        write_preferences(tmp_path, "theme: podtui-light\nkeys: [broken\n")
        await wait_for(
            pilot, lambda: any("config.yaml:" in n.message for n in app.notices), "the word"
        )
        assert app.preferred.keymap == {"app.help": "H"}
        write_preferences(tmp_path, "theme: podtui-light\n# nothing else\n")
        await wait_for(pilot, lambda: app.preferred.keymap == {}, "the old keys")


async def test_a_pod_that_crashes_rings_the_bell_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = full_client()
    preferences = Preferences(notify_on=frozenset({"crashLoop"}), notify_by=("bell",))
    async with running(client, preferences=preferences) as (app, pilot):
        written: list[str] = []
        monkeypatch.setattr(type(app), "is_headless", False)
        monkeypatch.setattr("podtui.tui.preferences.live.write_to_terminal", written.append)
        client.change(pod("web", status("nginx", waiting("CrashLoopBackOff"))))
        await wait_for(pilot, lambda: "\x07" in written, "the bell")
        client.change(pod("web", status("nginx", waiting("CrashLoopBackOff"), restarts=9)))
        await wait_for(pilot, lambda: restarts(app, "uid-web") == 9, "the next crash")
        app.publish_pending()
        assert written.count("\x07") == 1


def restarts(app: PodtuiApp, key: str) -> int:
    return app.model.pods[key].status.containerStatuses[0].restartCount
