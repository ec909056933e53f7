"""The settings that take effect while the screen runs: theme, keys, commands, notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from podtui.settings import Resolved

_FOR_THIS_RUN: Final = ("command line", "PODTUI_THEME")


class Preferences(Struct, frozen=True, kw_only=True):
    """The preferences.

    ``places`` contains the origin (file and line) of each entry of ``keys`` by binding id,
    ``custom_places`` that of ``commands`` and ``hotkeys`` by their names in the settings.
    """

    theme: str = ""
    theme_is_fixed: bool = False
    """True if the theme was given for this run; then a theme chosen by key is not remembered."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    commands: tuple[object, ...] = ()
    """Raw values, not validated yet."""
    hotkeys: Mapping[str, str] = field(default_factory=dict[str, str])
    custom_places: Mapping[str, str] = field(default_factory=dict[str, str])
    notify_on: frozenset[str] = frozenset()
    notify_by: tuple[str, ...] = ()
    notify_command: tuple[str, ...] = ()


def preferences_of(resolved: Resolved, *, theme: str | None = None) -> Preferences:
    """Extract the preferences; ``theme`` overrides the theme of the settings and is fixed."""
    settings = resolved.settings
    return Preferences(
        theme=settings.theme if theme is None else theme,
        theme_is_fixed=theme is not None or resolved.origins.get("theme") in _FOR_THIS_RUN,
        keys=settings.keys,
        places={
            name.removeprefix("keys."): position
            for name, position in resolved.origins.items()
            if name.startswith("keys.")
        },
        commands=settings.commands,
        hotkeys=settings.hotkeys,
        custom_places={
            name: position
            for name, position in resolved.origins.items()
            if name.startswith(("commands[", "hotkeys."))
        },
        notify_on=frozenset(settings.notifyOn),
        notify_by=settings.notifyBy,
        notify_command=settings.notifyCommand,
    )
