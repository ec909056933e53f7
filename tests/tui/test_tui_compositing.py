"""What is drawn where only parts of the screen changed."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from rich.segment import Segment
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from tui_app import main, running

from podtui.tui.app import PodtuiApp
from podtui.tui.widgets.compositing import (
    Cells,
    CellsCompositor,
    CellsUpdate,
    Place,
    Seen,
    by_line,
    merged,
    printed,
    seen_in,
)


def test_cells_of_regions_are_told_once_and_by_line() -> None:
    regions = [Region(5, 1, 3, 2), Region(0, 2, 5, 1), Region(7, 2, 4, 1), Region(20, 1, 1, 1)]
    assert merged(regions) == [Cells(1, 5, 8), Cells(1, 20, 21), Cells(2, 0, 11)]


def test_a_region_inside_another_adds_nothing() -> None:
    assert merged([Region(0, 0, 10, 1), Region(2, 0, 3, 1), Region(8, 0, 1, 1)]) == [
        Cells(0, 0, 10)
    ]


def test_regions_without_cells_are_nothing() -> None:
    assert merged([Region(3, 0, 0, 1), Region(3, 0, 1, 0)]) == []


class Lined(Widget):
    """Its lines are given; it counts those that it is asked for."""

    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.given = lines
        self.asked: list[int] = []

    def render_lines(self, crop: Region) -> list[Strip]:
        self.asked += crop.line_range
        return [Strip([Segment(self.given[y])]) for y in crop.line_range]


def place(widget: Widget, x: int, y: int, width: int, height: int) -> Place:
    region = Region(x, y, width, height)
    return widget, region, region


def drawn(seen: list[Seen]) -> list[tuple[int, int, str]]:
    return sorted((y, x, strip.text) for x, y, strip in printed(seen))


def test_what_is_in_front_covers_what_is_behind() -> None:
    front, behind = Lined("XX"), Lined("abcdefgh")
    seen = seen_in(Cells(0, 1, 7), [place(front, 3, 0, 2, 1), place(behind, 0, 0, 8, 1)])
    assert drawn(seen) == [(0, 1, "bc"), (0, 3, "XX"), (0, 5, "fg")]


def test_what_is_covered_wholly_is_not_asked() -> None:
    front, behind = Lined("XXXX"), Lined("abcdefgh")
    seen = seen_in(Cells(0, 3, 5), [place(front, 2, 0, 4, 1), place(behind, 0, 0, 8, 1)])
    assert drawn(seen) == [(0, 3, "XX")]
    assert behind.asked == []


def test_only_the_lines_that_changed_are_asked_for() -> None:
    table = Lined(*"abcdef")
    cells = [Cells(1, 0, 1), Cells(2, 0, 1), Cells(5, 0, 1)]
    printed([found for each in cells for found in seen_in(each, [place(table, 0, 0, 1, 6)])])
    assert table.asked == [1, 2, 5]


def test_a_widget_whose_beginning_is_out_of_sight() -> None:
    widget = Lined("abcdefgh", "ijklmnop")
    cut: Place = (widget, Region(0, 0, 4, 1), Region(-2, -1, 8, 2))
    assert drawn(seen_in(Cells(0, 1, 4), [cut])) == [(0, 1, "lmn")]


@pytest.mark.parametrize("line", ["日本 12s", "é日 12s"])
def test_a_line_with_wide_letters_is_printed_from_its_beginning(line: str) -> None:
    seen = seen_in(Cells(0, 3, 8), [place(Lined(line), 0, 0, 8, 1)])
    assert [(x, strip.text) for x, _, strip in printed(seen)] == [(0, line)]


def test_places_are_told_by_line_in_their_order() -> None:
    front, behind = Lined("X"), Lined("abc", "def")
    screen = Region(0, 0, 3, 2)
    lines = by_line({front: (Region(1, 1, 1, 9), screen), behind: (Region(0, -1, 3, 3), screen)}, 2)
    assert [[widget for widget, _, _ in line] for line in lines] == [[behind], [front, behind]]
    assert lines[1][0] == (front, Region(1, 1, 1, 1), Region(1, 1, 1, 9))


# --- against Textual's own


Cell = tuple[str, object]


def cells_of(strip: Strip) -> list[Cell]:
    return [(letter, segment.style) for segment in strip for letter in segment.text]


def compositor(app: PodtuiApp) -> CellsCompositor:
    found = cast("Any", app.screen)._compositor
    assert isinstance(found, CellsCompositor)
    return found


def check(app: PodtuiApp, regions: set[Region]) -> None:
    """Each cell of the regions is printed as a picture of the whole screen has it, none beside."""
    ours = compositor(app)
    whole = [cells_of(strip) for strip in ours.render_strips()]
    cast("Any", ours)._dirty_regions = set(regions)
    update = ours.render_partial_update()
    assert isinstance(update, CellsUpdate)
    found = {
        (x + n, y): cell for x, y, strip in update.pieces for n, cell in enumerate(cells_of(strip))
    }
    wanted = {(x, y) for c in merged(regions) for y in [c.y] for x in range(c.start, c.end)}
    assert found.keys() == wanted
    assert {place: whole[place[1]][place[0]] for place in wanted} == found


async def check_anywhere(app: PodtuiApp, pilot: Pilot[None]) -> None:
    await pilot.pause()
    dice = random.Random(4)
    width, height = app.size
    for _ in range(60):
        regions: set[Region] = set()
        for _ in range(dice.randint(1, 6)):
            x, y = dice.randrange(width), dice.randrange(height)
            regions.add(
                Region(x, y, dice.randint(1, width - x), dice.randint(1, min(4, height - y)))
            )
        check(app, regions)


@pytest.mark.screen
async def test_parts_look_as_in_a_picture_of_the_whole() -> None:
    async with running() as (app, pilot):
        await check_anywhere(app, pilot)
        await pilot.press("y")
        await check_anywhere(app, pilot)


@pytest.mark.screen
async def test_parts_under_a_message_look_so_too() -> None:
    async with running() as (app, pilot):
        app.notify("over the panes", timeout=600)
        await pilot.pause(0.2)
        await check_anywhere(app, pilot)


@pytest.mark.screen
async def test_a_tick_prints_nothing_of_a_row_before_its_first_age() -> None:
    async with running() as (app, pilot):
        await pilot.pause()
        table, ours = main(app).pods.table, compositor(app)
        titles = "".join(letter for letter, _ in cells_of(table.render_line(0)))
        first = table.region.x + titles.index("RESTARTS")
        table.tick(table.now + 1)
        ours.update_widgets({table})
        update = ours.render_partial_update()
        assert update is not None
        assert all(x >= first for x, _, _ in update.pieces)


@pytest.mark.screen
async def test_what_came_since_the_last_update_is_drawn_where_it_is() -> None:
    async with running() as (app, pilot):
        await check_anywhere(app, pilot)
        await pilot.resize_terminal(90, 28)
        await check_anywhere(app, pilot)
        await pilot.press("plus")
        await check_anywhere(app, pilot)
