"""Screens that show one text: a manifest with inline diagnostics, or a whole event."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.events import event_count, first_seen, last_seen
from podtui.api.local import Diagnostic, Manifest, Severity
from podtui.api.v1 import Event
from podtui.errors import UsageError
from podtui.explain.places import find_pod_field
from podtui.tui.commands.session import Session
from podtui.tui.model.model import Changes
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.explain_screen import ExplainScreen
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.views.events import event_object
from podtui.tui.views.explain import field_at
from podtui.tui.views.labels import manifest_message, place_of
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean, clean_lines, literal
from podtui.tui.widgets.text_view import ManifestText, Mark, TextView
from podtui.tui.widgets.tones import LinesView


def marks_of(manifest: Manifest) -> list[Mark]:
    """Convert diagnostics to remarks below their lines, or below line 1 if they have no line."""
    return [
        Mark(d.line or 1, d.column or 1, _remark(d), d.severity.value)
        for d in manifest.status.diagnostics
    ]


def _remark(diagnostic: Diagnostic) -> str:
    fix = f" → {diagnostic.fix}" if diagnostic.fix else ""
    return f"{diagnostic.text}{fix}"


def show_manifest(view: TextView, manifest: Manifest | None) -> None:
    """Load a manifest, or a message if there is none."""
    if manifest is None:
        view.load("No manifest file found for this pod.")
        return
    text = manifest.spec.text
    language = "yaml" if not manifest.spec.path.endswith(".json") else ""
    view.load(text or "(empty)", language=language, marks=marks_of(manifest))


def explain_line(session: Session, manifest: Manifest | None, line: int) -> None:
    """Open the explanation of the field on a line of a manifest, or report that there is none."""
    path = field_at(manifest, line) if manifest is not None else ""
    if not path:
        session.notify(f"Line {line} has no field of the pod.", severity="warning")
        return
    try:
        session.push(ExplainScreen(find_pod_field(path)))
    except UsageError as error:
        session.notify(str(error), title="Explain", severity="warning")


class ManifestScreen(ActingScreen, BackScreen):
    """A manifest file as last read, with its diagnostics below their lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "explain", "Explain", id="manifest.explain",
                tooltip="Explain the field on this line"),
        Binding("slash", "find", "Search", id="manifest.search"),
        Binding("n", "match(1)", "Next match", show=False, id="manifest.next"),
        Binding("N", "match(-1)", "Previous match", show=False, id="manifest.before"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    ManifestScreen #text { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    ManifestScreen #summary { height: auto; max-height: 4; padding: 0 2; background: $background; }
    """
    AUTO_FOCUS = "#text"
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"manifest.explain"})

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_ = name
        self._shown: Manifest | None = None

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield ManifestText(line_numbers=True, id="text")
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        manifest = self.session.model.manifests.get(self._name_)
        lines = [d.line for d in manifest.status.diagnostics if d.line] if manifest else []
        if lines:
            self.call_after_refresh(self.query_one(TextView).show_line, min(lines))

    def publish(self, changes: Changes, now: float) -> None:
        if self._name_ not in changes.manifests:
            return
        manifest = self.session.model.manifests.get(self._name_)
        if manifest is None:
            self.query_one("#header", Bar).show((Span(" The file no longer exists. ", "warning"),))
            return
        self._shown = manifest
        view = self.query_one(TextView)
        show_manifest(view, manifest)
        view.border_title = literal(manifest.spec.path)
        errors = sum(d.severity is Severity.ERROR for d in manifest.status.diagnostics)
        self.query_one("#header", Bar).show(
            (
                Span(" manifest ", "brand"),
                Span(f" {place_of(manifest)} ", "name"),
                Span(f"{manifest.status.state} ", "error" if errors else "warning"),
                Span(clean(manifest.status.message) or manifest_message(manifest), "soft"),
            )
        )

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        manifest = self.session.model.manifests.get(self._name_)
        return () if manifest is None else (manifest,)

    def action_explain(self) -> None:
        for manifest in self.chosen_manifests():
            explain_line(self.session, manifest, self.query_one(ManifestText).line)

    def action_match(self, step: int) -> None:
        view = self.query_one(TextView)
        if step > 0:
            view.next_match()
        else:
            view.previous_match()


class EventScreen(BackScreen):
    """One event with its full message."""

    DEFAULT_CSS = """
    EventScreen LinesView { height: 1fr; border: round $pane-border-focus; padding: 1 2;
        background: $background; border-title-color: $pane-title-focus; }
    """
    AUTO_FOCUS = "LinesView"

    def __init__(self, event: Event) -> None:
        super().__init__()
        self._event = event

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield LinesView()
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        head = (Span(" event ", "brand"), Span(f" {event_object(self._event)} ", "name"))
        self.query_one("#header", Bar).show(head)

    def on_resize(self) -> None:
        view = self.query_one(LinesView)
        view.show(event_lines(self._event, max(20, self.size.width - 8)))


def event_lines(event: Event, width: int) -> list[Line]:
    """Return all non-empty fields of an event as lines."""
    warning = event.type == "Warning"
    lines: list[Line] = []
    for key, value in (
        ("Type", event.type),
        ("Reason", event.reason),
        ("Object", event_object(event)),
        ("Count", str(event_count(event))),
        ("First", first_seen(event)),
        ("Last", last_seen(event)),
        ("Source", event.source.component or event.reportingComponent),
    ):
        if value:
            tone = "warning" if warning and key in ("Type", "Reason") else ""
            lines.append((Span(f"{key:<10}", "key"), Span(clean(value), tone)))
    lines.append(())
    for text in clean_lines(event.message):
        lines += wrap((Span(text),), width)
    return lines
