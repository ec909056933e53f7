"""The user's keys, custom commands and hotkeys, checked against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from podtui.errors import UsageError
from podtui.tui.commands.custom_commands import OwnCommand, read_commands
from podtui.tui.commands.registry import COMMANDS, Command, parse_command
from podtui.tui.preferences.key_map import KeyMap, OwnKeys, read_key_map
from podtui.tui.widgets.key_names import KeyNameError, key_list
from podtui.tui.widgets.sanitize import clean

if TYPE_CHECKING:
    from podtui.tui.commands.key_registry import Scope
    from podtui.tui.preferences.preferences import Preferences


@dataclass(frozen=True, slots=True)
class Hotkey:
    """A key for a command line: ``line`` is run as if typed after ``:``."""

    written: str
    keys: tuple[str, ...]
    line: str

    @property
    def id(self) -> str:
        return f"hotkey.{self.written}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The valid part of the user's keys, commands and hotkeys, and the problems of the rest."""

    key_map: KeyMap = field(default_factory=KeyMap)
    commands: tuple[OwnCommand, ...] = ()
    hotkeys: tuple[Hotkey, ...] = ()
    problems: tuple[str, ...] = ()


def typed_command(command: OwnCommand) -> Command:
    """Return the custom command as a command of the prompt."""
    return Command(command.name, (), clean(command.words), "app.own", (command.name,))


def choose(preferences: Preferences, scopes: Sequence[Scope]) -> Chosen:
    """Validate all settings. ``scopes`` as for `read_key_map`."""
    taken = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    commands, problems = read_commands(preferences.commands, preferences.own_places, taken)
    hotkeys, more = _read_hotkeys(preferences, commands)
    key_map = read_key_map(
        preferences.keys,
        scopes,
        preferences.places,
        [*_keys_of(commands, preferences), *_hotkeys(hotkeys, preferences)],
    )
    return Chosen(
        key_map,
        tuple(replace(each, keys=key_map.own.get(each.id, ())) for each in commands),
        tuple(each for each in hotkeys if each.id in key_map.own),
        (*problems, *more, *key_map.problems),
    )


def _keys_of(commands: Sequence[OwnCommand], preferences: Preferences) -> list[OwnKeys]:
    found: list[OwnKeys] = []
    for each in commands:
        name = f"commands[{each.number}].key"
        place = preferences.own_places.get(name, "")
        found.append(OwnKeys(each.id, each.keys, f":{each.name}", name, place))
    return found


def _hotkeys(hotkeys: Sequence[Hotkey], preferences: Preferences) -> list[OwnKeys]:
    return [
        OwnKeys(each.id, each.keys, name, name, preferences.own_places.get(name, ""))
        for each in hotkeys
        for name in [f"hotkeys.{each.written}"]
    ]


def _read_hotkeys(
    preferences: Preferences, commands: Sequence[OwnCommand]
) -> tuple[tuple[Hotkey, ...], tuple[str, ...]]:
    known = (*COMMANDS, *map(typed_command, commands))
    found: list[Hotkey] = []
    problems: list[str] = []
    for written, text in preferences.hotkeys.items():
        line = text.strip().removeprefix(":").strip()
        try:
            keys = key_list(written)
            parse_command(line, known)
        except (KeyNameError, UsageError) as error:
            name = f"hotkeys.{written}"
            place = preferences.own_places.get(name, "settings")
            problems.append(f"{place}: {name}: {error}")
        else:
            found.append(Hotkey(written, keys, line))
    return tuple(found), tuple(problems)
