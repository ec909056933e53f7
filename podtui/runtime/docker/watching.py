"""Commands in containers, and the engine's events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from podtui.api import names
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, ExecTimeout
from podtui.runtime.docker.client import mapping
from podtui.runtime.docker.errors import Refused, meant
from podtui.runtime.docker.execs import create_exec, exec_exit, kill_exec
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.log_stream import Frames
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.docker.wire import objects, pieces
from podtui.runtime.protocol import ExecResult, RuntimeEvent

_EXIT_CODE_TRIES: Final = 50
_EXIT_CODE_PAUSE: Final = 0.02
_EVENTS: Final = ("create", "start", "die", "oom", "destroy", "pause", "unpause")
_OTHER_NAMES: Final = {"died": "die", "remove": "destroy"}
"""Podman's own event names, which its filter requires."""


class Watching:
    """``root`` is the value of our root label."""

    def __init__(
        self, connection: Connection, ownership: Ownership, root: str, clock: Clock
    ) -> None:
        self._connection = connection
        self._ownership = ownership
        self._root = root
        self._clock = clock

    # --- commands

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int
    ) -> ExecResult:
        link = self._connection.link
        await self._ownership.check(container_id)
        with meant():
            identity = await create_exec(link, container_id, command)
            try:
                async with asyncio.timeout(timeout):
                    said, complained = await self._output(link, identity, limit)
            except TimeoutError as error:
                await kill_exec(link, self._clock, container_id, identity)
                text = f'command "{" ".join(command)}" timed out after {timeout:g}s'
                raise ExecTimeout(text) from error
            return ExecResult(
                exit_code=await self._exit_code(link, identity),
                output=(said + complained)[:limit],
                stderr=complained,
            )

    async def _output(self, link: Link, exec_id: str, limit: int) -> tuple[bytes, bytes]:
        """Read stdout and stderr to their ends, and keep the first ``limit`` bytes of each."""
        kept = {"stdout": bytearray(), "stderr": bytearray()}
        frames = Frames()
        path = f"/exec/{exec_id}/start"
        async with link.wire.open("POST", path, body={"Detach": False, "Tty": False}) as response:
            async for piece in pieces(response):
                for stream, payload in frames.feed(piece):
                    kept[stream] += payload[: limit - len(kept[stream])]
        return bytes(kept["stdout"]), bytes(kept["stderr"])

    async def _exit_code(self, link: Link, exec_id: str) -> int:
        """Poll, because the engine may end the stream shortly before it has the exit code."""
        for _ in range(_EXIT_CODE_TRIES):
            if (code := await exec_exit(link, exec_id)) is not None:
                return code
            await self._clock.sleep(_EXIT_CODE_PAUSE)
        raise EngineError("the engine does not tell the command's exit code")

    # --- events

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        link = self._connection.link
        filters = {
            "type": ["container"],
            "label": [f"{names.ROOT_LABEL}={self._root}"],
            "event": [*_EVENTS, *_OTHER_NAMES],
        }
        try:
            async with link.wire.open(
                "GET", "/events", query={"filters": json.dumps(filters)}
            ) as response:
                async for event in objects(response):
                    if (told := _event(event)) is not None:
                        yield told
        except Refused as error:
            raise EngineUnavailable(f"the engine's event stream ended: {error}") from error
        raise EngineUnavailable("the engine's event stream ended")


def _event(event: dict[str, Any]) -> RuntimeEvent | None:
    actor = mapping(event, "Actor")
    labels = mapping(actor, "Attributes")
    uid, action = labels.get(names.POD_UID), str(event.get("Action") or "")
    if not uid or not action:
        return None
    identity = str(actor.get("ID") or "")
    return RuntimeEvent(pod_uid=uid, action=_OTHER_NAMES.get(action, action), id=identity)
