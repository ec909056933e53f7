"""The user's own keys, checked: what is wrong with one is told, and the rest still applies."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from podtui.tui.key_names import SUGGESTIONS, UNBOUND, KeyNameError, key_list, shown_key

if TYPE_CHECKING:
    from podtui.tui.key_registry import Scope

Keys = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class KeyMap:
    """``keys`` is what `textual.app.App.set_keymap` takes; ``problems`` say where each is."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Clash:
    loser: str
    key: str
    other: str


def read_key_map(
    wanted: Mapping[str, str], scopes: Sequence[Scope], places: Mapping[str, str]
) -> KeyMap:
    """``wanted`` has keys, separated by commas, by the id of a binding, the first in the file
    first: where two ask for one key in the same place, that one has it. ``places`` has
    ``FILE:LINE:COLUMN`` by id, as far as known. The scope of the whole app is the last,
    and there must be one."""
    problems: list[str] = []
    chosen: dict[str, tuple[str, ...]] = {}
    ids = {name for scope in scopes for name in scope.keys}

    def tell(name: str, text: str) -> None:
        problems.append(f"{places.get(name, 'settings')}: keys.{name}: {text}")

    for name, text in wanted.items():
        if name not in ids:
            tell(name, f"no such binding{_hint(name, sorted(ids))}")
            continue
        try:
            chosen[name] = key_list(text)
        except KeyNameError as error:
            tell(name, f"{error}{_hint(text.rpartition('+')[2].strip().lower(), SUGGESTIONS)}")
    while (clash := _first_clash(chosen, scopes)) is not None:
        tell(clash.loser, f"{shown_key(clash.key)!r} is the key of {clash.other} there")
        del chosen[clash.loser]
    return KeyMap({name: ",".join(keys) or UNBOUND for name, keys in chosen.items()},
                  tuple(problems))  # fmt: skip


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
