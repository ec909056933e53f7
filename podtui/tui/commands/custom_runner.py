"""The user's custom commands and hotkeys in a running app."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from textual.actions import parse
from textual.app import App
from textual.binding import ActiveBinding, Binding
from textual.keys import key_to_character

from podtui.tui.commands.custom_commands import (
    CommandTarget,
    CurrentSelection,
    CustomCommand,
    Hotkey,
    NotOffered,
    find_targets,
)
from podtui.tui.commands.process import run_program
from podtui.tui.commands.registry import Command
from podtui.tui.commands.session import READ_ONLY, Selection, Session
from podtui.tui.commands.terminal import ProgramFailed, run_in_terminal
from podtui.tui.model.model import pod_key
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Dialog, Picker, confirmation
from podtui.tui.widgets.sanitize import clean, shell_line

LAST_BYTES = 2048
"""Bytes of a background command's last output that are kept."""


async def run_on(
    session: Session, command: CustomCommand, targets: Sequence[Sequence[CommandTarget]]
) -> bool:
    """Run a command on each selected object in sequence.

    If a single object has several targets (containers), the user chooses one. Return whether the
    command was run.
    """
    selected = [ways[0] for ways in targets]
    if len(targets) == 1 and len(targets[0]) > 1:
        way = await _choose(session, command, targets[0])
        if way is None:
            return False
        selected = [way]
    if command.confirm and not await session.confirm(question(command, selected)):
        return False
    for target in selected:
        session.record_action(
            command.name, target.arguments(command), *([target.pod] if target.pod else [])
        )
    if command.mode == "terminal":
        await _in_terminal(session, command, selected)
        return True
    session.end_questions()
    if command.mode == "output":
        session.push(session.screens.output(command, selected))
    else:
        await _in_background(session, command, selected)
    return True


async def _choose(
    session: Session, command: CustomCommand, ways: Sequence[CommandTarget]
) -> CommandTarget | None:
    lines: list[Line] = [
        (Span(f"{way.label}  ", "name"), Span(clean(way.values.get("IMAGE", "")), "muted"))
        for way in ways
    ]
    start = next((index for index, way in enumerate(ways) if way.likely), 0)
    index = await session.ask(Picker(f"{command.name}: select a container", lines, start=start))
    return None if index is None else ways[index]


async def _in_terminal(
    session: Session, command: CustomCommand, selected: Sequence[CommandTarget]
) -> None:
    for target in selected:
        try:
            await run_in_terminal(session, target.arguments(command), target.environment())
        except ProgramFailed as error:
            _notify(session, command, target, str(error), good=False)


async def _in_background(
    session: Session, command: CustomCommand, selected: Sequence[CommandTarget]
) -> None:
    for target in selected:
        last = bytearray()

        def take(piece: bytes, last: bytearray = last) -> None:
            last += piece
            del last[:-LAST_BYTES]

        name = f"{command.name} {target.label}".strip()
        session.running.append(name)
        try:
            outcome = await run_program(
                target.arguments(command), target.environment(), take, seconds=command.timeout
            )
        except ProgramFailed as error:
            _notify(session, command, target, str(error), good=False)
        else:
            lines = last.decode(errors="replace").splitlines()
            more = f": {lines[-1]}" if lines and not outcome.good else ""
            _notify(session, command, target, f"{outcome.text}{more}", good=outcome.good)
        finally:
            session.running.remove(name)


def _notify(
    session: Session, command: CustomCommand, target: CommandTarget, text: str, *, good: bool
) -> None:
    title = f"{command.name} · {target.label}" if target.label else command.name
    severity = "information" if good else "error"
    session.notify(text, title=title, severity=severity)


def question(command: CustomCommand, selected: Sequence[CommandTarget]) -> Dialog:
    """Return the confirmation dialog with the command lines that would run."""
    lines: list[Line] = [
        (Span(f"{target.label}  " if target.label else "", "name"),
         Span(shell_line(shlex.join(target.arguments(command))), "soft"))
        for target in selected
    ]  # fmt: skip
    first = selected[0].label
    what = f" on {first}" if len(selected) == 1 and first else ""
    what = f" on {len(selected)}" if len(selected) > 1 else what
    return confirmation(f"Run {command.name}{what}?", lines, f"Run {command.name}")


class CustomRunner:
    """The custom commands and hotkeys of one app. `use` sets them, also while the app runs."""

    def __init__(self, app: App[Any], session: Session, selection: Callable[[], Selection]) -> None:
        self._app = app
        self._session = session
        self._selection = selection
        self._commands: dict[str, CustomCommand] = {}
        self._lines: dict[str, str] = {}
        self.bindings: tuple[Binding, ...] = ()

    def use(self, commands: Sequence[CustomCommand], hotkeys: Sequence[Hotkey]) -> None:
        """Replace the commands and hotkeys, and their bindings."""
        self._commands = {command.name: command for command in commands}
        self._lines = {hotkey.written: hotkey.line for hotkey in hotkeys}
        bindings: list[Binding] = []
        for command in commands:
            action, name, description = (
                f"app.custom_command('{command.name}')",
                command.name,
                command.summary,
            )
            bindings += (
                _binding(key, action, name, description, command.id) for key in command.keys
            )
            # A binding for a key that no keyboard sends, so that help and menu list the command
            # even if it has no key.
            bindings.append(
                _binding(f"own-{name}", action, name, description, command.id, f":{name}")
            )
        for index, hotkey in enumerate(hotkeys):
            bindings += (
                _binding(key, f"app.hotkey({index})", f":{hotkey.line}", "", hotkey.id)
                for key in hotkey.keys
            )
        self.bindings = tuple(bindings)
        self._app.refresh_bindings()

    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Return the available bindings by key, except keys that the focused widget consumes."""
        app, focused = self._app, self._app.focused
        active_by_key: dict[str, ActiveBinding] = {}
        for binding in self.bindings:
            character = key_to_character(binding.key)
            if focused is not None and focused.check_consume_key(binding.key, character):
                continue
            _, name, parameters = parse(binding.action)
            enabled = app.check_action(name, parameters)
            if enabled is not False:
                active = ActiveBinding(app, binding, bool(enabled), binding.tooltip)
                active_by_key.setdefault(binding.key, active)
        return active_by_key

    @property
    def typed(self) -> tuple[Command, ...]:
        """The commands for the prompt."""
        return tuple(
            typed_command(each)
            for each in self._commands.values()
            if not self._is_unavailable(each)
        )

    def line_of(self, index: int) -> str:
        """Return the line that a hotkey types."""
        return list(self._lines.values())[index]

    # --- availability

    def _is_unavailable(self, command: CustomCommand) -> bool:
        return command.dangerous and self._session.readonly

    def why_unavailable(self, name: str) -> str:
        """Return why a custom command is not available in this session; empty if it is available or
        if there is no such command.
        """
        command = self._commands.get(name)
        return READ_ONLY if command is not None and self._is_unavailable(command) else ""

    def check(self, name: str) -> bool | None:
        """Return what Textual's ``check_action`` returns for a custom command: False if it does not
        exist, None if it is disabled in this session."""
        command = self._commands.get(name)
        if command is None:
            return False
        return None if self._is_unavailable(command) else True

    def why_not_now(self, name: str) -> str:
        """Return why a command cannot run on the current selection; empty if it can."""
        if reason := self.why_unavailable(name):
            return reason
        try:
            find_targets(self._commands[name], self._current_selection())
        except NotOffered as error:
            return str(error)
        return ""

    def is_listed(self, id_: str) -> bool:
        """Return whether a menu should list a binding, by its ID; always true for podtui's own."""
        name = id_.removeprefix("own.")
        return name == id_ or name not in self._commands or not self.why_not_now(name)

    def _current_selection(self) -> CurrentSelection:
        """Return the current selection of the screen."""
        selection = self._selection()
        pods = selection.pods
        common = self._common()
        container = ""
        if selection.log_line is not None:
            key, name, common["LINE"] = selection.log_line
            if [key] == [pod_key(pod) for pod in pods]:
                container = name
        pairs = ((pod, self._session.model.manifest_of(pod)) for pod in pods)
        return CurrentSelection(
            pods=pods,
            manifests=tuple(manifest.spec.path for manifest in selection.manifests),
            manifest_of={pod_key(pod): m.spec.path for pod, m in pairs if m is not None},
            image=selection.image,
            container=container,
            common=common,
        )

    def _common(self) -> dict[str, str]:
        session = self._session
        server, node = session.model.server, session.model.node
        values = {"CONTEXT": server.context}
        if node is not None and not server.capabilities.several_nodes:
            values["NODE"] = node.metadata.name
        if not server.is_cluster:
            socket = session.client.target.removeprefix("unix:")
            values |= {"SOCKET": socket, "ROOT_DIR": str(PurePath(socket).parent)}
        return values

    # --- running

    def run(self, name: str) -> None:
        """Run a command on the current selection; if that is not possible, notify why."""
        why = self.why_not_now(name)
        if why:
            self._session.notify(why, title=f":{name}", severity="warning")
            return
        command, clear = self._commands[name], self._selection().clear
        targets = find_targets(command, self._current_selection())

        async def run() -> None:
            if await run_on(self._session, command, targets):
                clear()

        self._session.start(name, run, writes=False)

    def ended_message(self) -> str:
        """Return the message about commands that end with the screen; empty if there are none."""
        running = self._session.running
        return f"podtui: terminated running commands: {', '.join(running)}" if running else ""


def _binding(
    key: str, action: str, name: str, description: str, id_: str, shown: str | None = None
) -> Binding:
    name, description = clean(name), clean(description)
    return Binding(
        key, action, name, show=False, key_display=shown, tooltip=description or name, id=id_
    )


def typed_command(command: CustomCommand) -> Command:
    """Return the custom command as a command of the prompt."""
    return Command(command.name, (), clean(command.summary), "app.custom_command", (command.name,))
