"""Leftover objects of a driver on the engine."""

from __future__ import annotations

from typing import Any

from podtui.api.names import root_key


def leftovers(raw: Any, root: str) -> list[str]:
    """Return the names of all objects with the root's label."""
    label = {"label": f"podtui.dev/root={root_key(root)}"}
    containers = raw.containers(all=True, filters=label)
    volumes = raw.volumes(filters=label)["Volumes"] or []
    return [c["Names"][0] for c in containers] + [v["Name"] for v in volumes]
