"""The measured readability of the included themes."""

from __future__ import annotations

import itertools

import pytest
from colour_science import SIGHTS, contrast, distance
from textual.color import Color
from textual.theme import Theme
from tui_scene import THEMES

from podtui.tui.preferences.themes import GROUPS, defaults, load_themes, log_colors, variable
from podtui.tui.views.pod_status import GLYPHS, Family

SHIPPED = {file.theme.name: file.theme for file in load_themes([THEMES]) if file.theme}
FULL = sorted(name for name, theme in SHIPPED.items() if not theme.ansi)
TEXTS = (
    "foreground", "primary", "secondary", "accent", "success", "warning", "error",
    *(variable("text", name) for name in GROUPS["text"]),
    *(variable("phase", name) for name in GROUPS["phase"]),
    "pane-title", "pane-title-focus",
)  # fmt: skip
GROUNDS = ("background", "surface", "panel", "cursor-background", "cursor-blurred")
PAIRS = (
    *((text, ground) for text in TEXTS for ground in GROUNDS),
    ("background", "primary"),
    ("simulated-foreground", "simulated-background"),
)


def colors_of(theme: Theme) -> dict[str, tuple[int, int, int]]:
    values = {**defaults(theme), **theme.to_color_system().generate(), **theme.variables}
    wanted = {name for pair in PAIRS for name in pair} | {"pane-border-focus"}
    return {name: Color.parse(values[name]).rgb for name in wanted}


def test_themes_cover_every_need() -> None:
    assert len(SHIPPED) >= 6
    assert sum(not theme.dark for theme in SHIPPED.values()) >= 2
    assert {"podtui-contrast", "podtui-colorblind", "podtui-terminal"} <= SHIPPED.keys()


@pytest.mark.parametrize("name", FULL)
def test_every_text_has_contrast_on_every_background(name: str) -> None:
    least = 7.0 if "contrast" in name else 4.5
    colors = colors_of(SHIPPED[name])
    weak = {
        f"{text} on {ground}": round(contrast(colors[text], colors[ground]), 2)
        for text, ground in PAIRS
        if contrast(colors[text], colors[ground]) < least
    }
    assert weak == {}


@pytest.mark.parametrize("name", FULL)
def test_the_active_pane_has_a_distinct_border(name: str) -> None:
    colors = colors_of(SHIPPED[name])
    assert contrast(colors["pane-border-focus"], colors["background"]) >= 3


@pytest.mark.parametrize("sight", SIGHTS)
def test_states_are_distinct_for_colour_blind_users(sight: str) -> None:
    values = SHIPPED["podtui-colorblind"].variables
    phases = {name: Color.parse(values[f"phase-{name}"]).rgb for name in GROUPS["phase"]}
    near = {
        f"{one} and {other}": distance(phases[one], phases[other], sight)
        for one, other in itertools.combinations(phases, 2)
        if distance(phases[one], phases[other], sight) < 20
    }
    assert near == {}


@pytest.mark.parametrize("name", FULL)
def test_log_colours_have_contrast(name: str) -> None:
    theme = SHIPPED[name]
    values = {**defaults(theme), **theme.to_color_system().generate(), **theme.variables}
    found = log_colors(theme, values)
    ground = tuple(found.background_color)
    texts = {number: tuple(found.ansi_colors[number]) for number in range(16)}
    weak = {number for number, color in texts.items() if contrast(color, ground) < 4.5}
    assert weak <= {0}, "black alone may be as dark as the ground"


def test_each_state_has_its_own_symbol() -> None:
    assert len(set(GLYPHS.values())) == len(Family)


def test_the_terminals_own_colours_are_all_that_its_theme_uses() -> None:
    theme = SHIPPED["podtui-terminal"]
    ours = {variable(group, part) for group, parts in GROUPS.items() for part in parts}
    assert all(theme.variables[name].startswith("ansi_") for name in ours)
