"""The kinds of the folder are those that the API server stores."""

from __future__ import annotations

from podtui.manifest.kinds import KINDS
from podtui.server.resources.definitions import ALL


def test_the_folder_holds_the_kinds_that_the_server_writes() -> None:
    served = {
        (resource.api_version, resource.kind, resource.namespaced, resource.strategy)
        for resource in ALL
        # Pods of the folder are static pods, and events are written by components.
        if resource.strategy is not None and resource.kind not in ("Pod", "Event")
    }
    held = {(k.api_version, k.name, k.namespaced, k.strategy) for k in KINDS.values()}
    assert held == served
