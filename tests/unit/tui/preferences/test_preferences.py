"""Keys, theme and notifications from the settings, in a running screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from preference_files import read_preferences, write_preferences
from tui_scene import full_client, now

from podtui.errors import UsageError
from podtui.settings import resolve
from podtui.tui.app import PodtuiApp
from podtui.tui.preferences.file_changes import stamp_of
from podtui.tui.preferences.live import user_bindings_of
from podtui.tui.preferences.preferences import preferences_of


def test_each_key_has_its_position_in_the_file(tmp_path: Path) -> None:
    path = write_preferences(
        tmp_path, "theme: podtui-sand\nkeys:\n  app.quit: Q\n  app.hlep: [f1, '?']\n"
    )
    preferences = read_preferences(path)
    assert preferences.theme == "podtui-sand"
    assert preferences.keys == {"app.quit": "Q", "app.hlep": "f1,?"}
    bindings = user_bindings_of(preferences)
    assert bindings is not None
    assert bindings.key_map.keys == {"app.quit": "Q"}
    assert bindings.key_map.problems == (
        f"{path}:4:3: keys.app.hlep: no such binding; did you mean app.help?",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keys: [q]", "keys: must be a map of keys by binding"),
        ("keys: {app.quit: {a: b}}", "keys: must be a key, or a list of keys"),
        ("notifyOn: [crash]", "notifyOn: must be a list of crashLoop, failed, ready, nodeNotReady"),
        ("notifyBy: loud", "notifyBy: must be a list of bell, osc9"),
        ("notifyCommand: {a: b}", "notifyCommand: must be a list such as"),
    ],
)
def test_an_unreadable_file_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    path = write_preferences(tmp_path, text)
    with pytest.raises(UsageError, match=r"config\.yaml:1:1: .*") as caught:
        read_preferences(path)
    assert problem in str(caught.value)


def test_notifications_come_from_file_or_environment(tmp_path: Path) -> None:
    path = write_preferences(
        tmp_path, "notifyBy: [bell]\nnotifyOn: []\nnotifyCommand: [say, 'a b']\n"
    )
    found = read_preferences(path)
    assert (found.notify_by, found.notify_on) == (("bell",), frozenset())
    assert found.notify_command == ("say", "a b")
    environ = {"PODTUI_NOTIFY_BY": "osc9,bell", "PODTUI_KEYS": "app.quit=Q;app.help=f1,?"}
    found = preferences_of(resolve({}, {**environ, "HOME": str(tmp_path)}))
    assert found.notify_by == ("osc9", "bell")
    assert found.keys == {"app.quit": "Q", "app.help": "f1,?"}


def test_a_missing_file_has_no_stamp_and_changes_update_it(tmp_path: Path) -> None:
    assert stamp_of(tmp_path / "none") is None
    path = write_preferences(tmp_path, "a")
    before = stamp_of(path)
    write_preferences(tmp_path, "ab")
    assert before != stamp_of(path)


def test_the_app_works_without_preferences() -> None:
    app = PodtuiApp(full_client(), now=now)
    assert app.preferred.keymap == {}
