"""Creates the screens that commands open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from podtui.api.v1 import Pod
from podtui.tui.commands.custom_commands import CommandTarget, CustomCommand
from podtui.tui.screens.forwards_screen import ForwardsScreen
from podtui.tui.screens.journal_screen import JournalScreen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.screens.trash_screen import TrashScreen


class ScreenFactory:
    """Implements `podtui.tui.commands.session.Screens`."""

    def trash(self, folder: Path) -> TrashScreen:
        return TrashScreen(folder)

    def journal(self, pod: Pod | None) -> JournalScreen:
        return JournalScreen(pod)

    def forwards(self) -> ForwardsScreen:
        return ForwardsScreen()

    def images(self) -> NodeScreen:
        return NodeScreen("images")

    def output(self, command: CustomCommand, targets: Sequence[CommandTarget]) -> OutputScreen:
        return OutputScreen(command, targets)
