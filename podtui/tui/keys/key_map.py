"""The user's own keys, checked: what is wrong with one is told, and the rest still applies."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, field

from podtui.tui.keys.key_names import SUGGESTIONS, UNBOUND, KeyNameError, key_list, shown_key

if TYPE_CHECKING:
    from podtui.tui.keys.key_registry import Scope

Keys = Mapping[str, tuple[str, ...]]


class OwnKeys(Struct, frozen=True):
    """Keys of something that is not podtui's, in force everywhere: ``id`` is its binding's,
    ``words`` what it is called, ``field`` what the settings call its keys, and where."""

    id: str
    keys: tuple[str, ...]
    words: str
    field: str
    place: str = ""


class KeyMap(Struct, frozen=True):
    """``keys`` is what `textual.app.App.set_keymap` takes, ``own`` has the keys of what is not
    podtui's by id; ``problems`` say where each is."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()
    own: Keys = field(default_factory=dict[str, tuple[str, ...]])


class _Clash(Struct, frozen=True):
    loser: str
    key: str
    other: str


def read_key_map(
    wanted: Mapping[str, str],
    scopes: Sequence[Scope],
    places: Mapping[str, str],
    own: Sequence[OwnKeys] = (),
) -> KeyMap:
    """``wanted`` has keys, separated by commas, by the id of a binding, the first in the file
    first: where two ask for one key in the same place, that one has it. ``places`` has
    ``FILE:LINE:COLUMN`` by id, as far as known. The scope of the whole app is the last,
    and there must be one. Bindings go before what is the user's ``own``."""
    problems: list[str] = []
    chosen: dict[str, tuple[str, ...]] = {}
    ids = {name for scope in scopes for name in scope.keys}
    theirs = {each.id: each for each in own}

    def place(name: str) -> str:
        return theirs[name].place if name in theirs else places.get(name, "")

    def tell(name: str, text: str) -> None:
        what = theirs[name].field if name in theirs else f"keys.{name}"
        problems.append(f"{place(name) or 'settings'}: {what}: {text}")

    def called(name: str) -> str:
        words = theirs[name].words if name in theirs else name
        where = place(name) if name in chosen else ""
        return f"{words} there ({where})" if where else f"{words} there"

    for name, text in wanted.items():
        if name not in ids:
            tell(name, f"no such binding{_hint(name, sorted(ids))}")
            continue
        try:
            chosen[name] = key_list(text)
        except KeyNameError as error:
            tell(name, f"{error}{_hint(text.rpartition('+')[2].strip().lower(), SUGGESTIONS)}")
    chosen |= {each.id: each.keys for each in own}
    everywhere = replace(scopes[-1], keys={**scopes[-1].keys, **dict.fromkeys(theirs, ())})
    scopes = (*scopes[:-1], everywhere)
    while (clash := _first_clash(chosen, scopes)) is not None:
        tell(clash.loser, f"{shown_key(clash.key)!r} is the key of {called(clash.other)}")
        del chosen[clash.loser]
    return KeyMap(
        {name: ",".join(keys) or UNBOUND for name, keys in chosen.items() if name not in theirs},
        tuple(problems),
        {name: keys for name, keys in chosen.items() if name in theirs},
    )


def _hint(text: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _first_clash(chosen: Keys, scopes: Sequence[Scope]) -> _Clash | None:
    """Two bindings of one place on one key, of which somebody chose at least one so.

    What is in force everywhere belongs to each place; a place that hides such a key on its own
    account, as the first ``q`` of a screen above another does, may go on doing so."""
    everywhere = scopes[-1].keys
    order = list(chosen)
    for scope in scopes:
        holders: dict[str, str] = {}
        for name, default in {**everywhere, **scope.keys}.items():
            for key in chosen.get(name, default):
                other = holders.setdefault(key, name)
                if other == name:
                    continue
                fresh = [
                    each
                    for each in (other, name)
                    if key in chosen.get(each, ()) and key not in {**everywhere, **scope.keys}[each]
                ]
                if fresh:
                    loser = max(fresh, key=order.index)
                    return _Clash(loser, key, name if loser == other else other)
    return None
