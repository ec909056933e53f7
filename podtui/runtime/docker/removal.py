"""Stop and remove our containers, and check their ownership."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from podtui.api import names
from podtui.errors import EngineNotFound
from podtui.runtime.docker.answers import labels_of
from podtui.runtime.docker.errors import Refused, engine_error, parsing, translate_errors
from podtui.runtime.docker.link import Connection, Link

_MARGIN: Final = 60.0
"""Extra seconds beyond the grace period for the engine to kill and to take the network down."""
_REMOVE_SECONDS: Final = 60.0
_INSPECT_SECONDS: Final = 20.0
"""Shorter than other calls: a blocked container must not keep the agent from connecting."""
_LONGEST_GRACE: Final = 2**31 - 1
"""Engines compute with nanoseconds in 64 bits."""
TURN_SECONDS: Final = 0.2
"""A stop takes the engine about 0.05 s if the container exits on the signal."""


class Ownership:
    """Tracks the containers with our root label. ``root`` is its value."""

    def __init__(self, connection: Connection, root: str) -> None:
        self._connection = connection
        self._root = root
        self._own_containers: set[str] = set()

    def add(self, container_id: str) -> None:
        self._own_containers.add(container_id)

    def forget(self, container_id: str) -> None:
        self._own_containers.discard(container_id)

    async def inspect(self, container_id: str) -> dict[str, Any]:
        """Return the inspection. Raises `EngineNotFound`, also for containers that are not ours."""
        with translate_errors():
            inspection: dict[str, Any] = await self._connection.link.calls.run(
                lambda client: client.inspect_container(container_id), timeout=_INSPECT_SECONDS
            )
        with parsing("an inspected container"):
            if labels_of(inspection["Config"]).get(names.ROOT_LABEL) != self._root:
                raise EngineNotFound(f"No such container: {container_id}")
            self._own_containers.add(str(inspection["Id"]))
        return inspection

    async def check(self, container_id: str) -> None:
        """Raises `EngineNotFound` if the container is not ours or does not exist."""
        if container_id not in self._own_containers:
            await self.inspect(container_id)


@asynccontextmanager
async def short_turn(slots: asyncio.Semaphore) -> AsyncGenerator[None]:
    """Wait for one of ``slots``; release it after the block, or after `TURN_SECONDS` if the block
    takes longer.

    Stops of many containers thus begin a few at a time, and a container that uses its grace period
    does not delay the others.
    """
    await slots.acquire()
    held = True

    def release() -> None:
        nonlocal held
        if held:
            held = False
            slots.release()

    timer = asyncio.get_running_loop().call_later(TURN_SECONDS, release)
    try:
        yield
    finally:
        timer.cancel()
        release()


async def stop_container(link: Link, container_id: str, grace: float) -> None:
    """Send the stop signal, and SIGKILL after ``grace`` seconds; a missing container is no
    error."""
    path = f"/containers/{container_id}/stop"
    seconds = min(math.ceil(grace), _LONGEST_GRACE)
    try:
        await link.wire.send("POST", path, query={"t": str(seconds)}, total=grace + _MARGIN)
    except Refused as error:
        if error.status != 404:
            raise engine_error(error) from error


async def remove_container(link: Link, container_id: str) -> None:
    """Kill and remove a container and its anonymous volumes; a missing one is no error."""
    try:
        await link.calls.run(
            lambda client: client.remove_container(container_id, force=True, v=True),
            timeout=_REMOVE_SECONDS,
        )
    except Refused as error:
        if error.status == 404:
            return
        if error.status != 409 or "in progress" not in error.text:
            raise engine_error(error) from error
        await _removed(link, container_id)


async def _removed(link: Link, container_id: str) -> None:
    """Wait for a removal that is already in progress."""
    path = f"/containers/{container_id}/wait"
    try:
        await link.wire.send("POST", path, query={"condition": "removed"}, total=_REMOVE_SECONDS)
    except Refused as error:
        if error.status != 404:
            raise engine_error(error) from error
