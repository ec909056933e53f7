"""The output of a custom command, in a view that can be searched, filtered and saved."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from textual.app import ComposeResult

from podtui.client.decoding import LineSplitter
from podtui.tui.commands.custom_commands import CommandTarget, CustomCommand
from podtui.tui.commands.process import run_program
from podtui.tui.commands.terminal import ProgramFailed
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.logs.log_commands import LogCommands
from podtui.tui.views.logs.line_buffer import RULE
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean, literal, shell_line

MOST_BYTES: Final = 256 * 1024 * 1024
"""Maximum output kept on disk. Beyond it the oldest lines are dropped, which the view reports."""
LONGEST_LINE: Final = 1024 * 1024


class OutputPane(LogCommands):
    """The lines that a program prints, with remarks about the runs between them."""

    DEFAULT_CSS = """
    OutputPane { height: 1fr; }
    OutputPane > LogView { height: 1fr; background: $background; padding: 0 1; }
    """

    def __init__(self, command: CustomCommand, label: str) -> None:
        super().__init__(id="output")
        self._command = command
        self._label = label
        self._state = "running"
        self.view.lines.buffer.disk_bytes = MOST_BYTES
        self.view.empty_text = "…"

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(1.0, self.show_note)

    def _retitle(self) -> None:
        label = f" · {self._label}" if self._label else ""
        self.border_title = literal(f"{self._command.name}{label}")

    @property
    def source_names(self) -> tuple[str, ...]:
        return (f"{self._command.name}-{self._label}" if self._label else self._command.name,)

    def show_state(self, state: str) -> None:
        """Show the program's state in the lower border and as the text of the empty view."""
        self._state = state
        self.view.empty_text = f"No output: {state}." if state != "running" else "…"
        self.show_note()

    def show_note(self) -> None:
        if not self._prompt.filters and self.is_mounted:
            self.set_note(" · ".join([clean(self._state), *self.narrowing()]))

    def take(self, lines: Sequence[bytes]) -> None:
        """Add lines without their line feeds."""
        texts = [line.removesuffix(b"\r") for line in lines]
        self.view.add([0] * len(texts), texts, 0)

    def remark(self, text: str) -> None:
        """Add a remark between the lines."""
        self.view.add([0], [clean(text).encode()], RULE)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("toggle_events", "next_prefix", "next_times"):
            # A program's output has no events, times or sources.
            return False
        return super().check_action(action, parameters)


class OutputScreen(BackScreen):
    """Runs a command on several objects in sequence and shows the output. Leaving the screen ends
    the command.
    """

    AUTO_FOCUS = "#log"

    def __init__(self, command: CustomCommand, targets: Sequence[CommandTarget]) -> None:
        super().__init__()
        self._command = command
        self._targets = tuple(targets)
        label = (
            self._targets[0].label if len(self._targets) == 1 else f"{len(self._targets)} targets"
        )
        self._running_as = clean(f"{command.name} {self._targets[0].label}".strip())
        self.pane = OutputPane(command, label)

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield self.pane
        yield Hints()

    def begin(self) -> None:
        line = shell_line(shlex.join(self._targets[0].arguments(self._command)))
        self.query_one("#header", Bar).show(
            (Span(" output ", "brand"), Span(f" {self._command.name} ", "name"),
             Span(line, "muted"))
        )  # fmt: skip
        self.run_worker(self._run, name=self._command.name, group="own")

    def action_back(self) -> None:
        if self._running_as not in self.session.running:
            super().action_back()
            return
        session = self.session

        async def leave() -> None:
            if await session.confirm(end_dialog(self._running_as)):
                super(OutputScreen, self).action_back()

        session.start("Leave", leave, writes=False)

    async def _run(self) -> None:
        running = self.session.running
        running.append(self._running_as)
        try:
            await self._run_all()
        finally:
            running.remove(self._running_as)

    async def _run_all(self) -> None:
        outcomes: list[str] = []
        for target in self._targets:
            if len(self._targets) > 1:
                self.pane.remark(target.label)
            outcomes.append(await self._run_one(target))
            self.pane.remark(outcomes[-1])
        self.pane.show_state(outcomes[-1] if len(outcomes) == 1 else _summary(outcomes))

    async def _run_one(self, target: CommandTarget) -> str:
        splitter = LineSplitter(LONGEST_LINE)
        pane = self.pane

        def take(piece: bytes) -> None:
            pane.take(splitter.feed(piece))

        try:
            outcome = await run_program(
                target.arguments(self._command),
                target.environment(),
                take,
                seconds=self._command.timeout,
            )
        except ProgramFailed as error:
            return str(error)
        pane.take(splitter.finish())
        return outcome.text


def end_dialog(name: str) -> Dialog:
    line = (Span("✖ ", "error"), Span(name, "name"), Span(" is still running."))
    return confirmation("Terminate the command?", [line], "Terminate")


def _summary(outcomes: Sequence[str]) -> str:
    good = sum(outcome == "exit status 0" for outcome in outcomes)
    return f"{good} of {len(outcomes)} exited with status 0"
