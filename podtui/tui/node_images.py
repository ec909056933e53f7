"""The tab with the images that the engine has."""

from __future__ import annotations

from podtui.api.images import NodeImage
from podtui.tui.cells import Span
from podtui.tui.node_tables import IMAGE_COLUMNS, image_row, image_summary
from podtui.tui.sanitize import clean, literal
from podtui.tui.table import Table


class NodeImages(Table):
    """The largest on top."""

    def __init__(self, *, id: str) -> None:
        super().__init__(IMAGE_COLUMNS, sort="size", descending=True, id=id)
        self.empty = ((Span("The engine is being asked.", "muted"),),)
        self._names: dict[str, str] = {}

    @property
    def chosen(self) -> str:
        """The image under the cursor by its name, or its id where it has none."""
        return self._names.get(self.cursor_key, "")

    def show_images(self, images: tuple[NodeImage, ...]) -> None:
        self._names = {image.id: next(iter(image.names), image.id) for image in images}
        self.replace(map(image_row, images))
        self.border_subtitle = image_summary(images)
        self.empty = ((Span("The engine has no image.", "muted"),),)

    def show_problem(self, problem: str) -> None:
        """What was shown stays."""
        self.empty = ((Span(clean(problem), "error"),),)
        if len(self.set):
            self.border_subtitle = literal(f"not up to date: {problem}")
