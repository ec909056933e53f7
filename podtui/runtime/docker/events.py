"""The engine's events of one root's containers and sandboxes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from podtui.api import names
from podtui.errors import EngineUnavailable
from podtui.runtime.docker.answers import mapping
from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.wire import objects
from podtui.runtime.protocol import RuntimeEvent

_EVENTS: Final = ("create", "start", "die", "oom", "destroy", "pause", "unpause")
_TYPES: Final = (names.DOCKER_TYPE_SANDBOX, names.DOCKER_TYPE_CONTAINER)
_OTHER_NAMES: Final = {"died": "die", "remove": "destroy"}
"""Podman's own event names, which its filter requires."""


async def read_events(connection: Connection, root: str) -> AsyncIterator[RuntimeEvent]:
    """Yield events endlessly. ``root`` is the value of our root label. Raises
    `EngineUnavailable`."""
    filters = {
        "type": ["container"],
        "label": [f"{names.ROOT_LABEL}={root}"],
        "event": [*_EVENTS, *_OTHER_NAMES],
    }
    try:
        async with connection.link.wire.open(
            "GET", "/events", query={"filters": json.dumps(filters)}
        ) as response:
            async for event in objects(response):
                if (reported := _event(event)) is not None:
                    yield reported
    except Refused as error:
        raise EngineUnavailable(f"the engine's event stream ended: {error}") from error
    raise EngineUnavailable("the engine's event stream ended")


def _event(event: dict[str, Any]) -> RuntimeEvent | None:
    actor = mapping(event, "Actor")
    labels = mapping(actor, "Attributes")
    uid, action = labels.get(names.POD_UID), str(event.get("Action") or "")
    kind = labels.get(names.DOCKER_TYPE)
    if not uid or not action or kind not in _TYPES:
        return None
    identity = str(actor.get("ID") or "")
    return RuntimeEvent(pod_uid=uid, action=_OTHER_NAMES.get(action, action), id=identity)
