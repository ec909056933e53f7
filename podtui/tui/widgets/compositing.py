"""Draws of the screen what changed, and nothing else.

Textual's own compositor puts one rectangle around all that changed, asks every widget in it for all
of its lines, and prints each changed line from the left edge of its widget on. An age that ticks at
the end of a row costs it the whole row, and the panes between it and the next age. Here only the
widgets that are seen where something changed are asked, for those lines, and those cells printed.

The names with an underscore are Textual's own: it has no other place to say how an update is made.
`tests/tui/test_tui_compositing.py` holds what is drawn here against what Textual draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from textual._compositor import (  # pyright: ignore[reportPrivateImportUsage]
    Compositor,
    CompositorUpdate,
)
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from podtui.tui.widgets.cells import width_of

Place = tuple[Widget, Region, Region]
"""A widget, the part of it that its parents leave in sight, and all of it."""


class Cells(NamedTuple):
    """Cells of one line of the screen, from ``start`` to before ``end``."""

    y: int
    start: int
    end: int


class Seen(NamedTuple):
    """Cells that show a widget which begins at column ``left`` and line ``top``."""

    cells: Cells
    widget: Widget
    left: int
    top: int
    width: int


class Printed(NamedTuple):
    """What to print, and where."""

    x: int
    y: int
    strip: Strip


class CellsUpdate(CompositorUpdate):
    """Prints pieces of lines, each in its place."""

    def __init__(self, pieces: Sequence[Printed]) -> None:
        self.pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for x, y, strip in self.pieces:
            yield Control.move_to(x, y).segment
            yield from strip

    def render_segments(self, console: Console) -> str:
        """The same as a text with its control sequences."""
        return "".join(
            Control.move_to(x, y).segment.text + strip.render(console)
            for x, y, strip in self.pieces
        )


class CellsCompositor(Compositor):
    """Textual's, but for updates of parts."""

    _arranged: Mapping[Widget, tuple[Region, Region]] | None = None
    _places: Sequence[Sequence[Place]] = ()
    """By line, from front to back; made of `_arranged`."""

    def render_partial_update(self) -> CellsUpdate | None:  # type: ignore[override]
        """What changed since the last one; None where nothing in sight did."""
        screen = self.size.region
        regions = [region.intersection(screen) for region in self._dirty_regions]
        self._dirty_regions.clear()
        changed = merged(regions)
        if not changed:
            return None
        visible = self.visible_widgets
        if visible is not self._arranged:
            self._arranged, self._places = visible, by_line(visible, screen.height)
        places = self._places
        seen = [found for cells in changed for found in seen_in(cells, places[cells.y])]
        return CellsUpdate(printed(seen))


def by_line(
    visible: Mapping[Widget, tuple[Region, Region]], height: int
) -> Sequence[Sequence[Place]]:
    """The places on each line of a screen, of widgets with their regions and what these are cut to,
    in the order of the widgets."""
    lines: list[list[Place]] = [[] for _ in range(height)]
    for widget, (region, clip) in visible.items():
        shown = region.intersection(clip)
        for y in range(max(0, shown.y), min(height, shown.bottom)):
            lines[y].append((widget, shown, region))
    return lines


def merged(regions: Iterable[Region]) -> list[Cells]:
    """The cells of regions by line, each once."""
    lines: dict[int, list[tuple[int, int]]] = {}
    for x, y, width, height in regions:
        if width > 0:
            for line in range(y, y + height):
                lines.setdefault(line, []).append((x, x + width))
    found: list[Cells] = []
    for y, spans in sorted(lines.items()):
        spans.sort()
        start, end = spans[0]
        for left, right in spans:
            if left > end:
                found.append(Cells(y, start, end))
                start = left
            end = max(end, right)
        found.append(Cells(y, start, end))
    return found


def seen_in(cells: Cells, places: Iterable[Place]) -> list[Seen]:
    """Which widgets those cells show, of those on their line from front to back."""
    y = cells.y
    bare = [(cells.start, cells.end)]
    found: list[Seen] = []
    for widget, shown, region in places:
        left, right = shown.x, shown.x + shown.width
        if all(right <= start or end <= left for start, end in bare):
            continue
        behind: list[tuple[int, int]] = []
        for start, end in bare:
            first, last = max(start, left), min(end, right)
            if first >= last:
                behind.append((start, end))
                continue
            found.append(Seen(Cells(y, first, last), widget, region.x, region.y, region.width))
            behind += [(a, b) for a, b in ((start, first), (last, end)) if a < b]
        bare = behind
        if not bare:
            break
    return found


def printed(seen: Iterable[Seen]) -> list[Printed]:
    """The pieces of lines, each widget asked for lines that follow each other at once."""
    by_widget: dict[Widget, list[Seen]] = {}
    for found in seen:
        by_widget.setdefault(found.widget, []).append(found)
    pieces: list[Printed] = []
    for widget, those in by_widget.items():
        lines = _lines(widget, those)
        pieces += [_piece(found, lines[found.cells.y]) for found in those]
    return pieces


def _lines(widget: Widget, seen: Sequence[Seen]) -> dict[int, Strip]:
    """The widget's lines by the line of the screen."""
    lines: dict[int, Strip] = {}
    rows = sorted({found.cells.y for found in seen})
    top, width = seen[0].top, seen[0].width
    for _, run in groupby(enumerate(rows), key=lambda numbered: numbered[1] - numbered[0]):
        together = [y for _, y in run]
        strips = widget.render_lines(Region(0, together[0] - top, width, len(together)))
        lines.update(zip(together, strips, strict=True))
    return lines


def _piece(found: Seen, line: Strip) -> Printed:
    """``line`` is the widget's whole line."""
    y, start, end = found.cells
    if start > found.left and not _is_even(line):
        # Half of a wide letter cannot be printed.
        start = max(0, found.left)
    return Printed(start, y, line.crop(start - found.left, end - found.left))


def _is_even(line: Strip) -> bool:
    """Whether each letter takes one cell."""
    return all(segment.text.isascii() or _is_narrow(segment.text) for segment in line)


@lru_cache(maxsize=4096)
def _is_narrow(text: str) -> bool:
    """The same signs and words stand in many lines."""
    return all(width_of(letter) == 1 for letter in text)
