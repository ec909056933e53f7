"""The body of the main screen: contains, arranges, resizes and hides the panes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace
from textual import events
from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from podtui.tui.widgets.pane import Pane

PANES: Final = ("pods", "events", "logs", "node")

BAR_ROWS: Final = 3
"""Rows above and below the panes: header, key hints, status line."""

LEAST_ROWS: Final = 4

LEAST_COLUMNS: Final = 20
"""Minimum size of a pane after resizing."""


class LayoutShape(Enum):
    FULL = auto()
    """All four panes: the pods above, over the whole width, for their long messages."""
    NARROW = auto()
    FLAT = auto()
    """Wide but low: two panes side by side."""
    SINGLE = auto()


def shape_of(width: int, height: int) -> LayoutShape:
    """Return the shape for a terminal of this size."""
    if width < 60 or height < 15:
        return LayoutShape.SINGLE
    if height >= 30 and width >= 120:
        return LayoutShape.FULL
    return LayoutShape.FLAT if width >= 140 else LayoutShape.NARROW


class Split(Struct, frozen=True):
    """A division of an area: ``first`` is above (``stacked``) or left of ``second``. ``share`` is
    the default part of ``first``; ``least`` is the minimum number of cells of both by default.
    """

    name: str
    stacked: bool
    first: Tree
    second: Tree
    share: float
    least: tuple[int, int] = (0, 0)


Tree = Split | str
"""The name of a pane, or a divided area."""

LOWER: Final = "lower"
"""Placeholder for the selected one of the panes that share a place."""

_TREES: Final[Mapping[LayoutShape, Tree]] = {
    LayoutShape.NARROW: Split("narrow", True, "pods", LOWER, 0.55, (16, 5)),
    LayoutShape.FLAT: Split("flat", False, "pods", LOWER, 0.55),
    LayoutShape.FULL: Split(
        "full", True, "pods",
        Split("full-lower", False,
              Split("full-left", True, "events", "node", 0.54), "logs", 0.5),
        0.5,
    ),
}  # fmt: skip


class View(Struct, frozen=True):
    """The state of the panes.

    ``active`` has the keyboard focus; ``lower`` is the selected one of those that share a place;
    ``shares`` maps the resized splits by name to the part of their first half.
    """

    active: str = "pods"
    lower: str = "logs"
    zoomed: bool = False
    hidden: frozenset[str] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict[str, float])

    def go(self, pane: str) -> View:
        """Return the view with a pane focused, and shown if it was hidden."""
        lower = self.lower if pane == "pods" else pane
        return replace(self, active=pane, lower=lower, hidden=self.hidden - {pane})

    def without(self, pane: str) -> View:
        """Return the view with a pane hidden; the last pane cannot be hidden."""
        left = [name for name in self.panes if name != pane]
        if not left or pane not in self.panes:
            return self
        active = left[0] if self.active == pane else self.active
        others = [name for name in left if name != "pods"]
        lower = self.lower if self.lower in others or not others else others[0]
        return replace(self, hidden=self.hidden | {pane}, active=active, lower=lower,
                       zoomed=False)  # fmt: skip

    @property
    def panes(self) -> tuple[str, ...]:
        """The panes that are not hidden."""
        return tuple(name for name in PANES if name not in self.hidden)


class Divider(Struct, frozen=True):
    """The border between the halves of a split: ``border`` is its cells, ``room`` the whole
    area."""

    split: Split
    border: Region
    room: Region
    first: Region

    def share_at(self, x: int, y: int) -> float:
        """Return the part of the first half if the border is dragged to a cell."""
        if self.split.stacked:
            return (y - self.room.y) / max(1, self.room.height)
        return (x - self.room.x) / max(1, self.room.width)


def panes_in(width: int, height: int, view: View) -> dict[str, Region]:
    """Return the regions of the visible panes in a body of this size."""
    whole = Region(0, 0, width, height)
    tree = _tree(width, height, view)
    return {view.active: whole} if tree is None else dict(_pane_regions(tree, whole, view))


def dividers(width: int, height: int, view: View) -> list[Divider]:
    """Return the borders that can be dragged, the outer ones first."""
    tree = _tree(width, height, view)
    return [] if tree is None else list(_borders(tree, Region(0, 0, width, height), view))


def sharing(width: int, height: int, view: View) -> tuple[str, ...]:
    """Return the panes that share one place, to be listed in its title."""
    shape = shape_of(width, height + BAR_ROWS)
    if shape is LayoutShape.SINGLE or view.zoomed:
        return view.panes
    if shape in (LayoutShape.NARROW, LayoutShape.FLAT):
        return tuple(name for name in view.panes if name != "pods")
    return ()


def resized(width: int, height: int, view: View, cells: int, *, stacked: bool) -> View:
    """Return the view with the active pane larger by ``cells``: in height if ``stacked``, else in
    width. If it cannot change in this direction, it changes in the other one.
    """
    candidates = [d for d in dividers(width, height, view) if view.active in _names(d.split)]
    fitting = [d for d in candidates if d.split.stacked is stacked] or candidates
    if not fitting:
        return view
    near = fitting[-1]
    size = near.room.height if near.split.stacked else near.room.width
    now = near.first.height if near.split.stacked else near.first.width
    grows = view.active in _names(near.split.first)
    return with_share(view, near.split.name, (now + (cells if grows else -cells)) / max(1, size))


def with_share(view: View, split: str, share: float) -> View:
    """Return the view with the part of a split's first half set to ``share``."""
    return replace(view, shares={**view.shares, split: round(min(0.95, max(0.05, share)), 4)})


def _tree(width: int, height: int, view: View) -> Tree | None:
    """Return the division without hidden panes; None if the active pane fills the area."""
    shape = shape_of(width, height + BAR_ROWS)
    if view.zoomed or shape is LayoutShape.SINGLE:
        return None
    return _pruned(_TREES[shape], view)


def _pruned(tree: Tree, view: View) -> Tree | None:
    if isinstance(tree, str):
        name = _lower(view) if tree == LOWER else tree
        return None if name is None or name in view.hidden else name
    first, second = _pruned(tree.first, view), _pruned(tree.second, view)
    if first is None or second is None:
        return first or second
    return replace(tree, first=first, second=second)


def _lower(view: View) -> str | None:
    others = [name for name in view.panes if name != "pods"]
    return view.lower if view.lower in others else next(iter(others), None)


def _split_region(split: Split, room: Region, view: View) -> tuple[Region, Region]:
    size = room.height if split.stacked else room.width
    wanted = view.shares.get(split.name)
    first = round(size * (split.share if wanted is None else wanted))
    if wanted is None:
        first = min(max(first, split.least[0]), size - split.least[1])
    least = _minimum_size(split.first, stacked=split.stacked)
    most = size - _minimum_size(split.second, stacked=split.stacked)
    first = min(max(first, least), most) if least <= most else size // 2
    return room.split_horizontal(first) if split.stacked else room.split_vertical(first)


def _minimum_size(tree: Tree, *, stacked: bool) -> int:
    """Return the minimum rows (``stacked``) or columns of the panes below."""
    if isinstance(tree, str):
        return LEAST_ROWS if stacked else LEAST_COLUMNS
    halves = (
        _minimum_size(tree.first, stacked=stacked),
        _minimum_size(tree.second, stacked=stacked),
    )
    return sum(halves) if tree.stacked is stacked else max(halves)


def _pane_regions(tree: Tree, room: Region, view: View) -> Iterator[tuple[str, Region]]:
    if isinstance(tree, str):
        yield tree, room
        return
    first, second = _split_region(tree, room, view)
    yield from _pane_regions(tree.first, first, view)
    yield from _pane_regions(tree.second, second, view)


def _borders(tree: Tree, room: Region, view: View) -> Iterator[Divider]:
    if isinstance(tree, str):
        return
    first, second = _split_region(tree, room, view)
    border = (
        Region(room.x, second.y - 1, room.width, 2)
        if tree.stacked
        else Region(second.x - 1, room.y, 2, room.height)
    )
    yield Divider(tree, border, room, first)
    yield from _borders(tree.first, first, view)
    yield from _borders(tree.second, second, view)


def _names(tree: Tree) -> set[str]:
    """Return the panes below a division."""
    if isinstance(tree, str):
        return {tree}
    return _names(tree.first) | _names(tree.second)


ROWS, COLUMNS = 2, 4
"""Cells by which a key resizes a pane."""


class PanesLayout(Layout):
    """Arranges the children whose IDs are the visible panes of ``view``."""

    name = "panes"

    def __init__(self) -> None:
        self.view = View()

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        regions = panes_in(size.width, size.height, self.view)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]


class Body(Container):
    """Shows the panes as its ``view`` defines; borders between them are dragged with the mouse."""

    DEFAULT_CSS = "Body { height: 1fr; }"

    class Arranged(Message):
        """Posted after panes were resized, zoomed, hidden or shown."""

    def __init__(self, panes: Sequence[Pane]) -> None:
        super().__init__(*panes, id="body")
        self._layout_ = PanesLayout()
        self._panes = {str(pane.id): pane for pane in panes}
        self._shown: dict[str, Region] = {}
        self._room = Size(80, 24 - BAR_ROWS)
        self._dragged: Divider | None = None
        self._grip = (0, 0)

    @property
    def layout(self) -> Layout:
        return self._layout_

    @property
    def view(self) -> View:
        return self._layout_.view

    @property
    def shape(self) -> LayoutShape:
        return shape_of(self._room.width, self._room.height + BAR_ROWS)

    @property
    def shown(self) -> frozenset[str]:
        """The panes that are visible."""
        width, height = self._room
        return frozenset(panes_in(width, height, self.view))

    @property
    def shares_place(self) -> bool:
        """True if events, logs and node share one place."""
        return self.shape in (LayoutShape.NARROW, LayoutShape.FLAT)

    def pane(self, name: str) -> Pane:
        return self._panes[name]

    def show_view(self, view: View) -> None:
        """Arrange the panes by ``view``."""
        if view != self.view:
            self._layout_.view = view
            self.place()
            self.post_message(self.Arranged())

    def fit(self, width: int, height: int) -> None:
        """Use the space that a terminal of this size leaves."""
        self._room = Size(width, max(1, height - BAR_ROWS))
        self.place()

    def place(self) -> None:
        """Place the panes, and set the titles of those that share a place."""
        width, height = self._room
        shown = panes_in(width, height, self.view)
        shared = tuple(self._panes[name] for name in sharing(width, height, self.view))
        for name, pane in self._panes.items():
            pane.display = name in shown
            pane.share_with(shared if pane in shared else ())
        # Ask a child: Textual updates the layout of the ancestors of the widget that asks.
        self._panes[self.view.active].refresh(layout=True)
        if shown != self._shown:
            self._shown = shown
            self.call_after_refresh(self._update_sizes)

    def _update_sizes(self) -> None:
        """Make sure that every widget knows its size. Textual compares layouts to find the widgets
        to notify, and misses a change if a widget's region was queried between the two layouts.
        """
        for name in self._shown:
            pane = self._panes[name]
            for widget in (pane, *pane.children):
                widget.post_message(
                    events.Resize(widget.size, widget.virtual_size, widget.container_size)
                )

    def resize_active(self, step: int, *, stacked: bool) -> None:
        """Make the active pane larger, or smaller with a negative step."""
        width, height = self._room
        cells = step * (ROWS if stacked else COLUMNS)
        self.show_view(resized(width, height, self.view, cells, stacked=stacked))

    # --- dragging

    def _divider_at(self, x: int, y: int) -> Divider | None:
        width, height = self._room
        touched = [d for d in dividers(width, height, self.view) if d.border.contains(x, y)]
        return touched[-1] if touched else None

    def _inside(self, event: events.MouseEvent) -> tuple[int, int]:
        return event.screen_x - self.region.x, event.screen_y - self.region.y

    def on_mouse_down(self, event: events.MouseDown) -> None:
        x, y = self._inside(event)
        self._dragged = divider = self._divider_at(x, y) if event.button == 1 else None
        if divider is not None:
            # A border is two cells wide: the last of one pane and the first of the next.
            self._grip = (x - divider.border.x - 1, y - divider.border.y - 1)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is None:
            return
        if event.button != 1:
            # The button was released outside the panes.
            self._dragged = None
            return
        x, y = self._inside(event)
        share = self._dragged.share_at(x - self._grip[0], y - self._grip[1])
        self.show_view(with_share(self.view, self._dragged.split.name, share))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragged = None
