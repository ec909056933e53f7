"""Limits of requests: how many at once, how long, and how large and slow a body may be.

They are the API server's: 3 MiB for a body, a minute for a request that is neither a watch nor a
stream, and another one for a client to read its response. Connections are limited where they are
accepted (`podtui.server.transport.tls`), heads by the HTTP parser (`podtui.server.transport.unix`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.api.names import GROUP
from podtui.api.v1 import StatusDetails
from podtui.server.auth.access import ATTRIBUTES, USER
from podtui.server.auth.attributes import Attributes
from podtui.server.status import Handler, StatusError
from podtui.server.transport.unix import is_local

log = logging.getLogger(__name__)

LARGEST_BODY: Final = 3 * 1024 * 1024
_FILES: Final = "files"
"""The subresource whose bodies are archives (`podtui.server.kubelet_api.files`)."""
_PROXY: Final = "proxy"
"""The subresource whose bodies are for pods (`podtui.server.kubelet_api.pod_proxy`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``most_long`` is for watches and streams, of which one client may have ``most_long_each``: a
    client is a user with a User-Agent. ``reserved`` of ``most`` and of ``most_long`` are for
    requests on the unix socket: clients with the token cannot lock out the owner's screen.
    ``stalled_seconds`` is how long a stream waits for a client that does not read; the other
    seconds are for the other requests."""

    most: int = 400
    most_long: int = 384
    most_long_each: int = 192
    reserved: int = 64
    body_seconds: float = 30.0
    seconds: float = 60.0
    send_seconds: float = 60.0
    stalled_seconds: float = 4 * 3600.0


class RequestLimits:
    """The middlewares. They read the body of a request, so that handlers need not limit it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running = 0
        self._running_long: Counter[tuple[str, str]] = Counter()

    @web.middleware
    async def send(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Send the response, and disconnect a client that does not read it in time. For responses
        of every kind: the outermost middleware."""
        response = await handler(request)
        if response.prepared:
            return response  # A stream, which has ended.
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            log.debug("the client of %s did not read the response", request.path)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            log.debug("the client of %s disconnected before the response", request.path)
        return response

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Raises `StatusError` 408, 413, 429 and 504."""
        attributes = request[ATTRIBUTES]
        with self._counted(request):
            if not _passes_body_on(attributes):
                await self._read_body(request)
            if attributes.long_running or attributes.group == GROUP:
                return await handler(request)
            timeout = asyncio.timeout(self._limits.seconds)
            try:
                async with timeout:
                    return await handler(request)
            except TimeoutError as error:
                if not timeout.expired():
                    raise
                raise StatusError(
                    504,
                    "Timeout: request did not complete within the allotted timeout",
                    details=StatusDetails(),
                ) from error

    async def _read_body(self, request: web.Request) -> None:
        """Read the body; aiohttp keeps it for the handler."""
        if not request.can_read_body:
            return
        if (request.content_length or 0) > LARGEST_BODY:
            raise too_large()
        if request.content.is_eof():
            return  # It came with the head.
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large() from error
        except TimeoutError as error:
            raise StatusError(408, "the request's body did not arrive in time") from error

    @contextmanager
    def _counted(self, request: web.Request) -> Generator[None]:
        long, running, limits = request[ATTRIBUTES].long_running, self._running_long, self._limits
        client = (request[USER].name, request.headers.get("User-Agent", ""))
        reserved = 0 if is_local(request) else limits.reserved
        if long:
            full = running.total() >= limits.most_long - reserved
            full = full or running[client] >= limits.most_long_each
        else:
            full = self._running >= limits.most - reserved
        if full:
            raise StatusError(
                429,
                "Too many requests, please try again later.",
                reason="TooManyRequests",
                details=StatusDetails(retryAfterSeconds=1),
                headers={"Retry-After": "1"},
            )
        self._running += not long
        running[client] += long
        try:
            yield
        finally:
            self._running -= not long
            running[client] -= long
            if not running[client]:
                del running[client]


def too_large() -> StatusError:
    return StatusError(413, f"Request entity too large: limit is {LARGEST_BODY}")


def _passes_body_on(attributes: Attributes) -> bool:
    """Return whether the body of a request goes to a pod, piece by piece."""
    if attributes.group == GROUP:
        return attributes.subresource == _FILES
    return attributes.resource == "pods" and attributes.subresource == _PROXY
