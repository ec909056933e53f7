"""The user's custom commands and hotkeys in a running app."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from textual.binding import Binding

from podtui.tui.commands.session import READ_ONLY
from podtui.tui.model.model import pod_key
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.widgets.sanitize import clean

if TYPE_CHECKING:
    from podtui.tui.app import PodtuiApp
    from podtui.tui.commands.custom_commands import Here, OwnCommand
    from podtui.tui.commands.registry import Command
    from podtui.tui.preferences.user_keys import Chosen

import shlex
from typing import TYPE_CHECKING

from podtui.tui.commands.custom_commands import Aim, OwnCommand
from podtui.tui.commands.process import run_program
from podtui.tui.commands.terminal import ProgramFailed, run_in_terminal
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.picker import Picker
from podtui.tui.widgets.sanitize import shell_line

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


GROUPS = ("own.", "hotkey.")


class OwnDeeds:
    """The custom commands and hotkeys of one app. `use` sets them, also while the app runs."""

    def __init__(self, app: PodtuiApp) -> None:
        self._app = app
        self._commands: dict[str, OwnCommand] = {}
        self._lines: dict[str, str] = {}
        self.running: list[str] = []
        """Names of the commands that run in the background."""

    def use(self, chosen: Chosen) -> None:
        """Replace the commands and hotkeys, and their bindings."""
        self._commands = {command.name: command for command in chosen.commands}
        self._lines = {hotkey.written: hotkey.line for hotkey in chosen.hotkeys}
        found: list[Binding] = []
        for command in chosen.commands:
            action, name, words = f"app.own('{command.name}')", command.name, command.words
            found += (_binding(key, action, name, words, command.id) for key in command.keys)
            # A binding for a key that no keyboard sends, so that help and menu list the command
            # even if it has no key.
            found.append(_binding(f"own-{name}", action, name, words, command.id, f":{name}"))
        for place, hotkey in enumerate(chosen.hotkeys):
            found += (
                _binding(key, f"app.hotkey({place})", f":{hotkey.line}", "", hotkey.id)
                for key in hotkey.keys
            )
        self._bind(found)

    def _bind(self, bindings: Sequence[Binding]) -> None:
        known: dict[str, list[Binding]] = cast("Any", self._app)._bindings.key_to_bindings
        for key, held in list(known.items()):
            kept = [each for each in held if not (each.id or "").startswith(GROUPS)]
            if kept:
                known[key] = kept
            else:
                del known[key]
        for binding in bindings:
            known.setdefault(binding.key, []).append(binding)
        self._app.refresh_bindings()

    @property
    def typed(self) -> tuple[Command, ...]:
        """The commands for the prompt."""
        from podtui.tui.preferences.user_keys import typed_command

        return tuple(
            typed_command(each) for each in self._commands.values() if not self._is_barred(each)
        )

    def line_of(self, place: int) -> str:
        """Return the line that a hotkey types."""
        return list(self._lines.values())[place]

    # --- availability

    def _is_barred(self, command: OwnCommand) -> bool:
        return command.dangerous and self._app.actions.readonly

    def why_barred(self, name: str) -> str:
        """Return why a custom command is not available in this session; empty if it is available or
        if there is no such command.
        """
        command = self._commands.get(name)
        return READ_ONLY if command is not None and self._is_barred(command) else ""

    def is_there(self, name: str) -> bool:
        """Return whether the command exists and is available in this session."""
        command = self._commands.get(name)
        return command is not None and not self._is_barred(command)

    def why_not(self, name: str) -> str:
        """Return why a command cannot run on the current selection; empty if it can."""
        from podtui.tui.commands.custom_commands import NotOffered, aims

        if barred := self.why_barred(name):
            return barred
        try:
            aims(self._commands[name], self._here())
        except NotOffered as error:
            return str(error)
        return ""

    def is_offered(self, id_: str) -> bool:
        """Return whether a menu should list a binding, by its ID; always true for podtui's own."""
        name = id_.removeprefix("own.")
        return name == id_ or name not in self._commands or not self.why_not(name)

    def _here(self) -> Here:
        """Return the current selection of the screen."""
        from podtui.tui.commands.custom_commands import Here

        app, screen = self._app, self._app.screen
        common = self._common()
        if not isinstance(screen, ActingScreen):
            return Here(common=common)
        pods = screen.chosen_pods()
        container = ""
        focused = screen.focused
        pane = (
            next((w for w in focused.ancestors if isinstance(w, LogsPane)), None)
            if focused
            else None
        )
        line = pane.chosen_line if pane is not None else None
        if line is not None:
            target, common["LINE"] = line
            if [target.key] == [pod_key(pod) for pod in pods]:
                container = target.container
        found = ((pod, app.model.manifest_of(pod)) for pod in pods)
        return Here(
            pods=pods,
            manifests=tuple(manifest.spec.path for manifest in screen.chosen_manifests()),
            manifest_of={pod_key(pod): m.spec.path for pod, m in found if m is not None},
            image=screen.chosen_image(),
            container=container,
            common=common,
        )

    def _common(self) -> dict[str, str]:
        app = self._app
        server, node = app.model.server, app.model.node
        values = {"CONTEXT": server.context}
        if node is not None and not server.capabilities.several_nodes:
            values["NODE"] = node.metadata.name
        if not server.is_cluster:
            socket = app.client.target.removeprefix("unix:")
            values |= {"SOCKET": socket, "ROOT_DIR": str(PurePath(socket).parent)}
        return values

    # --- running

    def run(self, name: str) -> None:
        """Run a command on the current selection; if that is not possible, notify why."""
        from podtui.tui.commands.custom_commands import aims

        pass

        why = self.why_not(name)
        if why:
            self._app.actions.tell(why, title=f":{name}", severity="warning")
            return
        command, screen = self._commands[name], self._app.screen
        found = aims(command, self._here())

        async def deed() -> None:
            done = await run_on(self._app, command, found, self.running)
            if done and isinstance(screen, ActingScreen):
                screen.clear_marks()

        self._app.actions.start(name, deed, writes=False)

    def farewell(self) -> str:
        """Return the message about commands that end with the screen; empty if there are none."""
        return f"podtui: ended what still ran: {', '.join(self.running)}" if self.running else ""


def _binding(
    key: str, action: str, name: str, words: str, id_: str, shown: str | None = None
) -> Binding:
    name, words = clean(name), clean(words)
    return Binding(key, action, name, show=False, key_display=shown, tooltip=words or name, id=id_)
