"""The user's keys, custom commands and hotkeys, checked against each other."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import Struct, field

from podtui.errors import UsageError
from podtui.tui.commands.custom_commands import CustomCommand, Hotkey, read_commands
from podtui.tui.commands.custom_runner import typed_command
from podtui.tui.commands.key_registry import Scope
from podtui.tui.commands.registry import COMMANDS, parse_command
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.widgets.key_names import (
    SUGGESTIONS,
    UNBOUND,
    KeyNameError,
    key_list,
    shown_key,
)

Keys = Mapping[str, tuple[str, ...]]


class UserKeys(Struct, frozen=True):
    """Keys of a custom command or hotkey, active on every screen. ``id`` is the ID of its binding,
    ``label`` its name, ``field`` the name of its keys in the settings, ``position`` their position.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    field: str
    position: str = ""


class KeyMap(Struct, frozen=True):
    """The valid keys. ``keys`` is the argument of `textual.app.App.set_keymap`. ``user_keys`` maps
    the IDs of custom commands and hotkeys to keys. ``problems`` include positions."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()
    user_keys: Keys = field(default_factory=dict[str, tuple[str, ...]])


class _Clash(Struct, frozen=True):
    replaced: str
    key: str
    other: str


def read_key_map(
    wanted: Mapping[str, str],
    scopes: Sequence[Scope],
    places: Mapping[str, str],
    user_keys: Sequence[UserKeys] = (),
) -> KeyMap:
    """Validate keys.

    ``wanted`` maps binding IDs to comma-separated keys, in the order of the file: if two bindings
    of a scope ask for one key, the first one gets it. ``places`` has ``FILE:LINE:COLUMN`` by ID, as
    far as known. The last scope must be that of the whole app. Bindings have priority over the
    user's commands and hotkeys (``user_keys``).
    """
    problems: list[str] = []
    selected: dict[str, tuple[str, ...]] = {}
    ids = {name for scope in scopes for name in scope.keys}
    by_id = {each.id: each for each in user_keys}

    def position(name: str) -> str:
        return by_id[name].position if name in by_id else places.get(name, "")

    def report(name: str, text: str) -> None:
        what = by_id[name].field if name in by_id else f"keys.{name}"
        problems.append(f"{position(name) or 'settings'}: {what}: {text}")

    def called(name: str) -> str:
        label = by_id[name].label if name in by_id else name
        where = position(name) if name in selected else ""
        return f"{label} ({where})" if where else label

    for name, text in wanted.items():
        if name not in ids:
            report(name, f"no such binding{_hint(name, sorted(ids))}")
            continue
        try:
            selected[name] = key_list(text)
        except KeyNameError as error:
            report(name, f"{error}{_hint(text.rpartition('+')[2].strip().lower(), SUGGESTIONS)}")
    selected |= {each.id: each.keys for each in user_keys}
    everywhere = replace(scopes[-1], keys={**scopes[-1].keys, **dict.fromkeys(by_id, ())})
    scopes = (*scopes[:-1], everywhere)
    while (clash := _first_clash(selected, scopes)) is not None:
        report(
            clash.replaced, f"{shown_key(clash.key)!r} is already bound to {called(clash.other)}"
        )
        del selected[clash.replaced]
    return KeyMap(
        {name: ",".join(keys) or UNBOUND for name, keys in selected.items() if name not in by_id},
        tuple(problems),
        {name: keys for name, keys in selected.items() if name in by_id},
    )


def _hint(text: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _first_clash(selected: Keys, scopes: Sequence[Scope]) -> _Clash | None:
    """Return two bindings of one scope with the same key, if the user has chosen it for at least
    one of them.

    Global bindings belong to each scope. A scope may override a global key by default, as the ``q``
    of a modal screen does.
    """
    everywhere = scopes[-1].keys
    order = list(selected)
    for scope in scopes:
        holders: dict[str, str] = {}
        for name, default in {**everywhere, **scope.keys}.items():
            for key in selected.get(name, default):
                other = holders.setdefault(key, name)
                if other == name:
                    continue
                fresh = [
                    each
                    for each in (other, name)
                    if key in selected.get(each, ())
                    and key not in {**everywhere, **scope.keys}[each]
                ]
                if fresh:
                    replaced = max(fresh, key=order.index)
                    return _Clash(replaced, key, name if replaced == other else other)
    return None


class UserBindings(Struct, frozen=True):
    """The valid part of the user's keys, commands and hotkeys, and the problems of the rest."""

    key_map: KeyMap = field(default_factory=KeyMap)
    commands: tuple[CustomCommand, ...] = ()
    hotkeys: tuple[Hotkey, ...] = ()
    problems: tuple[str, ...] = ()


def read_user_bindings(preferences: Preferences, scopes: Sequence[Scope]) -> UserBindings:
    """Validate all settings. ``scopes`` as for `read_key_map`."""
    taken = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    commands, problems = read_commands(preferences.commands, preferences.custom_places, taken)
    hotkeys, more = _read_hotkeys(preferences, commands)
    key_map = read_key_map(
        preferences.keys,
        scopes,
        preferences.places,
        [*_keys_of(commands, preferences), *_hotkeys(hotkeys, preferences)],
    )
    return UserBindings(
        key_map,
        tuple(replace(each, keys=key_map.user_keys.get(each.id, ())) for each in commands),
        tuple(each for each in hotkeys if each.id in key_map.user_keys),
        (*problems, *more, *key_map.problems),
    )


def _keys_of(commands: Sequence[CustomCommand], preferences: Preferences) -> list[UserKeys]:
    user_keys: list[UserKeys] = []
    for each in commands:
        name = f"commands[{each.number}].key"
        position = preferences.custom_places.get(name, "")
        user_keys.append(UserKeys(each.id, each.keys, f":{each.name}", name, position))
    return user_keys


def _hotkeys(hotkeys: Sequence[Hotkey], preferences: Preferences) -> list[UserKeys]:
    return [
        UserKeys(each.id, each.keys, name, name, preferences.custom_places.get(name, ""))
        for each in hotkeys
        for name in [f"hotkeys.{each.written}"]
    ]


def _read_hotkeys(
    preferences: Preferences, commands: Sequence[CustomCommand]
) -> tuple[tuple[Hotkey, ...], tuple[str, ...]]:
    known_commands = (*COMMANDS, *map(typed_command, commands))
    valid: list[Hotkey] = []
    problems: list[str] = []
    for written, text in preferences.hotkeys.items():
        line = text.strip().removeprefix(":").strip()
        try:
            keys = key_list(written)
            parse_command(line, known_commands)
        except (KeyNameError, UsageError) as error:
            name = f"hotkeys.{written}"
            position = preferences.custom_places.get(name, "settings")
            problems.append(f"{position}: {name}: {error}")
        else:
            valid.append(Hotkey(written, keys, line))
    return tuple(valid), tuple(problems)
