"""The registry of all bindings on all screens, used to validate key maps and to list the keys."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

import podtui.tui

GROUPS: Final = {
    "main": "Panes and pods",
    "act": "Commands on pods",
    "own": "Custom commands",
    "hotkey": "Custom hotkeys",
    "pods": "Sorting the pods",
    "table": "In a table",
    "logs": "Logs",
    "log": "In a log",
    "pod": "Pod",
    "object": "Objects of any kind",
    "timeline": "Timeline",
    "yaml": "A pod's YAML",
    "resources": "Resource usage",
    "probes": "A pod's probes",
    "why": "Why",
    "node": "Node",
    "images": "The engine's images",
    "node-pane": "The node's pane",
    "what-if": "What-if",
    "manifest": "Manifest",
    "tree": "Tree",
    "map": "Map",
    "explain": "Explain",
    "text": "In a text",
    "lines": "In a list or an overview",
    "columns": "Columns",
    "aliases": "Commands and short names",
    "journal": "Journal",
    "trash": "Trash",
    "forwards": "Port-forwards",
    "dialog": "Dialogs",
    "picker": "Picker",
    "menu": "The menu",
    "ask": "Name input",
    "prompt": "Prompt",
    "log-prompt": "Log prompt",
    "screen": "All screens except the main screen",
    "help": "Help",
    "app": "Everywhere",
}
"""Titles by the first part of the binding ID, in the order of the list."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The bindings of one class, which are active together: keys by ID."""

    name: str
    keys: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class KnownBinding:
    """A binding; ``keys`` are Textual's names of its default keys."""

    id: str
    description: str
    keys: tuple[str, ...]
    action: str = ""

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


def group_title(group: str) -> str:
    return GROUPS.get(group) or group.replace("-", " ").capitalize()


def group_order(group: str) -> tuple[int, str]:
    names = tuple(GROUPS)
    return (names.index(group) if group in GROUPS else len(names) - 1, group)


def words_of(binding: Binding) -> str:
    return binding.tooltip or binding.description


@cache
def binding_classes() -> tuple[type[DOMNode], ...]:
    """Return every class of this package with active bindings: the shared widgets first."""
    for module in pkgutil.walk_packages(podtui.tui.__path__, "podtui.tui."):
        importlib.import_module(module.name)
    classes = {c for c in _subclasses(DOMNode) if c.__module__.startswith("podtui.tui.")}
    return tuple(sorted(classes, key=_class_order))


def _class_order(owner: type[DOMNode]) -> tuple[bool, str, str]:
    # The shared widgets first: their bindings keep their own order.
    shared = owner.__module__.startswith("podtui.tui.widgets.")
    return not shared, owner.__module__, owner.__qualname__


def _subclasses(base: type[Any]) -> Iterator[type[Any]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def bindings_of(owner: type[DOMNode]) -> tuple[Binding, ...]:
    """Return the bindings of a class that have an ID, also inherited ones, one for each key.

    A class's own bindings of a key replace inherited ones, as in Textual.
    """
    merged: dict[str, list[Binding]] = {}
    for base in reversed(owner.__mro__):
        merged |= BindingsMap(vars(base).get("BINDINGS")).key_to_bindings
    return tuple(binding for bindings in merged.values() for binding in bindings if binding.id)


@cache
def scopes() -> tuple[Scope, ...]:
    """Return the scopes; the app's scope is the last."""
    result: list[Scope] = []
    for owner in binding_classes():
        keys: dict[str, tuple[str, ...]] = {}
        for binding in bindings_of(owner):
            keys[binding.id or ""] = (*keys.get(binding.id or "", ()), binding.key)
        if keys:
            result.append(Scope(owner.__name__, keys))
    return tuple(sorted(result, key=lambda scope: "app.quit" in scope.keys))


@cache
def known_bindings() -> tuple[KnownBinding, ...]:
    """Return one binding for each ID, sorted by group."""
    by_id: dict[str, KnownBinding] = {}
    for owner in binding_classes():
        for binding in bindings_of(owner):
            name = binding.id or ""
            before = by_id.get(name)
            keys = before.keys if before is not None else ()
            description = before.description if before is not None else words_of(binding)
            by_id[name] = KnownBinding(
                name, description, tuple(dict.fromkeys((*keys, binding.key))), binding.action
            )
    return tuple(sorted(by_id.values(), key=lambda binding: group_order(binding.group)))
