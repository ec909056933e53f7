"""The key commands of a log pane: filter, search, mark, copy and save its lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from podtui.errors import UsageError
from podtui.text.terminal_text import plural
from podtui.tui.commands.session import Session, session_of
from podtui.tui.commands.terminal import ProgramFailed, run_in_terminal
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.views.logs.export import clipboard_text, export_of, file_name, pager_command
from podtui.tui.views.logs.filters import EVERY_LINE, parse_log_filter
from podtui.tui.views.logs.levels import MINIMA
from podtui.tui.views.logs.line_buffer import is_log
from podtui.tui.widgets.pane import Pane
from podtui.tui.widgets.prompt import InputHistory
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.scrolled_text import ScrolledText


class PromptKind(Enum):
    """The kind of input; the value is the placeholder of an empty line."""

    FILTER = "show lines with re, without !re, -f letters; -C 3 shows context lines"
    SEARCH = "go to the first match of re; n and N go to the next and previous"


class LogPrompt(Horizontal):
    """Hidden until `ask`; posts `Changed` while the user types and `Done` at the end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="log-prompt.cancel", tooltip="Cancel"),
        Binding("up", "history(-1)", "Earlier", show=False, id="log-prompt.earlier",
                tooltip="Previous entry"),
        Binding("down", "history(1)", "Later", show=False, id="log-prompt.later",
                tooltip="Next entry"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    LogPrompt {
        height: 1; width: 1fr; display: none; dock: bottom;
        & > Static { width: auto; padding: 0 1; color: $primary; text-style: bold; }
        & > Input {
            border: none; height: 1; padding: 0; width: 1fr; background: $background;
            &:focus { border: none; background-tint: $background 0%; }
        }
    }
    """

    class Changed(Message):
        def __init__(self, kind: PromptKind, text: str) -> None:
            super().__init__()
            self.kind = kind
            self.text = text

    class Done(Changed):
        """Posted at the end; if ``cancelled``, ``text`` is the previous text."""

        def __init__(self, kind: PromptKind, text: str, *, cancelled: bool) -> None:
            super().__init__(kind, text)
            self.cancelled = cancelled

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._kind = PromptKind.FILTER
        self._before = ""
        self._typed = {kind: InputHistory() for kind in PromptKind}
        self._sign = Static()
        self.input = Input(select_on_focus=False)

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.input

    @property
    def filters(self) -> bool:
        """True while a filter is typed: then the lower border is reserved for its error message."""
        return self.display and self._kind is PromptKind.FILTER

    def ask(self, kind: PromptKind, before: str) -> None:
        """Open an empty line; ``before`` stays in effect until the user types, ↑ recalls it."""
        self._kind, self._before = kind, before
        self._typed[kind].add(before)
        self._sign.update("filter" if kind is PromptKind.FILTER else "find")
        self.input.placeholder = f"↑ {clean(before)} · enter clears it" if before else kind.value
        with self.prevent(Input.Changed):
            self.input.value = ""
        self.display = True
        # Focus at once, not in a later message: keys that follow quickly are meant for the input.
        self.screen.set_focus(self.input)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Changed(self._kind, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._typed[self._kind].add(event.value)
        self._close(event.value, cancelled=False)

    def action_cancel(self) -> None:
        self._close(self._before, cancelled=True)

    def action_history(self, step: int) -> None:
        self.input.value = self._typed[self._kind].step(step, self.input.value)
        self.input.cursor_position = len(self.input.value)

    def _close(self, text: str, *, cancelled: bool) -> None:
        self.display = False
        self.post_message(self.Done(self._kind, text, cancelled=cancelled))


class LogCommands(Pane):
    """A pane with a log view and a prompt. A subclass provides the lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="logs.filter",
                tooltip="Show only lines with re, !re, -f letters; -C N lines around"),
        Binding("F", "find", "Find", id="logs.find", show=False,
                tooltip="Go to the first match, without hiding lines"),
        Binding("n", "match(1)", "Next match", show=False, id="logs.next",
                tooltip="Go to the next match"),
        Binding("N", "match(-1)", "Previous match", show=False, id="logs.before",
                tooltip="Go to the previous match"),
        Binding("s,space", "toggle_follow", "Follow", key_display="s", id="logs.follow",
                tooltip="Follow the end of the log, or pause"),
        Binding("w", "toggle_wrap", "Wrap", show=False, id="logs.wrap",
                tooltip="Wrap long lines"),
        Binding("t", "next_times", "Times", id="logs.times",
                tooltip="Show times, ages, the time since the line above, or none"),
        Binding("L", "next_level", "Level", id="logs.level",
                tooltip="Hide lines of lower levels"),
        Binding("E", "toggle_events", "Events", show=False, id="logs.events",
                tooltip="The pod's events between the lines"),
        Binding("enter", "toggle_json", "JSON", show=False, id="logs.json",
                tooltip="Expand the JSON of this line"),
        Binding("J", "toggle_json_all", "All JSON", show=False, id="logs.json-all",
                tooltip="Expand the JSON of all lines"),
        Binding("P", "next_prefix", "Names", show=False, id="logs.names",
                tooltip="Names of merged logs: fixed, scrolling, none"),
        Binding("m", "mark", "Mark", show=False, id="logs.mark",
                tooltip="Mark this line"),
        Binding("apostrophe", "go_to_mark(1)", "Next mark", show=False, key_display="'",
                id="logs.next-mark", tooltip="The next marked line"),
        Binding("quotation_mark", "go_to_mark(-1)", "Previous mark", show=False, key_display='"',
                id="logs.mark-before", tooltip="The previous marked line"),
        Binding("c", "copy", "Copy", id="logs.copy",
                tooltip="Copy the marked lines, or this one"),
        Binding("C", "clear", "Clear", show=False, id="logs.clear",
                tooltip="Clear the view; new lines still appear"),
        Binding("ctrl+s", "save", "Save", show=False, id="logs.save",
                tooltip="Write the shown lines to a file"),
        Binding("S", "save(True)", "Save all", show=False, id="logs.save-all",
                tooltip="Write all lines to a file, including hidden ones"),
        Binding("v", "pager", "Pager", show=False, id="logs.pager",
                tooltip="Open the shown lines in $PAGER"),
        Binding("escape", "undo", "Back", show=False, id="logs.undo",
                tooltip="Clear search and filter, then go back"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.view = LogView(id="log")
        self._prompt = LogPrompt(id=f"{id}-prompt")
        self._search = ""

    def compose(self) -> ComposeResult:
        yield self.view
        yield self._prompt

    @property
    def session(self) -> Session:
        return session_of(self)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the shown logs."""
        raise NotImplementedError

    def show_note(self) -> None:
        """Show the state of the view in the lower border."""
        raise NotImplementedError

    def narrowing(self) -> list[str]:
        """Describe everything that limits the shown lines: filter, level, search, progress."""
        view = self.view
        parts: list[str] = []
        if view.wanted.filter.text:
            parts.append(f"/{clean(view.wanted.filter.text)}")
        if view.wanted.level:
            parts.append(f"{view.wanted.level.name.lower()} and worse")
        if view.searching:
            number = f"{view.match_number:,} of " if view.match_number else ""
            noun = "match" if view.match_count == 1 else "matches"
            parts.append(f"{number}{view.match_count:,} {noun}")
        if view.lines.progress < 1:
            parts.append(f"searching {view.lines.progress:.0%}")
        return parts

    # --- filter and search

    def action_filter(self) -> None:
        self._prompt.ask(PromptKind.FILTER, self.view.wanted.filter.text)

    def action_find(self) -> None:
        self.view.begin_find()
        self._prompt.ask(PromptKind.SEARCH, self._search)

    def on_log_prompt_changed(self, message: LogPrompt.Changed) -> None:
        message.stop()
        self._apply(message.kind, message.text)

    def on_log_prompt_done(self, message: LogPrompt.Done) -> None:
        message.stop()
        if message.kind is PromptKind.SEARCH and message.cancelled:
            self.search(message.text)
            self.view.end_find()
        else:
            error = self._apply(message.kind, message.text)
            if error and not message.cancelled:
                self.notify(error, severity="error", title="Filter", markup=False)
        self.screen.set_focus(self.view)

    def _apply(self, kind: PromptKind, text: str) -> str:
        """Apply a filter or search. Returns the error message, or an empty string."""
        if kind is PromptKind.SEARCH:
            self.search(text)
            self.view.seek()
            return ""
        try:
            self.view.ask(filter=parse_log_filter(text))
        except UsageError as error:
            self.set_note(str(error))
            return str(error)
        self.show_note()
        return ""

    @property
    def focus_target(self) -> Widget:
        return self.view

    def clear_query(self) -> bool:
        searched = bool(self.view.match_count)
        if searched:
            self.search("")
        return searched

    def find(self, pattern: str) -> None:
        """Search and go to the first match."""
        self.view.begin_find()
        self.search(pattern)
        self.view.seek()

    def search(self, pattern: str) -> None:
        """Highlight all matches; an empty pattern ends the search."""
        self._search = pattern
        self.view.search(pattern)
        self.show_note()

    def action_match(self, step: int) -> None:
        if step > 0:
            self.view.next_match()
        else:
            self.view.previous_match()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo":
            return bool(self.view.searching or self.view.wanted.filter.text)
        return True

    def action_undo(self) -> None:
        if self.view.searching:
            self.search("")
        else:
            self.view.ask(filter=EVERY_LINE)
            self.show_note()

    def action_next_level(self) -> None:
        index = MINIMA.index(self.view.wanted.level)
        self.view.ask(level=MINIMA[(index + 1) % len(MINIMA)])
        self.show_note()

    def action_toggle_events(self) -> None:
        self.view.ask(events=not self.view.wanted.events)
        self.show_note()

    # --- how lines are shown

    def action_toggle_follow(self) -> None:
        self.view.follow = not self.view.follow
        self.show_note()

    def action_toggle_wrap(self) -> None:
        self.view.wrap = not self.view.wrap
        self.show_note()

    def action_next_times(self) -> None:
        self.view.times = self.view.times.next
        self.show_note()

    def action_next_prefix(self) -> None:
        self.view.prefix = self.view.prefix.next
        self.show_note()

    def action_toggle_json(self) -> None:
        if not self.view.toggle_json():
            self.notify("This line contains no JSON.", timeout=2)

    def action_toggle_json_all(self) -> None:
        self.view.json_all = not self.view.json_all
        self.show_note()

    def action_mark(self) -> None:
        self.view.toggle_mark()
        self.show_note()

    def action_go_to_mark(self, step: int) -> None:
        self.view.go_to_mark(step)

    def action_clear(self) -> None:
        self.view.clear()
        self.show_note()

    def on_scrolled_text_search_changed(self, message: ScrolledText.SearchChanged) -> None:
        message.stop()
        self.show_note()

    def on_log_view_follow_changed(self, message: LogView.FollowChanged) -> None:
        message.stop()
        self.show_note()

    # --- export

    def action_copy(self) -> None:
        buffer, here = self.view.buffer, self.view.current
        selected = self.view.lines.marks or ([here] if here is not None else [])
        lines = [buffer[n] for n in selected if is_log(buffer.tag(n))]
        if not lines:
            self.notify("There is no log line to copy.", timeout=3)
            return
        text, count = clipboard_text(lines)
        cast("Any", self).app.copy_to_clipboard(text)
        rest = f" of {len(lines):,}, the maximum of the clipboard" if count < len(lines) else ""
        self.notify(f"{plural(count, 'line')}{rest}", title="Copied", timeout=3)

    def action_save(self, everything: bool = False) -> None:
        if self.source_names:
            self.session.start("Save", partial(self._save, everything), writes=False)

    async def _save(self, everything: bool) -> None:
        self.session.end_questions()
        names = self.source_names
        await self._wait_for_filter(everything)
        export = export_of(self.view.lines, names=names, everything=everything)
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        path = Path(file_name(self.file_words, stamp, filtered=export.chosen is not None))
        try:
            count = await _run_to_completion(partial(export.save, path))
        except OSError as error:
            self.notify(f"{path}: {error.strerror or error}", severity="error", title="Not saved",
                        markup=False)  # fmt: skip
        else:
            self.notify(str(path), title=f"Saved {plural(count, 'line')}", markup=False)
        finally:
            export.snapshot.close()

    @property
    def file_words(self) -> tuple[str, ...]:
        """The names from which the name of a saved file is made."""
        return self.source_names

    async def _wait_for_filter(self, everything: bool) -> None:
        """Wait until the filter has scanned all lines."""
        while not everything and self.view.lines.progress < 1 and self.view.lines.work():  # noqa: ASYNC110
            # `work` scans in this task; the sleep lets the event loop handle keys in between.
            await asyncio.sleep(0)

    def action_pager(self) -> None:
        self.session.start("Pager", self._page, writes=False)

    async def _page(self) -> None:
        """Raises `ProgramFailed`."""
        await self._wait_for_filter(everything=False)
        export = export_of(self.view.lines, names=self.source_names)
        path: Path | None = None
        try:
            command = pager_command(dict(os.environ))
            path = await asyncio.to_thread(export.temporary)
            await run_in_terminal(self.session, [*command, str(path)])
        except (OSError, ValueError) as error:
            raise ProgramFailed(str(error)) from error
        finally:
            export.snapshot.close()
            if path is not None:
                path.unlink(missing_ok=True)


async def _run_to_completion(work: Callable[[], int]) -> int:
    """Run ``work`` in a thread and return its result.

    On cancellation, wait for the thread: the caller closes the snapshot that the thread reads.
    """
    doing = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        doing.exception()
        raise
