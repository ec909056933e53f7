"""The actions that each server supports; unsupported actions and their keys are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.actions import parse

from podtui.client.protocol import ServerCapabilities
from podtui.tui.commands.actions import ACTIONS

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "switch_source": ("manifests",),
    "managed": ("managed_fields",),
    "remove_image": ("engine",),
    "prune_images": ("engine",),
    "context": ("contexts",),
    "tab.timeline": ("timelines",),
    "tab.manifest": ("manifests",),
    "tab.resources": ("insights",),
    "tab.probes": ("insights",),
    "tab.history": ("insights",),
    "tab.images": ("engine",),
    "tab.rejected": ("what_if",),
    "tab.what-if": ("what_if",),
    "map.try": ("insights",),
    "why.apply": ("manifests",),
    "why.next": ("manifests",),
    "why.before": ("manifests",),
}
"""The capabilities that actions outside of `ACTIONS`, tabs and bindings need; any one of them is
enough. The bindings of a tab or of an action's screen need the same as the tab or the action."""


def is_available(
    capabilities: ServerCapabilities, action: str, parameters: tuple[object, ...] = ()
) -> bool:
    """Return whether the server supports an action."""
    first = str(parameters[0]) if parameters else ""
    if action == "do":
        return _has(capabilities, first)
    return _has(capabilities, f"tab.{first}" if action in ("tab", "open_node") else action)


def is_binding_available(capabilities: ServerCapabilities, id_: str, action: str) -> bool:
    """Return whether the server supports a binding, by its ID and action
    (``screen.tab('probes')``).
    """
    group = id_.partition(".")[0]
    if not all(_has(capabilities, name) for name in (id_, group, f"tab.{group}")):
        return False
    _, name, parameters = parse(action)
    return is_available(capabilities, name, parameters)


def _has(capabilities: ServerCapabilities, name: str) -> bool:
    action = ACTIONS.get(name)
    needs = NEEDS.get(name, ()) if action is None else action.needs
    return not needs or any(getattr(capabilities, need) for need in needs)
