"""The tabs of the node screen that are more than a table: usage history, images, what-if."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input
from textual.worker import Worker

from podtui.api.insight import InsightQuery, NodeInsight
from podtui.api.local import ManifestState, NodeImage, PullStep
from podtui.api.v1 import Pod
from podtui.errors import ApiError, PodtuiError
from podtui.tui.commands.images import prune_images, pull_image, remove_image
from podtui.tui.commands.session import Session, session_of
from podtui.tui.views.node.allocation import Gauge
from podtui.tui.views.node.history import history_lines, observed_usage, recorded_usage
from podtui.tui.views.node.tables import IMAGE_COLUMNS, image_row, image_summary
from podtui.tui.views.node.what_if import EXAMPLE, QueryError, is_query, parse_query, verdict_lines
from podtui.tui.views.pulls import pulls_of, pulls_text, requested_pull
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.chart import SPANS, USUAL, next_span
from podtui.tui.widgets.sanitize import clean, literal
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView

WAIT_SECONDS: Final = 30.0
"""Seconds that the agent may hold a request for the history until there is new data."""
RETRY_SECONDS: Final = 5.0
"""Seconds between a failed request and the next one."""
LEAST_SECONDS: Final = 1.0
"""Minimum seconds between two requests."""


class NodeHistoryView(LinesView):
    """The node's usage history, recorded by the agent or else by this screen. Polls the agent while
    it exists.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "span(-1)", "Shorter", key_display="[",
                id="node-history.shorter", tooltip="Show less of the past, down to 15 minutes"),
        Binding("right_square_bracket", "span(1)", "Longer", key_display="]",
                id="node-history.longer", tooltip="Show more of the past, up to 7 days"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._span = USUAL
        self._insight: NodeInsight | None = None
        self._gauges: Sequence[Gauge] = ()
        self._asking: Worker[None] | None = None

    @property
    def session(self) -> Session:
        return session_of(self)

    def on_mount(self) -> None:
        self._request()

    def show_gauges(self, gauges: Sequence[Gauge]) -> None:
        """Update the node's resources."""
        self._gauges = gauges
        self._draw()

    def history(self, width: int, height: int) -> list[Line]:
        """Return the plots for another widget, without the key hints."""
        return self._lines(width, height, keys=False)

    def _lines(self, width: int, height: int, *, keys: bool = True) -> list[Line]:
        now = self.session.now()
        if self._insight is not None:
            past = recorded_usage(self._insight)
        else:
            past = observed_usage(tuple(self.session.model.node_history.samples), now, self._span)
        return history_lines(self._gauges, past, now, self._span, width, height, keys=keys)

    def action_span(self, step: int) -> None:
        selected = next_span(self._span, step)
        if selected != self._span:
            self._span = selected
            self._request()
            self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        if self.size.width:
            self.show(self._lines(max(20, self.size.width - 1), max(8, self.size.height)))

    def _request(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._asking = self.run_worker(partial(self._poll, SPANS[self._span]), name="node history")

    async def _poll(self, span: float) -> None:
        """Poll forever; return only if the server keeps no history."""
        seen = ""
        while True:
            wait = WAIT_SECONDS if seen else 0.0
            query = InsightQuery(span=span, seen=seen, wait=wait)
            try:
                insight = await self.session.client.node_insight(query)
            except PodtuiError as error:
                if isinstance(error, ApiError) and error.code in (404, 405, 501):
                    return
                seen = ""
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if insight is not None:
                self._insight, seen = insight, insight.version
                self._draw()
            await asyncio.sleep(LEAST_SECONDS)


WRITING: Final = frozenset({"pull_image", "remove_image", "prune_images"})
"""Actions that are hidden if the screen is read-only."""


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
        return next((image for image in self.images if image.id == self.cursor_key), None)

    def show_images(self, images: tuple[NodeImage, ...]) -> None:
        self.images = images
        self.replace(map(image_row, images))
        self.border_subtitle = image_summary(images)
        self.empty = ((Span("No images.", "muted"),),)

    def show_pulls(self, pods: Iterable[Pod], by_hand: Mapping[str, PullStep]) -> None:
        """Show running pulls in the title: those started by the user and those of pods."""
        pulls = {image: requested_pull(image, step) for image, step in by_hand.items()}
        for pull in pulls_of(pods):
            pulls.setdefault(pull.image, pull)
        text = pulls_text(pulls.values())
        self.border_title = literal(f" ◔ pulling {text} ") if text else ""

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
        if action == "open":
            return False
        if action in WRITING and self.session.readonly:
            return None  # disabled: the app refuses its key
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


DEBOUNCE: Final = 0.25
"""Seconds after the last key until the agent gets the request."""
AGAIN: Final = 2.0
"""Minimum seconds between two requests when the node changes."""
MAX_BYTES: Final = 1 << 20
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def manifest_files(manifests: Iterable[Path]) -> dict[str, Path]:
    """Return the selectable files by display name: first the ``manifests`` of the manifest
    folder, then those of its subfolders (``gallery/web.yaml``). Blocks."""
    paths = sorted(manifests)
    files = {path.name: path for path in paths}
    for folder in sorted({path.parent for path in paths}):
        for path in sorted(folder.glob("*/*")):
            hidden = path.parent.name.startswith(".")
            if path.suffix in _SUFFIXES and not hidden and path.is_file():
                files.setdefault(f"{path.parent.name}/{path.name}", path)
    return files


def question(text: str, files: Mapping[str, Path]) -> bytes:
    """Return the manifest for the typed text. Raises `QueryError`. Blocks if it reads a file."""
    typed = text.strip()
    if is_query(typed):
        return parse_query(typed).manifest()
    try:
        path = files.get(typed) or Path(typed).expanduser()
    except RuntimeError as error:
        raise QueryError(f"{typed!r} is in the home directory of an unknown user") from error
    if typed not in files and not path.is_file():
        return parse_query(typed).manifest()
    try:
        with path.open("rb") as file:
            manifest = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise QueryError(f"{path}: {error.strerror or error}") from error
    if len(manifest) > MAX_BYTES:
        raise QueryError(f"{path}: larger than 1 MiB")
    return manifest


def hint_lines(files: Iterable[str], width: int) -> list[Line]:
    """Return the help text with the accepted input and the files."""
    lines: list[Line] = [
        (Span("Would a pod fit? ", "heading"), Span("The check starts nothing.", "muted")),
        (),
        *wrap((Span("  requests   ", "key"), Span(EXAMPLE, "soft")), width, indent=13),
        *wrap(
            (Span("             "), Span("also ephemeral-storage=, priority=, name=", "muted")),
            width, indent=13,
        ),
        *wrap(
            (Span("  a file     ", "key"), Span("a name or path; ", "soft"),
             Span("↓ ↑", "hint-key"), Span(" select one of these:", "soft")),
            width, indent=13,
        ),
    ]  # fmt: skip
    return [*lines, *((Span(f"             {clean(name)}", "name"),) for name in files)]


class WhatIfView(Vertical):
    """``input`` takes the question, ``verdict`` shows the answer while the user types."""

    # These keys have priority because the Input would use them itself.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "file(1)", "Next file", key_display="↓", id="what-if.next",
                priority=True, tooltip="Check the next file of the folder"),
        Binding("up", "file(-1)", "Previous file", show=False, id="what-if.before",
                priority=True, tooltip="Check the previous file of the folder"),
        Binding("pagedown", "scroll_verdict(1)", "Page down", show=False, id="what-if.page-down",
                priority=True, tooltip="Scroll down in the answer"),
        Binding("pageup", "scroll_verdict(-1)", "Page up", show=False, id="what-if.page-up",
                priority=True, tooltip="Scroll up in the answer"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    WhatIfView {
        & > Input {
            border: round $pane-border; height: 3; padding: 0 1; background: $background;
            border-title-color: $pane-title; border-title-background: $background;
            &:focus { border: round $pane-border-focus; background-tint: $background 0%; }
        }
        & > LinesView { height: 1fr; padding: 0 2; margin: 1 0 0 0; background: $background; }
    }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.input = Input(
            placeholder=f"{EXAMPLE}, or a file", select_on_focus=False, id="what-if-input"
        )
        self.verdict = LinesView(id="what-if-verdict")
        self._files: dict[str, Path] = {}
        self._asked_at = 0.0

    def compose(self) -> ComposeResult:
        self.input.border_title = "What if …"
        yield self.input
        yield self.verdict

    @property
    def session(self) -> Session:
        return session_of(self)

    def open(self, text: str = "") -> None:
        """List the available files; ask about ``text`` unless it is empty."""
        self.run_worker(partial(self._open, text), group="what-if-files", exclusive=True)

    async def _open(self, text: str) -> None:
        manifests = self.session.model.manifests.values()
        paths = [
            Path(m.spec.path) for m in manifests if m.status.state is not ManifestState.IGNORED
        ]
        self._files = await asyncio.to_thread(manifest_files, paths)
        self.input.suggester = SuggestFromList(list(self._files))
        if text and text != self.input.value:
            self.input.value = text
            self.input.cursor_position = len(text)
        elif not self.input.value:
            self._hint()

    def on_resize(self) -> None:
        if not self.input.value.strip():
            self._hint()
        else:
            self.node_changed(self._asked_at + AGAIN)

    def node_changed(self, now: float) -> None:
        """Ask again, unless the last answer is less than `AGAIN` seconds old."""
        if self.input.value.strip() and now - self._asked_at >= AGAIN:
            self._simulate(self.input.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._simulate(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._simulate(event.value)

    def action_file(self, step: int) -> None:
        names = list(self._files)
        if names:
            here = names.index(self.input.value) if self.input.value in names else -(step > 0)
            self.input.value = names[(here + step) % len(names)]
            self.input.cursor_position = len(self.input.value)

    def action_scroll_verdict(self, step: int) -> None:
        view = self.verdict
        view.scroll_to(y=view.scroll_y + step * max(1, view.size.height - 1), animate=False)

    # --- asking

    def _hint(self) -> None:
        self.verdict.show(hint_lines(self._files, self._width))

    @property
    def _width(self) -> int:
        return max(20, self.size.width - 6)

    def _simulate(self, text: str) -> None:
        self.run_worker(partial(self._answer_to, text), group="what-if", exclusive=True)

    async def _answer_to(self, text: str) -> None:
        await asyncio.sleep(DEBOUNCE)
        if not text.strip():
            self._hint()
            return
        try:
            manifest = await asyncio.to_thread(question, text, self._files)
            answer = await self.session.client.what_if(manifest)
        except QueryError as error:
            lines = [(Span("… ", "muted"), Span(clean(str(error)), "warning"))]
        except PodtuiError as error:
            lines = wrap(
                (Span("✖ ", "error"), Span(clean(str(error)), "error")), self._width, indent=2
            )
        else:
            lines = verdict_lines(answer, self._width)
        self._asked_at = self.session.now()
        self.verdict.show(lines)
