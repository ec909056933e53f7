"""The what-if tab: type requests or a file name to check whether a pod would fit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.suggester import SuggestFromList
from textual.widgets import Input

from podtui.api.local import ManifestState
from podtui.errors import PodtuiError
from podtui.tui.commands.session import Session, session_of
from podtui.tui.views.node.what_if import EXAMPLE, QueryError, is_query, parse_query, verdict_lines
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.tones import LinesView

DEBOUNCE: Final = 0.25
"""Seconds after the last key until the agent gets the request."""
AGAIN: Final = 2.0
"""Minimum seconds between two requests when the node changes."""
MAX_BYTES: Final = 1 << 20
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def manifest_files(known: Iterable[Path]) -> dict[str, Path]:
    """Return the selectable files by display name: first the ``known`` files of the manifest
    folder, then those of its subfolders (``gallery/web.yaml``). Blocks."""
    paths = sorted(known)
    found = {path.name: path for path in paths}
    for folder in sorted({path.parent for path in paths}):
        for path in sorted(folder.glob("*/*")):
            hidden = path.parent.name.startswith(".")
            if path.suffix in _SUFFIXES and not hidden and path.is_file():
                found.setdefault(f"{path.parent.name}/{path.name}", path)
    return found


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
        known = [
            Path(m.spec.path) for m in manifests if m.status.state is not ManifestState.IGNORED
        ]
        self._files = await asyncio.to_thread(manifest_files, known)
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
