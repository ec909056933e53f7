"""Endless responses: watches and followed logs.

Producers add bytes to an `Outflow`, and one task writes them: all bytes that arrive during a write
are sent as the next chunk. A full outflow blocks its producers, a closed one ends the response
cleanly. The server's `Streams` owns all outflows, so that a shutdown does not wait for clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from aiohttp import web

from podtui.server.transport.socket_streams import SocketStream

log = logging.getLogger(__name__)

LIMIT = 256 * 1024
T = TypeVar("T")


class Outflow:
    """A buffer of at most about ``LIMIT`` bytes for one client."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None
        """The writer, if there is nothing to write: each change wakes all watches, and a plain
        future costs less than an event."""
        self.writing: object = None
        """The write in progress."""
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        """The number of bytes that wait."""
        return len(self._buffer)

    @property
    def ended(self) -> bool:
        return self._ended

    def add(self, data: bytes) -> bool:
        """Add bytes. Returns whether there is room for more; otherwise await `room` first."""
        self._buffer += data
        self._wake()
        if len(self._buffer) < LIMIT:
            return True
        self._room.clear()
        return False

    async def room(self) -> None:
        await self._room.wait()

    def end(self) -> None:
        """Write the buffered bytes and end the response. Idempotent."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def write_to(self, response: web.StreamResponse) -> None:
        """Raises ConnectionError if the client leaves."""
        loop = asyncio.get_running_loop()
        while True:
            if self._buffer:
                self.writing, self._buffer = self._buffer, bytearray()
                self._room.set()
                await response.write(self.writing)
                self.writing = None
            elif self._ended:
                return
            else:
                self._waiting = loop.create_future()
                await self._waiting


@asynccontextmanager
async def closed_after(items: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T]]:
    """Close an async generator when its reader ends, also on errors."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


Producer = Callable[[Outflow], Awaitable[None]]


class Streams:
    """All open streams of one server. One whose client does not read for ``stalled_seconds``, or up
    to twice as long, is ended."""

    def __init__(self, stalled_seconds: float) -> None:
        self._stalled_seconds = stalled_seconds
        self._open: set[Outflow] = set()
        self._closed = False
        self._closing = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting(self) -> int:
        """The number of bytes that wait for clients."""
        return sum(map(len, self._open))

    def close(self) -> None:
        """End all streams, and immediately any that starts later."""
        self._closed = True
        self._closing.set()
        for outflow in self._open:
            outflow.end()

    async def unless_closed(self, answer: Awaitable[T]) -> T | None:
        """Await a long-running response; None if the server closes before it is ready."""
        answers: list[T] = []
        async with asyncio.TaskGroup() as group:

            async def wait() -> None:
                answers.append(await answer)
                closing.cancel()

            closing = group.create_task(self._closing.wait(), name="closing")
            waiting = group.create_task(wait(), name="waiting")
            closing.add_done_callback(lambda _: waiting.cancel())
        return answers[0] if answers else None

    async def run(
        self,
        request: web.Request,
        response: web.StreamResponse,
        *producers: Producer,
        timeout: float | None = None,
    ) -> web.StreamResponse:
        """Send a response until a producer ends the outflow, ``timeout`` seconds pass, the client
        disconnects or the server closes. If a producer fails, abort the connection, so that the
        client can distinguish an error from a regular end."""
        outflow = Outflow()
        if self._closed:
            outflow.end()
        self._open.add(outflow)
        try:
            await response.prepare(request)
            await self._flow(outflow, response, producers, timeout)
        except* ConnectionError as errors:
            log.debug("the client of %s left: %s", request.path, errors.exceptions)
            if request.transport is not None:
                request.transport.abort()
        except* Exception:
            log.exception("%s broke off", request.path)
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._open.discard(outflow)
        return response

    async def _flow(
        self,
        outflow: Outflow,
        response: web.StreamResponse,
        producers: tuple[Producer, ...],
        timeout: float | None,
    ) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_produce(producer, outflow)) for producer in producers]
            if isinstance(response, SocketStream):
                tasks.append(group.create_task(_end_with(response, outflow)))
            if timeout is not None:
                tasks.append(group.create_task(_end_after(timeout, outflow)))
            tasks.append(group.create_task(_abort_stalled(self._stalled_seconds, outflow)))
            await outflow.write_to(response)
            for task in tasks:
                task.cancel()
        await response.write_eof()


STREAMS: Final[web.AppKey[Streams]] = web.AppKey("streams", Streams)
"""The streams of an application."""


async def _produce(producer: Producer, outflow: Outflow) -> None:
    await producer(outflow)


async def _end_with(socket: SocketStream, outflow: Outflow) -> None:
    await socket.wait_closed()
    outflow.end()


async def _abort_stalled(seconds: float, outflow: Outflow) -> None:
    """Raises ConnectionError if one write takes longer than ``seconds``, or up to twice as long. A
    timeout for each write would cost more than the write."""
    while True:
        writing = outflow.writing
        await asyncio.sleep(seconds)
        if writing is not None and outflow.writing is writing:
            raise ConnectionAbortedError("the client does not read")


async def _end_after(seconds: float, outflow: Outflow) -> None:
    await asyncio.sleep(seconds)
    outflow.end()
