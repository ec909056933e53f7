"""A compositor that redraws only the changed cells of the screen.

Textual's own compositor computes one bounding rectangle of all changes, renders all lines of every
widget in it, and prints each changed line from the left edge of its widget. An updated age at the
end of a row would thus redraw the whole row and all panes between it and the next age. This
compositor renders only the changed lines of the visible widgets and prints only the changed cells.

Names with an underscore are private names of Textual, which has no public hook for updates.
`tests/tui/test_tui_compositing.py` compares the output with Textual's.
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
"""A widget, its visible region (clipped by its parents), and its full region."""


class Cells(NamedTuple):
    """Cells of one screen line, from ``start`` up to but not including ``end``."""

    y: int
    start: int
    end: int


class Seen(NamedTuple):
    """Visible cells of a widget whose region begins at column ``left`` and line ``top``."""

    cells: Cells
    widget: Widget
    left: int
    top: int
    width: int


class Printed(NamedTuple):
    """A strip and the position where it is printed."""

    x: int
    y: int
    strip: Strip


class CellsUpdate(CompositorUpdate):
    """Prints pieces of lines at their positions."""

    def __init__(self, pieces: Sequence[Printed]) -> None:
        self.pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for x, y, strip in self.pieces:
            yield Control.move_to(x, y).segment
            yield from strip

    def render_segments(self, console: Console) -> str:
        """Return the update as text with control sequences."""
        return "".join(
            Control.move_to(x, y).segment.text + strip.render(console)
            for x, y, strip in self.pieces
        )


class CellsCompositor(Compositor):
    """Textual's compositor with cell-wise partial updates."""

    _arranged: Mapping[Widget, tuple[Region, Region]] | None = None
    _places: Sequence[Sequence[Place]] = ()
    """The places on each screen line, from front to back; computed from `_arranged`."""

    def render_partial_update(self) -> CellsUpdate | None:  # type: ignore[override]
        """Return the changes since the last update; None if no visible cell changed."""
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
    """Return the places on each screen line, in the order of ``visible``, which maps each widget to
    its region and clip region."""
    lines: list[list[Place]] = [[] for _ in range(height)]
    for widget, (region, clip) in visible.items():
        shown = region.intersection(clip)
        for y in range(max(0, shown.y), min(height, shown.bottom)):
            lines[y].append((widget, shown, region))
    return lines


def merged(regions: Iterable[Region]) -> list[Cells]:
    """Merge regions into disjoint cell ranges by line."""
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
    """Find the widgets that are visible in some cells.

    ``places`` are the places on that line from front to back.
    """
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
    """Render the pieces; each widget renders consecutive lines in one call."""
    by_widget: dict[Widget, list[Seen]] = {}
    for found in seen:
        by_widget.setdefault(found.widget, []).append(found)
    pieces: list[Printed] = []
    for widget, those in by_widget.items():
        lines = _lines(widget, those)
        pieces += [_piece(found, lines[found.cells.y]) for found in those]
    return pieces


def _lines(widget: Widget, seen: Sequence[Seen]) -> dict[int, Strip]:
    """Render the widget's lines; return them by screen line."""
    lines: dict[int, Strip] = {}
    rows = sorted({found.cells.y for found in seen})
    top, width = seen[0].top, seen[0].width
    for _, run in groupby(enumerate(rows), key=lambda numbered: numbered[1] - numbered[0]):
        together = [y for _, y in run]
        strips = widget.render_lines(Region(0, together[0] - top, width, len(together)))
        lines.update(zip(together, strips, strict=True))
    return lines


def _piece(found: Seen, line: Strip) -> Printed:
    """Cut the found cells out of ``line``, the widget's whole line."""
    y, start, end = found.cells
    if start > found.left and not _is_even(line):
        # Half of a wide character cannot be printed: begin at the left edge of the widget.
        start = max(0, found.left)
    return Printed(start, y, line.crop(start - found.left, end - found.left))


def _is_even(line: Strip) -> bool:
    """Return True if each character takes one cell."""
    return all(segment.text.isascii() or _is_narrow(segment.text) for segment in line)


@lru_cache(maxsize=4096)
def _is_narrow(text: str) -> bool:
    """Cached, because the same symbols and words occur in many lines."""
    return all(width_of(letter) == 1 for letter in text)
