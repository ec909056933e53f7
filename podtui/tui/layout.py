"""Where the four panes go in the room there is.

From 160 columns on pods and events stand left, logs and node right; from 120 on pods take the whole
width; below that there are two panes, the lower one switched by tabs; below 60 by 15 a single one.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

PANES: Final = ("pods", "events", "logs", "node")
CHROME: Final = 3
"""Rows above and below the panes: header, key hints, status."""


class Shape(Enum):
    WIDE = auto()
    MEDIUM = auto()
    NARROW = auto()
    FLAT = auto()
    """Wide but low: two panes side by side."""
    SINGLE = auto()


def shape_of(width: int, height: int) -> Shape:
    """The shape for a terminal of this size."""
    if width < 60 or height < 15:
        return Shape.SINGLE
    if height >= 30 and width >= 120:
        return Shape.WIDE if width >= 160 else Shape.MEDIUM
    return Shape.FLAT if width >= 140 else Shape.NARROW


def panes_in(width: int, height: int, active: str, lower: str, zoomed: bool) -> dict[str, Region]:
    """The panes that are shown in a body of this size, and where.

    ``active`` has the keyboard; ``lower`` is the chosen one of those that share a place.
    """
    shape = shape_of(width, height + CHROME)
    whole = Region(0, 0, width, height)
    if zoomed or shape is Shape.SINGLE:
        return {active: whole}
    if shape is Shape.NARROW:
        top = max(7, round(height * 0.48))
        return {"pods": Region(0, 0, width, top), lower: Region(0, top, width, height - top)}
    if shape is Shape.FLAT:
        left = round(width * 0.55)
        return {"pods": Region(0, 0, left, height), lower: Region(left, 0, width - left, height)}
    if shape is Shape.MEDIUM:
        top, left = round(height * 0.42), width // 2
        middle = round((height - top) * 0.54)
        return {
            "pods": Region(0, 0, width, top),
            "events": Region(0, top, left, middle),
            "node": Region(0, top + middle, left, height - top - middle),
            "logs": Region(left, top, width - left, height - top),
        }
    left, top = round(width * 0.55), round(height * 0.58)
    right_top = height - max(12, round(height * 0.38))
    return {
        "pods": Region(0, 0, left, top),
        "events": Region(0, top, left, height - top),
        "logs": Region(left, 0, width - left, right_top),
        "node": Region(left, right_top, width - left, height - right_top),
    }


class PanesLayout(Layout):
    """Arranges the children whose ids are among `PANES`."""

    name = "panes"

    def __init__(self) -> None:
        self.active = "pods"
        self.lower = "logs"
        self.zoomed = False

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        parent.pre_layout(self)
        regions = panes_in(size.width, size.height, self.active, self.lower, self.zoomed)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]


class Body(Container):
    """Holds the panes and has them arranged."""

    DEFAULT_CSS = "Body { height: 1fr; }"

    def __init__(self, panes: PanesLayout) -> None:
        super().__init__(id="body")
        self._panes = panes

    @property
    def layout(self) -> Layout:
        return self._panes
