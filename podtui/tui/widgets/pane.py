"""A framed part of the screen with a title."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.markup import escape
from textual.widget import Widget

from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.tones import content_style


class Pane(Vertical):
    """A pane; ``number`` is the key that focuses it, if any, ``name_`` its title."""

    DEFAULT_CSS = """
    Pane {
        border: round $pane-border;
        border-title-color: $pane-title;
        border-title-background: $background;
        border-subtitle-color: $tone-muted;
        border-subtitle-background: $background;
        background: $background;
        padding: 0;
        &:focus-within {
            border: round $pane-border-focus;
            border-title-color: $pane-title-focus;
            border-title-style: bold;
        }
    }
    """

    number = 0
    name_ = ""
    _edge_drawn: Region | None = None
    """The only region that `refresh` redraws while `_edge` is active."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._detail = ""
        self._note: str | Line = ""
        self._neighbours: tuple[Pane, ...] = ()

    @property
    def focus_target(self) -> Widget:
        """The widget that gets the keys of the pane."""
        return self

    def clear_query(self) -> bool:
        """Clear the filter or the search. Returns False if there was none."""
        return False

    def set_detail(self, detail: str) -> None:
        """Set the part of the title after the pane's name."""
        if detail != self._detail:
            self._detail = detail
            self._retitle()

    def set_note(self, note: str | Line) -> None:
        """Set the text in the lower border."""
        if note != self._note:
            self._note = note
            spans = (Span(note),) if isinstance(note, str) else note
            content = Content.assemble(*((span.text, content_style(span.tone)) for span in spans))
            with self._edge(self.outer_size.height - 1):
                self.border_subtitle = content if note else None

    def share_with(self, panes: tuple[Pane, ...]) -> None:
        """List the panes that share this one's place as clickable tabs in the title."""
        self._neighbours = panes
        self._retitle()

    def on_mount(self) -> None:
        self._retitle()

    def _retitle(self) -> None:
        detail = f" {escape(self._detail)}" if self._detail else ""
        if len(self._neighbours) < 2:
            number = f"{self.number} " if self.number else ""
            title = f"{number}{self.name_}{detail}"
        else:
            title = " [$tone-muted]│[/] ".join(self._tabs(detail))
        with self._edge(0):
            self.border_title = Content.from_markup(title)

    def _tabs(self, detail: str) -> list[str]:
        return [
            f"[$pane-title-focus bold]{p.number} {p.name_}[/]{detail}"
            if p is self
            else f"[$tone-muted @click=screen.pane('{p.id}')]{p.number} {p.name_}[/]"
            for p in self._neighbours
        ]

    @contextmanager
    def _edge(self, y: int) -> Generator[None]:
        """Limit redrawing to this row of the border.

        By default Textual redraws a widget and all its children when its title changes.
        """
        left, top = self.content_offset
        self._edge_drawn = Region(-left, y - top, self.outer_size.width, 1)
        try:
            yield
        finally:
            self._edge_drawn = None

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        if self._edge_drawn is not None and not regions:
            regions = (self._edge_drawn,)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
