"""The list of all keys, generated from the bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from podtui.tui.screens.key_lines import NARROW, KeyLine, help_lines, matching
from podtui.tui.widgets.tones import LinesView


class HelpScreen(ModalScreen[None]):
    """The searchable list of keys. ``lines`` are all bindings, those of the screen below first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close", id="help.back",
                tooltip="Leave the search, then close the list"),
        Binding("q,question_mark", "dismiss", "Close", id="help.close", tooltip="Close the list"),
        Binding("slash", "search", "Search", id="help.search",
                tooltip="Search by word, by key or by id"),
        Binding("i", "ids", "Ids", id="help.ids",
                tooltip="Show the ids of bindings, to change their keys"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > Vertical {
            width: 90%; max-width: 100; height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
        &.-narrow > Vertical { width: 100%; height: 100%; padding: 0; }
        LinesView { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
        Input {
            display: none; border: none; height: 1; padding: 0 1; background: $panel;
            &:focus { border: none; background-tint: $panel 0%; }
            &.-open { display: block; }
        }
    }
    """
    AUTO_FOCUS = "LinesView"

    def __init__(self, lines: Sequence[KeyLine]) -> None:
        super().__init__()
        self._lines = tuple(lines)
        self._ids = False

    def compose(self) -> ComposeResult:
        with Vertical() as frame:
            frame.border_title = " Keys "
            yield LinesView(id="help")
            yield Input(placeholder="a word, a key, or an id", select_on_focus=False)

    def on_resize(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        view = self.query_one(LinesView)
        text = self.query_one(Input).value
        found = matching(self._lines, text)
        width = max(1, view.scrollable_content_region.width)
        view.show(help_lines(found, ids=self._ids, width=width))
        self.query_one(Vertical).border_subtitle = (
            f" {len(found)} of {len(self._lines)} · esc clears " if text
            else " / search · i ids · esc closes " if width >= NARROW else " / search · esc "
        )  # fmt: skip

    def action_search(self) -> None:
        entry = self.query_one(Input)
        entry.add_class("-open")
        self.set_focus(entry)

    def action_ids(self) -> None:
        self._ids = not self._ids
        self._show()

    def action_back(self) -> None:
        entry = self.query_one(Input)
        if entry.has_class("-open"):
            entry.remove_class("-open")
            entry.value = ""
            self.set_focus(self.query_one(LinesView))
        else:
            self.dismiss()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(LinesView).scroll_home(animate=False)
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.set_focus(self.query_one(LinesView))
