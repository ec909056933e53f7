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
}
"""The capabilities that an action outside of `ACTIONS` needs; any one of them is enough."""
PARTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("tab", "timeline"): ("timelines",),
    ("tab", "manifest"): ("manifests",),
    ("tab", "resources"): ("insights",),
    ("tab", "probes"): ("insights",),
    ("tab", "history"): ("insights",),
    ("tab", "images"): ("engine",),
    ("tab", "rejected"): ("what_if",),
    ("tab", "what-if"): ("what_if",),
    ("open_node", "images"): ("engine",),
    ("open_node", "rejected"): ("what_if",),
    ("open_node", "what-if"): ("what_if",),
}
"""The capabilities needed by actions with a certain first parameter."""
BINDINGS: Final[Mapping[str, str]] = {
    "timeline": "timelines",
    "resources": "insights",
    "probes": "insights",
    "what-if": "what_if",
    "journal": "engine",
    "trash": "manifests",
    "manifest": "manifests",
    "why.apply": "manifests",
    "why.next": "manifests",
    "why.before": "manifests",
}
"""Capabilities by binding ID or its first part, for screens and tabs that are hidden entirely."""


def is_available(
    capabilities: ServerCapabilities, action: str, parameters: tuple[object, ...] = ()
) -> bool:
    """Return whether the server supports an action."""
    first = str(parameters[0]) if parameters else ""
    known = ACTIONS.get(first if action == "do" else action)
    if known is not None:
        wanted = known.needs
    else:
        wanted = PARTS.get((action, first)) or NEEDS.get(action, ())
    return not wanted or any(getattr(capabilities, name) for name in wanted)


def is_binding_available(capabilities: ServerCapabilities, id_: str, action: str) -> bool:
    """Return whether the server supports a binding, by its ID and action
    (``screen.tab('probes')``).
    """
    group = BINDINGS.get(id_) or BINDINGS.get(id_.partition(".")[0])
    if group is not None and not getattr(capabilities, group):
        return False
    _, name, parameters = parse(action)
    return is_available(capabilities, name, parameters)
