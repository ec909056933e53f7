"""Convert between key names as users write them and Textual's names."""

from __future__ import annotations

import unicodedata
from typing import Final

from textual.keys import (
    ASCII_KEY_NAMES,
    KEY_NAME_REPLACEMENTS,
    REPLACED_KEYS,
    Keys,
    format_key,
    key_to_character,
)

UNBOUND: Final = "unbound"
"""The name for "no key": no keyboard sends it."""
MODIFIERS: Final = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_SHORT: Final = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "spc": "space",
}
_NAMED: Final = {
    name
    for name in (key.value.rpartition("+")[2] for key in Keys)
    if len(name) > 1 and name.isalnum()
}
SUGGESTIONS: Final = tuple(sorted({*_NAMED, *_SHORT, *REPLACED_KEYS, "question_mark", "colon"}))


class KeyNameError(ValueError):
    """Raised for a text that is not a key name."""


def key_name(text: str) -> str:
    """Return Textual's name of a key: ``?`` is ``question_mark``, ``Ctrl+R`` is ``ctrl+r``,
    ``shift+a`` is ``A``. Raises `KeyNameError`.
    """
    written = text.strip()
    *given, last = [written] if len(written) == 1 else written.split("+")
    modifiers = [part.lower() for part in given]
    unknown = next((part for part in modifiers if part not in MODIFIERS), None)
    if unknown is not None:
        raise KeyNameError(f"{text!r} is not a key: before '+' use one of {', '.join(MODIFIERS)}")
    name = _base_name(last) if last else None
    if name is None:
        raise KeyNameError(f"{text!r} is not a key")
    if len(name) == 1 and "shift" in modifiers:
        modifiers.remove("shift")
        name = name.upper()
    if "ctrl" in modifiers:
        # Terminals send the same byte for both cases; only for "@" Textual keeps the character.
        name = "@" if name == "at" else name.lower()
    return "+".join((*(m for m in MODIFIERS if m in modifiers), name))


def _base_name(text: str) -> str | None:
    if len(text) == 1:
        return name_of_character(text) if text.isprintable() else None
    name = text.lower()
    name = _SHORT.get(name, name)
    if name in _NAMED or name in REPLACED_KEYS:
        return name
    character = key_to_character(name)
    if character is not None and unicodedata.category(character)[0] in "LNPS":
        return name_of_character(character)
    return None


def name_of_character(character: str) -> str:
    """Return Textual's name of the key that types a character."""
    name = character
    if not character.isalnum():
        name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    name = name or ASCII_KEY_NAMES.get(character, character)
    return KEY_NAME_REPLACEMENTS.get(name, name)


def key_list(text: str) -> tuple[str, ...]:
    """Return the keys of a comma-separated list; an empty text or ``none`` means no keys. Raises
    `KeyNameError`.
    """
    if text.strip() in ("", "none"):
        return ()
    if text.strip() == ",":
        return ("comma",)
    return tuple(dict.fromkeys(key_name(part) for part in text.split(",")))


def shown_key(name: str) -> str:
    """Return a key name as used in documents and accepted in settings."""
    *modifiers, last = name.split("+")
    character = format_key(last) if len(key_to_character(last) or "") == 1 else last
    if last in REPLACED_KEYS:
        character = format_key(last)
    return "+".join((*modifiers, last if last == "space" else character))
