"""A manifest with a line cursor, for actions on a line."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.strip import Strip

from podtui.tui.widgets.text_view import TextView


class ManifestText(TextView):
    """A `TextView` whose keys move a cursor; the text scrolls with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"manifest-text--cursor"}
    DEFAULT_CSS = "ManifestText > .manifest-text--cursor { background: $cursor-background; }"

    cursor = 0
    """An index of ``rows``."""

    @property
    def line(self) -> int:
        """The line number (from 1) under the cursor; on a remark, the line that it is about."""
        for row in reversed(self.rows[: self.cursor + 1]):
            if row.number:
                return row.number
        return 1

    def move_to(self, place: int) -> None:
        """Move the cursor to a row and scroll it into view."""
        self.cursor = max(0, min(place, len(self.rows) - 1))
        top, high = round(self.scroll_y), max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + high:
            self.scroll_to(y=self.cursor - high + 1, animate=False)
        self.refresh()

    def _lay_out(self) -> None:
        line = self.line
        super()._lay_out()
        # Keep the cursor on its line: remarks are added and removed above it.
        places = (i for i, row in enumerate(self.rows) if row.number == line)
        self.cursor = next(places, max(0, min(self.cursor, len(self.rows) - 1)))

    def show_line(self, number: int) -> None:
        super().show_line(number)
        self.cursor = next((i for i, row in enumerate(self.rows) if row.number == number), 0)
        self.refresh()

    def _go(self, *, forward: bool) -> None:
        super()._go(forward=forward)
        if self.match_number:
            self.cursor = self._matches[self.match_number - 1]

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if round(self.scroll_y) + y != self.cursor:
            return strip
        background = self.get_component_rich_style("manifest-text--cursor").bgcolor
        app = cast("App[Any]", cast("Any", self).app)
        few = app.native_ansi_color or app.no_color
        under = Style(bgcolor=background, reverse=True if few else None)
        # Apply it on top of the text's own style, which has a background, too.
        return Strip(
            [Segment(text, (style or Style.null()) + under) for text, style, _ in strip],
            strip.cell_length,
        )

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and round(self.scroll_y) + offset.y < len(self.rows):
            self.move_to(round(self.scroll_y) + offset.y)

    def action_scroll_up(self) -> None:
        self.move_to(self.cursor - 1)

    def action_scroll_down(self) -> None:
        self.move_to(self.cursor + 1)

    def action_scroll_home(self) -> None:
        self.move_to(0)

    def action_scroll_end(self) -> None:
        self.move_to(len(self.rows) - 1)

    def action_page_up(self) -> None:
        self.move_to(self.cursor - max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        self.move_to(self.cursor + max(1, self.size.height - 1))
