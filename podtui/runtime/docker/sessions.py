"""Interactive sessions with commands and containers: exec and attach."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from podtui.clock import Clock
from podtui.errors import EngineConflict
from podtui.runtime.docker.answers import labels_of
from podtui.runtime.docker.errors import Refused, translate_errors, translate_transport_errors
from podtui.runtime.docker.execs import CALL_SECONDS, create_exec, exec_exit, kill_exec
from podtui.runtime.docker.hijack import Channel
from podtui.runtime.docker.identity import STDIN_ONCE_LABEL
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.log_stream import Frames
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.protocol import Output, Session

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0


class DockerSession:
    """One hijacked connection. ``resize_path`` is the API's path; ``code`` waits for the exit code.

    ``closes`` means that the process should see the end of its input. Otherwise the connection is
    not half-closed, because the engine would treat that as a detach.
    """

    def __init__(
        self,
        link: Link,
        channel: Channel,
        *,
        tty: bool,
        resize_path: str,
        closes: bool = True,
        code: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._link = link
        self._channel = channel
        self._tty = tty
        self._resize_path = resize_path
        self._closes = closes
        self._code = code
        self._url = link.endpoint.url

    async def output(self) -> AsyncGenerator[Output]:
        frames = None if self._tty else Frames()
        while piece := await self._read():
            if frames is None:
                yield "stdout", piece
            else:
                for output in frames.feed(piece):
                    yield output

    async def _read(self) -> bytes:
        with translate_transport_errors(self._url):
            try:
                return await self._channel.read()
            except ConnectionResetError:
                # The process exited with unread input.
                return b""

    async def write(self, data: bytes) -> None:
        try:
            await self._channel.write(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    async def end_input(self) -> None:
        if not self._closes:
            return
        try:
            await self._channel.end()
        except OSError:
            # The process has already exited.
            return

    async def resize(self, columns: int, rows: int) -> None:
        if not self._tty:
            return
        query = {"w": str(columns), "h": str(rows)}
        try:
            await self._link.wire.send("POST", self._resize_path, query=query, total=CALL_SECONDS)
        except Refused as error:
            _LOG.debug("no resize to %dx%d: %s", columns, rows, error)

    async def exit_code(self) -> int | None:
        return None if self._code is None else await self._code()


class Sessions:
    def __init__(self, connection: Connection, ownership: Ownership, clock: Clock) -> None:
        self._connection = connection
        self._ownership = ownership
        self._clock = clock

    @asynccontextmanager
    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncGenerator[Session]:
        link = self._connection.link
        await self._ownership.check(container_id)
        ended = False

        async def code() -> int:
            nonlocal ended
            found = await self._exit_code(link, identity)
            ended = True
            return found

        async with AsyncExitStack() as stack:
            with translate_errors():
                identity = await create_exec(link, container_id, command, stdin=stdin, tty=tty)
                body = {"Detach": False, "Tty": tty}
                channel = await stack.enter_async_context(
                    link.wire.hijack(f"/exec/{identity}/start", body=body)
                )
            resize = f"/exec/{identity}/resize"
            try:
                yield DockerSession(link, channel, tty=tty, resize_path=resize, code=code)
            finally:
                if not ended:
                    await kill_exec(link, self._clock, container_id, identity)

    @asynccontextmanager
    async def attach(self, container_id: str, *, stdin: bool) -> AsyncGenerator[Session]:
        link = self._connection.link
        found = await self._ownership.inspect(container_id)
        if not found["State"].get("Running"):
            raise EngineConflict(f"container {container_id} is not running")
        query = {"stream": "1", "stdout": "1", "stderr": "1", "stdin": "1" if stdin else "0"}
        async with AsyncExitStack() as stack:
            with translate_errors():
                channel = await stack.enter_async_context(
                    link.wire.hijack(f"/containers/{container_id}/attach", query=query)
                )
            resize = f"/containers/{container_id}/resize"
            tty = bool(found["Config"].get("Tty"))
            once = STDIN_ONCE_LABEL in labels_of(found["Config"])
            closes = (once or bool(found["Config"].get("StdinOnce"))) and not tty
            yield DockerSession(link, channel, tty=tty, resize_path=resize, closes=closes)

    async def _exit_code(self, link: Link, exec_id: str) -> int:
        """Poll, because the output may end long before the command exits."""
        pause = _FIRST_PAUSE
        with translate_errors():
            while (found := await exec_exit(link, exec_id)) is None:
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        return found
