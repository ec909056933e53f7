"""The body of the main screen: contains, arranges, resizes and hides the panes."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from podtui.tui.screens.main.arrangement import (
    CHROME,
    Divider,
    Shape,
    View,
    dividers,
    panes_in,
    resized,
    shape_of,
    sharing,
    with_share,
)
from podtui.tui.widgets.pane import Pane

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
        self._room = Size(80, 24 - CHROME)
        self._dragged: Divider | None = None
        self._grip = (0, 0)

    @property
    def layout(self) -> Layout:
        return self._layout_

    @property
    def view(self) -> View:
        return self._layout_.view

    @property
    def shape(self) -> Shape:
        return shape_of(self._room.width, self._room.height + CHROME)

    @property
    def shares_place(self) -> bool:
        """True if events, logs and node share one place."""
        return self.shape in (Shape.NARROW, Shape.FLAT)

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
        self._room = Size(width, max(1, height - CHROME))
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
            self.call_after_refresh(self._tell_sizes)

    def _tell_sizes(self) -> None:
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
        found = [d for d in dividers(width, height, self.view) if d.place.contains(x, y)]
        return found[-1] if found else None

    def _inside(self, event: events.MouseEvent) -> tuple[int, int]:
        return event.screen_x - self.region.x, event.screen_y - self.region.y

    def on_mouse_down(self, event: events.MouseDown) -> None:
        x, y = self._inside(event)
        self._dragged = found = self._divider_at(x, y) if event.button == 1 else None
        if found is not None:
            # A border is two cells wide: the last of one pane and the first of the next.
            self._grip = (x - found.place.x - 1, y - found.place.y - 1)

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
