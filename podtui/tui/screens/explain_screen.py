"""The documentation of a manifest field, with navigation to its child fields."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from podtui.explain.explanation import explain_pod_field
from podtui.explain.kind_texts import purpose
from podtui.explain.places import PodField, find_field
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.views.explain import FIELD_COLUMNS, explanation_lines, field_row
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView

PART: Final = 0.5
"""Maximum part of the height for the text while there are fields below it."""


class ExplainScreen(BackScreen):
    """Opens on ``pod_field``, and navigates to child fields, to the parent and back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "above", "Parent field", key_display="←", id="explain.above",
                tooltip="Go to the parent field"),
        Binding("right", "into", "Into", show=False, id="explain.into",
                tooltip="Open the field under the cursor"),
        Binding("tab", "switch_part", "Text or fields", show=False, id="explain.turn",
                tooltip="Switch between the text and the list of fields"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    ExplainScreen {
        & > LinesView, & > Table { height: 1fr; border: round $pane-border; padding: 0 1;
            border-title-color: $pane-title; border-title-background: $background;
            background: $background; }
        & > LinesView:focus, & > Table:focus { border: round $pane-border-focus;
            border-title-color: $pane-title-focus; }
    }
    """
    AUTO_FOCUS = ""

    def __init__(self, pod_field: PodField) -> None:
        super().__init__()
        self.pod_field = pod_field
        self._before: list[tuple[PodField, str]] = []

    def compose(self) -> ComposeResult:
        self.text = LinesView(id="explain-text")
        self.fields = Table(FIELD_COLUMNS, sort="field", id="explain-fields")
        self.fields.border_title = " Fields "
        yield Bar(id="header")
        yield self.text
        yield self.fields
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self._show(self.pod_field)

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    def _show(self, pod_field: PodField, cursor: str = "") -> None:
        self.pod_field = pod_field
        self._explanation = explain_pod_field(pod_field, purpose)
        self.text.scroll_home(animate=False)
        self.fields.replace(map(field_row, self._explanation.fields))
        self.fields.display = bool(self._explanation.fields)
        if not (cursor and self.fields.select(cursor)):
            self.fields.move_to(0)
        head = (Span(" explain ", "brand"), Span(f" {pod_field.text or 'Pod'} ", "name"))
        self.query_one("#header", Bar).show(head)
        self._lay_out()
        self._body().focus()
        self.refresh_bindings()

    def _lay_out(self) -> None:
        if not self.shown:
            return
        lines = explanation_lines(self._explanation, max(20, self.size.width - 5))
        room = max(6, int(self.size.height * PART))
        self.text.styles.height = min(len(lines) + 2, room) if self._explanation.fields else "1fr"
        more = bool(self._explanation.fields) and len(lines) + 2 > room
        self.text.border_subtitle = " tab, then ↓ for more " if more else ""
        self.text.show(lines)

    def _body(self) -> Widget:
        return self.fields if self._explanation.fields else self.text

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "above":
            return bool(self.pod_field.path)
        return super().check_action(action, parameters)

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_into()

    def action_into(self) -> None:
        key = self.fields.cursor_key
        if key and self._explanation.fields:
            self._before.append((self.pod_field, key))
            self._show(find_field(key))

    def action_above(self) -> None:
        here = self.pod_field
        self._before.append((here, self.fields.cursor_key))
        above = here.path[:-1] if here.kind == "Pod" else (here.kind, *here.path[:-1])
        self._show(find_field(".".join(above)), here.text)

    def action_back(self) -> None:
        if self.end_find():
            return
        if self._before:
            self._show(*self._before.pop())
        else:
            super().action_back()

    def action_switch_part(self) -> None:
        if self._explanation.fields:
            (self.fields if self.text.has_focus else self.text).focus()
