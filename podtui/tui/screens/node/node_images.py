"""The tab with the images of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.api.local import NodeImage, PullStep
from podtui.api.v1 import Pod
from podtui.tui.commands.images import prune_images, pull_image, remove_image
from podtui.tui.commands.session import Session, session_of
from podtui.tui.views.node.tables import IMAGE_COLUMNS, image_row, image_summary
from podtui.tui.views.pulls import pulls_of, pulls_text, requested_pull
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.sanitize import clean, literal
from podtui.tui.widgets.table import Table

WRITING: Final = frozenset({"pull_image", "remove_image", "prune_images"})


class NodeImages(Table):
    """A table of images, largest first, with keys to pull, remove and prune them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "remove_image", "Remove", id="images.remove",
                tooltip="Remove the image, unless it is in use"),
        Binding("P", "prune_images", "Prune", id="images.prune",
                tooltip="Remove the unused images that podtui pulled"),
        Binding("p", "pull_image", "Pull", id="images.pull",
                tooltip="Pull an image now"),
    ]  # fmt: skip

    class Changed(Message):
        """Posted when the images may have changed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(IMAGE_COLUMNS, sort="size", descending=True, id=id)
        self.empty = ((Span("Loading the images…", "muted"),),)
        self.images: tuple[NodeImage, ...] = ()

    @property
    def chosen(self) -> NodeImage | None:
        """The image under the cursor."""
        return next((one for one in self.images if one.id == self.cursor_key), None)

    def show_images(self, images: tuple[NodeImage, ...]) -> None:
        self.images = images
        self.replace(map(image_row, images))
        self.border_subtitle = image_summary(images)
        self.empty = ((Span("No images.", "muted"),),)

    def show_pulls(self, pods: Iterable[Pod], by_hand: Mapping[str, PullStep]) -> None:
        """Show running pulls in the title: those started by the user and those of pods."""
        found = {image: requested_pull(image, step) for image, step in by_hand.items()}
        for pull in pulls_of(pods):
            found.setdefault(pull.image, pull)
        words = pulls_text(found.values())
        self.border_title = literal(f" ◔ pulling {words} ") if words else ""

    def show_problem(self, problem: str) -> None:
        """Show an error; keep the images shown before."""
        self.empty = ((Span(clean(problem), "error"),),)
        if len(self.set):
            self.border_subtitle = literal(f"not up to date: {problem}")

    # --- commands

    @property
    def session(self) -> Session:
        return session_of(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open" or (action in WRITING and self.session.readonly):
            return False
        return super().check_action(action, parameters)

    def action_remove_image(self) -> None:
        image = self.chosen
        if image is not None:
            self._start("Remove image", lambda: remove_image(self.session, image))

    def action_prune_images(self) -> None:
        self._start("Prune", lambda: prune_images(self.session, self.images))

    def action_pull_image(self) -> None:
        self._start("Pull", lambda: pull_image(self.session))

    def _start(self, name: str, entry: Callable[[], Awaitable[bool]]) -> None:
        async def run() -> None:
            if await entry():
                self.post_message(self.Changed())

        self.session.start(name, run)
