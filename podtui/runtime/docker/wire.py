"""The engine's HTTP API without the SDK, for long-running and streamed responses.

A stream owns its connection and ends with the block that opened it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from podtui.errors import EngineUnavailable
from podtui.runtime.docker.errors import Refused, parsing, translate_transport_errors
from podtui.runtime.docker.hijack import Channel, hijack
from podtui.runtime.docker.locate import Endpoint

Response = aiohttp.ClientResponse
_CHUNK: Final = 64 * 1024
_LONGEST_LINE: Final = 16 * 1024 * 1024
CONNECT_SECONDS: Final = 10.0


class Wire:
    """Requests to one engine. Create, use and close it in the same event loop."""

    def __init__(self, endpoint: Endpoint, version: str) -> None:
        self._url = endpoint.url
        self._endpoint = endpoint
        self._version = version
        self._base = f"{endpoint.http_url}/v{version}"
        if endpoint.socket_path is not None:
            connector: aiohttp.BaseConnector = aiohttp.UnixConnector(endpoint.socket_path, limit=0)
        else:
            ssl = endpoint.tls.context() if endpoint.tls else True
            connector = aiohttp.TCPConnector(limit=0, ssl=ssl)
        self._open: set[Response] = set()
        self._hijacked: set[Channel] = set()
        self._session = aiohttp.ClientSession(
            connector=connector, headers={"Accept-Encoding": "identity"}
        )

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        total: float | None = None,
        idle: float | None = None,
    ) -> AsyncGenerator[Response]:
        """Send a request, and return the response; read its body inside the block.

        The request body is either ``body``, sent as JSON, or the stream ``content``. ``total`` and
        ``idle`` are timeouts in seconds for the whole request and between two pieces; None is no
        timeout. Raises `Refused`, `EngineUnavailable`, also from the block.
        """
        timeout = aiohttp.ClientTimeout(
            total=total, sock_connect=CONNECT_SECONDS, sock_read=idle or total
        )
        if self._session.closed:
            raise EngineUnavailable(f"{self._url}: the connection was closed")
        with translate_transport_errors(self._url):
            async with self._session.request(
                method,
                self._base + path,
                params=query,
                json=body,
                data=content,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 400:
                    raise Refused(response.status, _message(await response.read()))
                self._open.add(response)
                try:
                    yield response
                finally:
                    self._open.discard(response)
                    response.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        total: float,
    ) -> Any:
        """Return the decoded JSON response; None if it is empty. Raises the same errors as
        `open`."""
        async with self.open(method, path, query=query, body=body, total=total) as response:
            content = await response.read()
        with parsing(path):
            return json.loads(content) if content.strip() else None

    @asynccontextmanager
    async def hijack(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Channel]:
        """Send a POST request, and return the byte stream of the upgraded connection. Raises
        `Refused`, `EngineUnavailable`. Errors of the block are not translated."""
        with translate_transport_errors(self._url):
            path = f"/v{self._version}{path}"
            channel = await hijack(self._endpoint, path, query=query, body=body)
        self._hijacked.add(channel)
        try:
            yield channel
        finally:
            self._hijacked.discard(channel)
            await channel.close()

    async def close(self) -> None:
        """Close all streams. Their readers get an error or the end of the stream."""
        for response in list(self._open):
            response.close()
        for channel in list(self._hijacked):
            channel.shut()
        await self._session.close()


async def pieces(response: Response) -> AsyncIterator[bytes]:
    """Yield the body as it arrives."""
    while piece := await response.content.read(_CHUNK):
        yield piece


async def objects(response: Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a body, one per line."""
    kept = b""
    async for piece in pieces(response):
        *lines, kept = (kept + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield _object(line)
        if len(kept) > _LONGEST_LINE:
            raise Refused(500, "the engine sent a line that is too long")
    if kept.strip():
        yield _object(kept)


@parsing("a stream")
def _object(line: bytes) -> dict[str, Any]:
    return dict(json.loads(line))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:1000]
