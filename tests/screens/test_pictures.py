"""A picture of every screen and tab, and of each kind of dialog, to find changes that assertions
about cells miss. Look at each changed picture before ``pytest --snapshot-update``.

``test_theme_colours.py`` checks the colours of every theme by numbers, so only some screens are
drawn in a light theme. Dialogs that look like another one have only their text compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import pytest
from picture_scenes import DIALOGS, MAIN_SIZES, OVERVIEW, PICTURES, SCENES
from pictures import DARK, LIGHT, TakenPicture, played, take, wait_until_stable
from screen_classes import dialog_functions, screen_classes
from tui_app import strips_of

from podtui.tui.screens.node.node_screen import NODE_TABS, NodeScreen
from podtui.tui.screens.objects.object_screen import OBJECT_TABS, ObjectScreen
from podtui.tui.screens.pods.pod_screen import POD_TABS, PodScreen

Picture = Callable[..., bool]
IN_LIGHT = ("pod", "node", "why", "menu", "delete")


@lru_cache(maxsize=1)
def picture_of(name: str) -> Mapping[str, str]:
    return take(PICTURES[name], (DARK, LIGHT) if name in IN_LIGHT else (DARK,))


@pytest.mark.parametrize("theme", [DARK])
@pytest.mark.parametrize("size", MAIN_SIZES)
def test_main(snap_compare: Picture, size: tuple[int, int], theme: str) -> None:
    assert snap_compare(TakenPicture(take(OVERVIEW[size], (theme,))[theme]))


@pytest.mark.parametrize(
    ("screen", "theme"),
    [(name, t) for name in PICTURES for t in (DARK, LIGHT) if t == DARK or name in IN_LIGHT],
)
def test_screen(snap_compare: Picture, screen: str, theme: str) -> None:
    assert snap_compare(TakenPicture(picture_of(screen)[theme]))


@pytest.mark.parametrize("name", DIALOGS)
async def test_dialog(name: str, snapshot: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with played(DIALOGS[name], monkeypatch) as (app, pilot):
        await wait_until_stable(pilot)
        box = app.screen.children[0].region
        rows = strips_of(app)[box.y : box.bottom]
        text = "\n".join(row.crop(box.x, box.right).text for row in rows)
    assert text == snapshot


# --- completeness


def test_every_screen_has_a_picture() -> None:
    missing = screen_classes() - {scene.shows for scene in PICTURES.values()}
    assert {kind.__name__ for kind in missing} == set(), "give each a scene in picture_scenes.py"


def test_every_tab_has_a_picture() -> None:
    of_screens = (
        (PodScreen, POD_TABS),
        (NodeScreen, NODE_TABS),
        (ObjectScreen, OBJECT_TABS),
    )
    for screen, tabs in of_screens:
        assert {one.tab for one in PICTURES.values() if one.shows is screen} == set(tabs)


def test_every_confirmation_has_a_scene() -> None:
    assert {scene.opened_by for scene in SCENES.values()} - {""} == dialog_functions()
