from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tui_scene import THEMES

from podtui.tui.preferences.theme_catalogue import ThemeCatalogue
from podtui.tui.preferences.themes import DEFAULT_THEME

BLUE = "name: blue\ncolors: {primary: blue}"
RED = "name: red\ncolors: {primary: red}"


def two_themes(folder: Path) -> ThemeCatalogue:
    (folder / "a.yaml").write_text(BLUE)
    (folder / "b.yaml").write_text(RED)
    return ThemeCatalogue([folder], "red")


def test_themes_follow_each_other_in_a_circle(tmp_path: Path) -> None:
    themes = two_themes(tmp_path)
    assert themes.after("red") is None, "none is loaded yet"
    assert [theme.name for theme in themes.load()] == ["blue", "red"]
    assert [themes.after(name) for name in ("blue", "red", "textual-dark")] == [
        "red", "blue", "blue",
    ]  # fmt: skip


def test_the_first_theme_is_the_wanted_one_or_the_default() -> None:
    assert ThemeCatalogue([], "red").first({"red", DEFAULT_THEME}) == "red"
    assert ThemeCatalogue().first({"red", DEFAULT_THEME}) == DEFAULT_THEME


def test_a_wanted_theme_that_does_not_exist_is_a_problem_but_a_missing_default_is_none() -> None:
    themes = ThemeCatalogue([], "green")
    assert themes.first({"red"}) is None
    assert themes.take_problems() == ["There is no theme 'green'."]
    themes = ThemeCatalogue()
    assert themes.first({"red"}) is None
    assert themes.take_problems() == []


def test_problems_of_files_are_taken_once_and_the_valid_themes_are_used(tmp_path: Path) -> None:
    themes = two_themes(tmp_path)
    (tmp_path / "a.yaml").write_text("name: blue\ncolors: {primary: nonsense}")
    assert [theme.name for theme in themes.load()] == ["red"]
    assert themes.names == ["red"]
    assert "nonsense" in themes.take_problems()[0]
    assert themes.take_problems() == []


def test_the_shipped_themes_are_loaded_without_problems() -> None:
    themes = ThemeCatalogue([THEMES])
    assert DEFAULT_THEME in [theme.name for theme in themes.load()]
    assert themes.take_problems() == []


async def test_a_changed_file_yields_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtui.tui.preferences.file_changes.POLL_SECONDS", 0.01)
    themes, text = two_themes(tmp_path), RED

    async def rewrite() -> None:
        # The watch may still be starting: write until it has seen a change.
        nonlocal text
        while True:
            text += "\n"
            (tmp_path / "b.yaml").write_text(text)
            await asyncio.sleep(0.02)

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        writer = group.create_task(rewrite())
        async for files in themes.changes():
            assert [file.path.name for file in files] == ["a.yaml", "b.yaml"]
            break
        writer.cancel()
