"""Limits of requests: how many at once, how long, and how large and slow a body may be.

They are the API server's: 3 MiB for a body, and a minute for a request that is neither a watch nor
a stream. Connections are limited where they are accepted (`podtui.server.transport.tls`), heads by
the HTTP parser (`podtui.server.transport.unix`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.api.names import GROUP
from podtui.api.v1 import StatusDetails
from podtui.server.auth.access import ATTRIBUTES
from podtui.server.auth.attributes import Attributes
from podtui.server.status import Handler, StatusError

LARGEST_BODY: Final = 3 * 1024 * 1024
_FILES: Final = "files"
"""The subresource whose bodies are streams (`podtui.server.node.files`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``most_long`` is for watches and streams; seconds are for the other requests."""

    most: int = 400
    most_long: int = 384
    body_seconds: float = 30.0
    seconds: float = 60.0


class RequestLimits:
    """The middleware. It reads the body of a request, so that handlers need not limit it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._running = 0
        self._running_long = 0

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Raises `StatusError` 408, 413, 429 and 504."""
        attributes = request[ATTRIBUTES]
        with self._counted(attributes):
            if not (attributes.group == GROUP and attributes.subresource == _FILES):
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
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large() from error
        except TimeoutError as error:
            raise StatusError(408, "the request's body did not arrive in time") from error

    @contextmanager
    def _counted(self, attributes: Attributes) -> Generator[None]:
        long = attributes.long_running
        running = self._running_long if long else self._running
        if running >= (self._limits.most_long if long else self._limits.most):
            raise StatusError(
                429,
                "Too many requests, please try again later.",
                reason="TooManyRequests",
                details=StatusDetails(retryAfterSeconds=1),
                headers={"Retry-After": "1"},
            )
        self._running_long += long
        self._running += not long
        try:
            yield
        finally:
            self._running_long -= long
            self._running -= not long


def too_large() -> StatusError:
    return StatusError(413, f"Request entity too large: limit is {LARGEST_BODY}")
