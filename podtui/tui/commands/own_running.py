"""Run a custom command: confirm it, then run it in the terminal, a screen or the background."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from podtui.tui.commands.custom_commands import OwnCommand
from podtui.tui.commands.own_values import Aim
from podtui.tui.commands.process import run_program
from podtui.tui.commands.terminal import ProgramFailed, run_in_terminal
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.picker import Picker
from podtui.tui.widgets.sanitize import clean, shell_line

if TYPE_CHECKING:
    from podtui.tui.app import PodtuiApp

LAST_BYTES = 2048
"""Bytes of a background command's last output that are kept."""


async def run_on(
    app: PodtuiApp, command: OwnCommand, found: Sequence[Sequence[Aim]], running: list[str]
) -> bool:
    """Run a command on each selected object in sequence.

    If a single object has several targets (containers), the user chooses one. ``running`` contains
    the names of the commands in the background while they run. Return whether the command was run.
    """
    actions = app.actions
    chosen = [ways[0] for ways in found]
    if len(found) == 1 and len(found[0]) > 1:
        way = await _choose(app, command, found[0])
        if way is None:
            return False
        chosen = [way]
    if command.confirm and not await actions.confirm(question(command, chosen)):
        return False
    for aim in chosen:
        actions.did(command.name, aim.words(command), *([aim.pod] if aim.pod else []))
    if command.mode == "terminal":
        await _in_terminal(app, command, chosen)
        return True
    actions.asked()
    if command.mode == "output":
        app.push_screen(OutputScreen(command, chosen))
    else:
        await _behind(app, command, chosen, running)
    return True


async def _choose(app: PodtuiApp, command: OwnCommand, ways: Sequence[Aim]) -> Aim | None:
    lines: list[Line] = [
        (Span(f"{way.label}  ", "name"), Span(clean(way.values.get("IMAGE", "")), "muted"))
        for way in ways
    ]
    start = next((place for place, way in enumerate(ways) if way.likely), 0)
    place = await app.push_screen_wait(Picker(f"{command.name}: on which?", lines, start=start))
    return None if place is None else ways[place]


async def _in_terminal(app: PodtuiApp, command: OwnCommand, chosen: Sequence[Aim]) -> None:
    for aim in chosen:
        try:
            await run_in_terminal(app, aim.words(command), aim.environment())
        except ProgramFailed as error:
            _tell(app, command, aim, str(error), good=False)


async def _behind(
    app: PodtuiApp, command: OwnCommand, chosen: Sequence[Aim], running: list[str]
) -> None:
    for aim in chosen:
        last = bytearray()

        def take(piece: bytes, last: bytearray = last) -> None:
            last += piece
            del last[:-LAST_BYTES]

        name = f"{command.name} {aim.label}".strip()
        running.append(name)
        try:
            outcome = await run_program(
                aim.words(command), aim.environment(), take, seconds=command.timeout
            )
        except ProgramFailed as error:
            _tell(app, command, aim, str(error), good=False)
        else:
            lines = last.decode(errors="replace").splitlines()
            more = f": {lines[-1]}" if lines and not outcome.good else ""
            _tell(app, command, aim, f"{outcome.words}{more}", good=outcome.good)
        finally:
            running.remove(name)


def _tell(app: PodtuiApp, command: OwnCommand, aim: Aim, text: str, *, good: bool) -> None:
    title = f"{command.name} · {aim.label}" if aim.label else command.name
    severity = "information" if good else "error"
    app.actions.tell(text, title=title, severity=severity)


def question(command: OwnCommand, chosen: Sequence[Aim]) -> Dialog:
    """Return the confirmation dialog with the command lines that would run."""
    lines: list[Line] = [
        (Span(f"{aim.label}  " if aim.label else "", "name"),
         Span(shell_line(shlex.join(aim.words(command))), "soft"))
        for aim in chosen
    ]  # fmt: skip
    first = chosen[0].label
    what = f" on {first}" if len(chosen) == 1 and first else ""
    what = f" on {len(chosen)}" if len(chosen) > 1 else what
    return confirmation(f"Run {command.name}{what}?", lines, f"Run {command.name}")
