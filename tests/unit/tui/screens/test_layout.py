from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.geometry import Region

from podtui.tui.screens.main.layout import (
    BAR_ROWS,
    PANES,
    LayoutShape,
    View,
    dividers,
    panes_in,
    resized,
    shape_of,
    sharing,
    with_share,
)

SIZES = {LayoutShape.NARROW: (80, 21), LayoutShape.FLAT: (150, 17), LayoutShape.FULL: (120, 33),
         LayoutShape.SINGLE: (50, 9)}  # fmt: skip


@pytest.mark.parametrize(("shape", "size"), SIZES.items())
def test_shapes(shape: LayoutShape, size: tuple[int, int]) -> None:
    assert shape_of(size[0], size[1] + BAR_ROWS) is shape


VIEWS = st.builds(
    View,
    active=st.sampled_from(PANES),
    lower=st.sampled_from(PANES[1:]),
    zoomed=st.booleans(),
    hidden=st.frozensets(st.sampled_from(PANES), max_size=3),
    shares=st.dictionaries(
        st.sampled_from(["narrow", "flat", "full", "full-lower", "full-left"]),
        st.floats(0.01, 0.99),
    ),
)


@given(st.integers(20, 240), st.integers(8, 80), VIEWS)
def test_panes_never_overlap_and_fill_the_screen(width: int, height: int, view: View) -> None:
    view = view.go(view.active)
    found = panes_in(width, height, view)
    assert view.active in found or shape_of(width, height + BAR_ROWS) in (
        LayoutShape.NARROW,
        LayoutShape.FLAT,
    )
    assert not view.hidden & found.keys()
    regions = list(found.values())
    assert sum(r.area for r in regions) == width * height
    assert not any(a.overlaps(b) for n, a in enumerate(regions) for b in regions[n + 1 :])
    assert all(r.width and r.height for r in regions)


@given(st.sampled_from(list(SIZES)), VIEWS, st.floats(-1, 2))
def test_every_pane_keeps_a_minimum_size(shape: LayoutShape, view: View, share: float) -> None:
    width, height = SIZES[shape]
    view = replace(view.go(view.active), zoomed=False)
    for divider in dividers(width, height, view):
        moved = with_share(view, divider.split.name, share)
        for region in panes_in(width, height, moved).values():
            assert region.height >= 4
            assert region.width >= 20


@pytest.mark.parametrize("shape", [LayoutShape.NARROW, LayoutShape.FLAT, LayoutShape.FULL])
@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("stacked", [True, False])
def test_a_key_zooms_the_pane_and_back(shape: LayoutShape, pane: str, stacked: bool) -> None:
    width, height = SIZES[shape]
    # At 80x24, the lower pane has only one row to give.
    view = with_share(View().go(pane), "narrow", 0.5)
    before = panes_in(width, height, view)[pane]
    larger = resized(width, height, view, 2, stacked=stacked)
    grown = panes_in(width, height, larger)[pane]
    assert grown.area > before.area
    again = resized(width, height, larger, -2, stacked=stacked)
    assert panes_in(width, height, again)[pane] == before


def test_keys_resize_in_their_direction_if_possible() -> None:
    size, view = SIZES[LayoutShape.FULL], View().go("events")
    wider = panes_in(*size, resized(*size, view, 4, stacked=False))["events"]
    taller = panes_in(*size, resized(*size, view, 2, stacked=True))["events"]
    first = panes_in(*size, view)["events"]
    assert (wider.width, wider.height) == (first.width + 4, first.height)
    assert (taller.width, taller.height) == (first.width, first.height + 2)


def test_a_border_between_panes_can_be_dragged() -> None:
    size = SIZES[LayoutShape.FULL]
    regions = panes_in(*size, View())
    found = {d.split.name: d for d in dividers(*size, View())}
    top = found["full"]
    assert top.border == Region(0, regions["pods"].bottom - 1, 120, 2)
    assert found["full-lower"].border.x == regions["logs"].x - 1
    dragged = with_share(View(), "full", top.share_at(60, 20))
    assert panes_in(*size, dragged)["pods"].height == 20


def test_hiding_a_pane_enlarges_the_others() -> None:
    size = SIZES[LayoutShape.FULL]
    view = View().without("node")
    assert panes_in(*size, view)["events"].height == panes_in(*size, view)["logs"].height
    view = view.without("logs")
    found = panes_in(*size, view)
    assert {name: r.width for name, r in found.items()} == {"pods": 120, "events": 120}


def test_hiding_the_active_pane_focuses_another_and_the_last_stays() -> None:
    view = View(active="logs").without("logs")
    assert view.active == "pods"
    assert view.lower == "events"
    for pane in ("events", "node", "pods"):
        view = view.without(pane)
    assert view.panes == ("pods",)
    assert view.without("pods") == view
    assert view.go("logs").panes == ("pods", "logs")


@pytest.mark.parametrize(
    ("shape", "view", "shared"),
    [
        (LayoutShape.NARROW, View(), ("events", "logs", "node")),
        (LayoutShape.NARROW, View(hidden=frozenset({"node"})), ("events", "logs")),
        (LayoutShape.SINGLE, View(), PANES),
        (LayoutShape.FULL, View(), ()),
        (LayoutShape.FULL, View(zoomed=True), PANES),
    ],
)
def test_panes_that_share_a_place(shape: LayoutShape, view: View, shared: tuple[str, ...]) -> None:
    assert sharing(*SIZES[shape], view) == shared
