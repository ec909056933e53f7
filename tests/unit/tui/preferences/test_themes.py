from __future__ import annotations

from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from preference_files import write_theme
from textual.theme import BUILTIN_THEMES
from tui_scene import THEMES

from podtui.tui.preferences import themes
from podtui.tui.preferences.themes import (
    GROUPS,
    defaults,
    load_theme,
    load_themes,
    theme_stamps,
    variable,
)


def test_the_shipped_themes_define_every_colour() -> None:
    files = load_themes([THEMES])
    assert [f.problems for f in files] == [()] * len(files)
    assert [f.theme.name for f in files if f.theme] == [f.path.stem for f in files]
    wanted = {variable(group, name) for group, names in GROUPS.items() for name in names}
    for file in files:
        assert file.theme is not None
        assert wanted <= set(file.theme.variables)


@pytest.mark.parametrize("name", sorted(BUILTIN_THEMES))
def test_every_other_theme_gets_our_variables(name: str) -> None:
    found = defaults(BUILTIN_THEMES[name])
    assert {variable(group, part) for group, parts in GROUPS.items() for part in parts} <= set(
        found
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\ncolors: {primary: bleu}", "mine.yaml:2: colors.primary: 'bleu' is not a colour"),
        ("name: x\ncolours: {}", "mine.yaml:2: colours: unknown; did you mean colors?"),
        ("name: x\ncolors: {primary: red}\nphase: {runing: red}", "did you mean running?"),
        ("name: x\nansi: maybe", "mine.yaml:2: ansi: must be true or false"),
        ("name: x\ncolors: []", "mine.yaml:2: colors: must be a map of colours"),
        ("colors: {primary: red}", "name: is missing"),
        ("name: x", "primary is missing"),
        ("name: [", "mine.yaml:"),
        ("- a", "mine.yaml:1: must be a map"),
        ("", "mine.yaml:1: must be a map"),
    ],
)
def test_errors_are_reported_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    file = load_theme(write_theme(tmp_path, text))
    assert file.theme is None
    assert problem in file.problems[0]


@pytest.mark.parametrize("path", sorted(THEMES.iterdir()), ids=lambda path: path.stem)
def test_shipped_themes_are_read_without_yaml(path: Path) -> None:
    assert themes.parse_plain(path.read_text()) is not None


LINES = st.sampled_from(
    ["a: b", "colors:", "  primary: '#fff'", '  panel: "red" # warm', "# all", "", "  # inside",
     "name: x y", "name: #fff", "  x: *y", " x: 1", "    deep: 1", "-", "---", "a", "b: &y c",
     "dark: yes", "e:  f   ", "  g:\th", 'h: "\\x41"', "i: 'it''s'", "j: |", "k:", "é: è", "? l",
     "m: [n]", "o: {p: q}", "r: 's", "  t: u:v", "w: ~", "x: 12", "  y: a#b", "\ufeffz: 1",
     "a: b\r"]
)  # fmt: skip


@examples(500)
@given(st.lists(LINES, max_size=5))
def test_the_simple_parser_agrees_with_yaml(lines: list[str]) -> None:
    found = themes.parse_plain("\n".join(lines))
    if found is not None:
        assert themes.parse_with_library("\n".join(lines)) == found


def test_a_deeply_nested_file_is_only_a_problem(tmp_path: Path) -> None:
    found = load_theme(write_theme(tmp_path, "[" * 200_000))
    assert (found.theme, found.problems) == (None, ("mine.yaml: longer than 8192 bytes",))
    found = load_theme(write_theme(tmp_path, "[" * 8000))
    assert found.theme is None
    assert found.problems


def test_an_unreadable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    (found,) = load_themes([tmp_path])
    assert found.problems == (f"{tmp_path}: Permission denied",)
    assert theme_stamps([tmp_path]) == {}


def test_a_recursive_map_is_only_a_problem(tmp_path: Path) -> None:
    assert load_theme(write_theme(tmp_path, "colors: &a {primary: *a}")).problems


def test_a_missing_folder_has_no_themes(tmp_path: Path) -> None:
    assert load_themes([tmp_path / "missing"]) == []
    assert load_theme(tmp_path / "missing.yaml").problems


def test_added_changed_and_removed_themes_are_detected(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    folders = [tmp_path, tmp_path / "missing"]
    nothing = theme_stamps(folders)
    file.write_text("name: mine\n")
    came = theme_stamps(folders)
    file.write_text("name: other\n")
    assert len({str(found) for found in (nothing, came, theme_stamps(folders))}) == 3
    file.unlink()
    assert theme_stamps(folders) == nothing
