from __future__ import annotations

import stat
from pathlib import Path

import pytest

from podtui.tui.preferences.preferences import Preferences
from podtui.tui.run import remembered, theme_of
from podtui.tui.screens.main.layout import View
from podtui.tui.screens.main.screen_memory import (
    MAX_BYTES,
    MemoryFile,
    ScreenMemory,
    memory_of,
    recalled_view,
)
from podtui.tui.widgets.table_pane import TableMemory

MEMORY = ScreenMemory(
    {"wide": 0.4},
    ("events",),
    "node",
    "node",
    True,
    {"pods": TableMemory("cpu", True, ("name", "cpu"), True)},
    "podtui-light",
    "podtui-dark",
)


def test_saved_state_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    MemoryFile(path).write(MEMORY)
    again = MemoryFile(path)
    again.read()
    assert again.memory == MEMORY
    assert not again.problem
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["screen.json"]


def test_a_missing_state_file_is_accepted(tmp_path: Path) -> None:
    file = MemoryFile(tmp_path / "none.json")
    file.read()
    assert file.memory == ScreenMemory()
    assert not file.problem


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"zoomed": 1}', '{"tables": {"pods": {"columns": "name"}}}', "\x00",
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
    path.write_text('{"zoomed": true, "more": {"of": 1}}')
    file = MemoryFile(path)
    file.read()
    assert file.memory == ScreenMemory(zoomed=True)


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "screen.json"
    MemoryFile(path).write(MEMORY)

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("podtui.tui.screens.main.screen_memory.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        MemoryFile(path).write(ScreenMemory())
    again = MemoryFile(path)
    again.read()
    assert again.memory == MEMORY
    assert [p.name for p in tmp_path.iterdir()] == ["screen.json"]


def test_views_are_restored() -> None:
    view = View("node", "node", True, frozenset({"events"}), {"wide": 0.4})
    assert recalled_view(memory_of(view, {})) == view


@pytest.mark.parametrize(
    "memory",
    [
        ScreenMemory(active="gone", lower="pods"),
        ScreenMemory(shares={"wide": -3.0, "flat": 1e300}),
        ScreenMemory(hidden=("nothing",)),
    ],
)
def test_invalid_values_are_ignored(memory: ScreenMemory) -> None:
    assert recalled_view(memory) == View()


def test_not_all_panes_can_be_hidden() -> None:
    view = recalled_view(ScreenMemory(hidden=("pods", "events", "logs", "node")))
    assert view.panes == ("node",)
    assert view.active == "node"


def test_the_state_file_is_in_the_users_state_directory(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    MemoryFile(tmp_path / "podtui" / "screen.json").write(MEMORY)
    assert remembered(environ).memory == MEMORY


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
