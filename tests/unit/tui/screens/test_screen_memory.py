from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from podtui.private_files import write_private
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.run import remembered, theme_of
from podtui.tui.screens.main.layout import View
from podtui.tui.screens.main.screen_memory import (
    MAX_BYTES,
    MAX_LAYOUTS,
    MemoryFile,
    ScreenLayout,
    ScreenMemory,
    layout_of,
    recalled_view,
)
from podtui.tui.widgets.table_pane import TableMemory

LAYOUT = ScreenLayout(
    {"full": 0.4},
    ("events",),
    "node",
    {"pods": TableMemory("cpu", True, ("name", "cpu"), True)},
)
MEMORY = ScreenMemory(LAYOUT, "podtui-light", "podtui-dark")


def test_saved_state_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    MemoryFile(path).write(MEMORY)
    again = MemoryFile(path)
    again.read()
    assert again.memory == MEMORY
    assert not again.problem
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {p.name for p in path.parent.iterdir()} == {"screen.json", "screen.lock"}


def test_each_server_has_its_own_layout_and_all_share_the_theme(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    MemoryFile(path, "/root/one").write(MEMORY)
    other = MemoryFile(path, "/root/two")
    other.read()
    assert other.memory == ScreenMemory(theme="podtui-light", theme_over="podtui-dark")
    other.write(ScreenMemory(ScreenLayout(lower="events")))
    one = MemoryFile(path, "/root/one")
    one.read()
    assert one.memory == ScreenMemory(LAYOUT)


def test_screens_that_close_at_once_save_all_their_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "screen.json"
    second = threading.Thread(target=lambda: MemoryFile(path, "/root/two").write(MEMORY))

    def slow(target: Path, data: bytes) -> None:
        monkeypatch.undo()
        second.start()
        second.join(0.3)
        write_private(target, data)

    monkeypatch.setattr("podtui.tui.screens.main.screen_memory.write_private", slow)
    MemoryFile(path, "/root/one").write(MEMORY)
    second.join()
    for server in ("/root/one", "/root/two"):
        file = MemoryFile(path, server)
        file.read()
        assert file.memory == MEMORY


def test_a_theme_that_another_screen_chose_since_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    first, second = MemoryFile(path, "/root/one"), MemoryFile(path, "/root/two")
    first.read()
    second.read()
    second.write(ScreenMemory(theme="contrast"))
    first.write(ScreenMemory(LAYOUT))
    first.read()
    assert first.memory == ScreenMemory(LAYOUT, theme="contrast")


def test_only_the_layouts_shown_last_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    for number in range(MAX_LAYOUTS + 1):
        MemoryFile(path, f"/root/{number}").write(MEMORY)
    found = [MemoryFile(path, f"/root/{number}") for number in range(MAX_LAYOUTS + 1)]
    for file in found:
        file.read()
    kept = [file.memory.layout == LAYOUT for file in found]
    assert kept == [False, *[True] * MAX_LAYOUTS]


def test_a_missing_state_file_is_accepted(tmp_path: Path) -> None:
    file = MemoryFile(tmp_path / "none.json")
    file.read()
    assert file.memory == ScreenMemory()
    assert not file.problem


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"theme": 1}', '{"layouts": {"": {"tables": {"pods": {"columns": "name"}}}}}',
     "\x00",
     " " * (MAX_BYTES + 1) + "{}"],
)  # fmt: skip
def test_an_invalid_state_file_is_reported_and_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "screen.json"
    path.write_text(text)
    file = MemoryFile(path)
    file.read()
    assert str(path) in file.problem
    assert file.memory == ScreenMemory()


def test_unknown_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_text('{"theme": "contrast", "more": {"of": 1}}')
    file = MemoryFile(path)
    file.read()
    assert file.memory == ScreenMemory(theme="contrast")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "screen.json"
    MemoryFile(path).write(MEMORY)

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("podtui.private_files.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        MemoryFile(path).write(ScreenMemory())
    again = MemoryFile(path)
    again.read()
    assert again.memory == MEMORY
    assert {p.name for p in tmp_path.iterdir()} == {"screen.json", "screen.lock"}


def test_a_layout_is_restored_with_the_pods_visible_and_focused() -> None:
    view = View("node", "node", True, frozenset({"events"}), {"full": 0.4})
    assert recalled_view(layout_of(view, {})) == replace(view, active="pods", zoomed=False)
    every = recalled_view(ScreenLayout(hidden=("pods", "events", "logs", "node")))
    assert every.panes == ("pods",)
    assert every.active == "pods"


@pytest.mark.parametrize(
    "layout",
    [
        ScreenLayout(lower="pods"),
        ScreenLayout(shares={"full": -3.0, "flat": 1e300}),
        ScreenLayout(hidden=("nothing",)),
    ],
)
def test_invalid_values_are_ignored(layout: ScreenLayout) -> None:
    assert recalled_view(layout) == View()


def test_the_state_file_is_in_the_users_state_directory(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    MemoryFile(tmp_path / "podtui" / "screen.json", "/root").write(MEMORY)
    assert remembered(environ, "/root").memory == MEMORY


@pytest.mark.parametrize(
    ("preferences", "theme"),
    [
        (Preferences(), ""),
        (Preferences(theme="podtui-dark"), "podtui-light"),
        (Preferences(theme="contrast"), "contrast"),
        (Preferences(theme="podtui-dark", theme_is_fixed=True), "podtui-dark"),
    ],
)
def test_the_last_selected_theme_takes_precedence(preferences: Preferences, theme: str) -> None:
    file = MemoryFile(None)
    file.memory = MEMORY
    assert theme_of(preferences, file) == theme
    assert theme_of(Preferences(theme="contrast"), MemoryFile(None)) == "contrast"
