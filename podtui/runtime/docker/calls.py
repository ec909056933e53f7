"""Unary calls through the SDK in separate threads, each with its own client.

The SDK blocks, and its client is not safe to share between threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from podtui.errors import EngineUnavailable
from podtui.runtime.docker.client import Client, new_client
from podtui.runtime.docker.errors import translated, understood
from podtui.runtime.docker.locate import Endpoint

T = TypeVar("T")
THREADS: Final = 12
CALL_SECONDS: Final = 60.0
_CLOSED: Final = "the connection was closed"


class Calls:
    """Runs functions with a client on worker threads. ``version`` is the API version."""

    def __init__(self, endpoint: Endpoint, version: str) -> None:
        self._endpoint = endpoint
        self._version = version
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="engine")
        self._own = threading.local()
        self._clients: list[Client] = []

    async def run(self, call: Callable[[Client], T], *, timeout: float = CALL_SECONDS) -> T:
        """Return the result of ``call``. ``timeout`` applies to each response of the engine.

        If cancelled while the engine processes the call, wait for the response first, so that
        nothing changes after this method has returned. Raises `Refused`, `EngineUnavailable`.
        """
        try:
            future = self._pool.submit(self._call, call, timeout)
        except RuntimeError as error:
            raise EngineUnavailable(f"{self._endpoint.url}: {_CLOSED}") from error
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError:
            if not future.cancel():
                await asyncio.wait({waiting})
                waiting.exception()
            raise
        if future.cancelled():
            # `close` dropped the call before it started. The caller's task is not cancelled.
            raise EngineUnavailable(f"{self._endpoint.url}: {_CLOSED}")
        return waiting.result()

    def _call(self, call: Callable[[Client], T], timeout: float) -> T:
        with translated(self._endpoint.url), understood("a call"):
            client = self._client()
            client.timeout = timeout
            return call(client)

    def _client(self) -> Client:
        client: Client | None = getattr(self._own, "client", None)
        if client is None:
            client = new_client(self._endpoint, self._version)
            self._own.client = client
            self._clients.append(client)
        return client

    def close(self) -> None:
        """Wait for running calls, then close every connection. Blocks."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        while self._clients:
            self._clients.pop().close()
