"""Parsers of the settings that only the screen uses, from a file, a flag or the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

NOTIFY_ON: Final = ("crashLoop", "failed", "ready", "nodeNotReady")
NOTIFY_BY: Final = ("bell", "osc9")


def key_settings(value: object) -> Mapping[str, str]:
    """Parse comma-separated keys by binding id: ``{app.quit: Q, app.help: [f1, "?"]}``. Raises
    ValueError. The ids and keys themselves are checked where the bindings are known."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(";") if part.strip()]
        if all(sep for _, sep, _ in pairs):
            return {name.strip(): keys.strip() for name, _, keys in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value)
        return {str(name): _keys(keys) for name, keys in items.items()}
    raise ValueError("wants a map of keys by binding, such as {app.quit: Q}")


def _keys(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(part) for part in cast(list[object], value)) or "none"
    if isinstance(value, dict):
        raise ValueError("wants a key, or a list of keys, for each binding")
    return str(value) or "none"


def one_of(known: tuple[str, ...]) -> Callable[[object], tuple[str, ...]]:
    """Return a parser for lists of known words; the parser raises ValueError."""

    def parse(value: object) -> tuple[str, ...]:
        words: object = value.split(",") if isinstance(value, str) else value
        if isinstance(words, list):
            found = [str(word).strip() for word in cast(list[object], words) if str(word).strip()]
            if all(word in known for word in found):
                return tuple(dict.fromkeys(found))
        raise ValueError(f"wants a list of {', '.join(known)}")

    return parse


def command_words(value: object) -> tuple[str, ...]:
    """Parse a program and its arguments; a string is a program alone. They are never passed to a
    shell. Raises ValueError."""
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list):
        return tuple(str(word) for word in cast(list[object], value))
    raise ValueError("wants a list such as [notify-send, podtui]")


def command_entries(value: object) -> tuple[object, ...]:
    """Parse the user's custom commands, unchecked, with scalars as strings. Raises ValueError. They
    are checked where the bindings are known, so that an invalid one does not affect the others."""
    if isinstance(value, list):
        return tuple(cast(list[object], value))
    raise ValueError("wants a list of commands, each a map with name and command")


def hotkey_settings(value: object) -> Mapping[str, str]:
    """Parse ``:`` command lines by key: ``{ctrl+o: sort restarts}``. Raises ValueError."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(";") if part.strip()]
        if all(sep for _, sep, _ in pairs):
            return {key.strip(): line.strip() for key, _, line in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        if not any(isinstance(line, (dict, list)) for _, line in items):
            return {str(key): str(line) for key, line in items}
    raise ValueError("wants a map of command lines by key, such as {ctrl+o: sort restarts}")
