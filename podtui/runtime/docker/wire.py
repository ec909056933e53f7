"""The engine's HTTP API without the SDK: for answers that take long or come in pieces.

A stream owns its connection and ends with the block that opened it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from podtui.errors import EngineUnavailable
from podtui.runtime.docker.errors import Refused, translated, understood
from podtui.runtime.docker.hijack import Channel, hijack
from podtui.runtime.docker.locate import Endpoint

_CHUNK: Final = 64 * 1024
_LONGEST_LINE: Final = 16 * 1024 * 1024
CONNECT_SECONDS: Final = 10.0


class Wire:
    """Requests to one engine. Must be made, used and closed in one event loop."""

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
        self._open: set[aiohttp.ClientResponse] = set()
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
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The answer's head, its body yet to be read inside the block.

        The request's own body is either ``body``, as JSON, or ``content`` as it comes.
        ``total`` and ``idle`` are seconds for the whole and between two pieces; None is endless.
        Raises `Refused`, `EngineUnavailable`, from the block too.
        """
        timeout = aiohttp.ClientTimeout(
            total=total, sock_connect=CONNECT_SECONDS, sock_read=idle or total
        )
        if self._session.closed:
            raise EngineUnavailable(f"{self._url}: the connection was closed")
        with translated(self._url):
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
        """The decoded JSON answer, None where it is empty. Raises as `open`."""
        async with self.open(method, path, query=query, body=body, total=total) as response:
            content = await response.read()
        with understood(path):
            return json.loads(content) if content.strip() else None

    @asynccontextmanager
    async def hijack(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Channel]:
        """POST, and the byte stream that the connection becomes. Raises `Refused`,
        `EngineUnavailable`; the block's own errors are nobody else's."""
        with translated(self._url):
            path = f"/v{self._version}{path}"
            channel = await hijack(self._endpoint, path, query=query, body=body)
        self._hijacked.add(channel)
        try:
            yield channel
        finally:
            self._hijacked.discard(channel)
            await channel.close()

    async def close(self) -> None:
        """End every stream, whose readers get an error or its end."""
        for response in list(self._open):
            response.close()
        for channel in list(self._hijacked):
            channel.shut()
        await self._session.close()


async def pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it comes."""
    while piece := await response.content.read(_CHUNK):
        yield piece


async def objects(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a body that has one a line (or none between them)."""
    kept = b""
    async for piece in pieces(response):
        *lines, kept = (kept + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield _object(line)
        if len(kept) > _LONGEST_LINE:
            raise Refused(500, "the engine sent a line without end")
    if kept.strip():
        yield _object(kept)


@understood("a stream")
def _object(line: bytes) -> dict[str, Any]:
    return dict(json.loads(line))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:1000]
