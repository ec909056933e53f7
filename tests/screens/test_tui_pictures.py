"""A picture of every screen in a dark and in a light theme: what no assertion about cells would
notice. Look at each before taking a new one (``pytest --snapshot-update``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import pytest
from picture_scenes import MAIN_SIZES, OVERVIEW, SCENES
from pictures import SHOWN_IN, Taken, take
from screen_classes import asking_functions, screen_classes

from podtui.tui.screens.node.node_screen import NODE_TABS, NodeScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.tab_bar import TABS

Picture = Callable[..., bool]


@lru_cache(maxsize=2)
def taken(name: str, size: tuple[int, int] | None = None) -> Mapping[str, str]:
    """Both themes come from one app; they are asked for one after the other."""
    return take(SCENES[name] if size is None else OVERVIEW[size])


@pytest.mark.parametrize("theme", SHOWN_IN)
@pytest.mark.parametrize("size", MAIN_SIZES)
def test_main(snap_compare: Picture, size: tuple[int, int], theme: str) -> None:
    assert snap_compare(Taken(taken("main", size)[theme]))


@pytest.mark.parametrize("theme", SHOWN_IN)
@pytest.mark.parametrize("screen", SCENES)
def test_screen(snap_compare: Picture, screen: str, theme: str) -> None:
    assert snap_compare(Taken(taken(screen)[theme]))


# --- none is without


def test_every_screen_has_its_pictures() -> None:
    missing = screen_classes() - {scene.shows for scene in SCENES.values()}
    assert {kind.__name__ for kind in missing} == set(), "give each a scene in picture_scenes.py"


def test_every_tab_has_its_pictures() -> None:
    for screen, tabs in ((PodScreen, TABS), (NodeScreen, NODE_TABS)):
        assert {one.tab for one in SCENES.values() if one.shows is screen} == set(tabs)


def test_every_question_has_its_pictures() -> None:
    assert {scene.asked_by for scene in SCENES.values()} - {""} == asking_functions()
