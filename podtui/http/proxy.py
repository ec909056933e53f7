"""Pass a request's body, or an upgraded connection, on to a pod: for the proxies of the API and
Ingresses."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from podtui.http.client import HttpConnection
from podtui.http.server import UpgradedSocket

_LOG = logging.getLogger(__name__)
_PIECE_BYTES: Final = 64 * 1024


def frame_body(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Set the headers that say where the body of the request ends. The pod closes the connection
    after its response."""
    headers["Connection"] = "close"
    if request.can_read_body and request.content_length is None:
        headers["Transfer-Encoding"] = "chunked"
    elif request.content_length or request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(request.content_length or 0)


async def send_body(
    request: web.Request, connection: HttpConnection, headers: CIMultiDict[str]
) -> None:
    """Send the body of a request as its ``headers`` say. A server may answer, and close, before it
    has read all."""
    chunked = "Transfer-Encoding" in headers
    if not chunked and headers.get("Content-Length", "0") == "0":
        return
    try:
        async for data in request.content.iter_chunked(_PIECE_BYTES):
            await (connection.send_chunk(data) if chunked else connection.send(data))
        if chunked:
            await connection.send_chunk(b"")
    except ConnectionError as error:
        _LOG.debug("the pod stopped reading the request: %s", error)
    except web.RequestPayloadError as error:
        _LOG.debug("the body of the request is malformed: %s", error)
        connection.abort()


async def send_upgraded(client: UpgradedSocket, connection: HttpConnection) -> None:
    """Pass the bytes of an upgraded connection to the pod, until the client ends. Raises
    ConnectionError."""
    async with aclosing(client.messages()) as messages:
        async for data in messages:
            await connection.send(data)
    await connection.end_writing()


async def receive_upgraded(connection: HttpConnection, client: UpgradedSocket) -> None:
    """Pass the bytes of an upgraded connection to the client, until the pod ends. Raises
    ConnectionError."""
    async for data in connection.rest():
        await client.send(data)
