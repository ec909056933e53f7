"""A TCP port in front of a server, such as the engine: it is remote, and can be disconnected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class EngineProxy:
    """Listens on loopback and forwards to a unix socket, or a port of loopback, until `cut`;
    `listen` starts again. ``accepted`` is the number of connections. Requests whose first line
    contains a text of ``unanswered`` are dropped."""

    def __init__(self, target: str | int) -> None:
        self._target = target
        self.accepted = 0
        self.unanswered: tuple[bytes, ...] = ()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        # A connection that was just accepted needs a few turns of the loop until it is kept.
        for _ in range(10):
            await asyncio.sleep(0)
        for writer in self._writers:
            writer.transport.abort()
        async with asyncio.timeout(120):
            await self._idle.wait()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, int):
            return await asyncio.open_connection("127.0.0.1", self._target)
        return await asyncio.open_unix_connection(self._target)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        async with self._kept(writer):
            try:
                inner, out = await self._connect()
            except OSError:
                return
            async with self._kept(out), asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, out, self._is_answered))
                group.create_task(_copy(inner, writer))

    def _is_answered(self, piece: bytes) -> bool:
        line = piece.partition(b"\r\n")[0]
        return not any(text in line for text in self.unanswered)

    @contextlib.asynccontextmanager
    async def _kept(self, writer: asyncio.StreamWriter):
        self._idle.clear()
        self._writers.add(writer)
        try:
            yield
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._writers.discard(writer)
            if not self._writers:
                self._idle.set()


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    passes: Callable[[bytes], bool] = lambda _: True,
) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            if passes(piece):
                writer.write(piece)
                await writer.drain()
        writer.write_eof()
