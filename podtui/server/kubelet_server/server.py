"""The kubelet server's port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from aiohttp import web

from podtui.clock import Clock
from podtui.http.server import prepare_requests
from podtui.pki.access_point import AccessPoint
from podtui.server.transport.tls import Certificate, TlsServer
from podtui.server.transport.unix import SERVER_OPTIONS, SHUTDOWN_SECONDS
from podtui.server.transport.websocket_headers import token_as_authorization

_NAME: Final = "the kubelet server"


class KubeletServer:
    """Serves an application at an address and a port. ``build`` creates the application, which an
    aiohttp server uses only once. ``listening`` is set as soon as clients can connect."""

    def __init__(
        self,
        build: Callable[[], web.Application],
        certificate: Certificate,
        address: str,
        port: int,
        *,
        clock: Clock,
    ) -> None:
        self._build = build
        self._certificate = certificate
        self._point = AccessPoint(address, port)
        self._clock = clock
        self.listening = asyncio.Event()

    async def run(self) -> NoReturn:
        """Serve until cancelled. Raises `podtui.errors.PodtuiError` if the certificate cannot be
        loaded."""
        runner = web.AppRunner(self._build(), shutdown_timeout=SHUTDOWN_SECONDS, **SERVER_OPTIONS)
        try:
            await runner.setup()
            prepare_requests(runner, token_as_authorization)
            server = TlsServer(
                runner, self._certificate, self._point, clock=self._clock, name=_NAME, warning=""
            )
            server.listening = self.listening
            await server.run()
        finally:
            self.listening.clear()
            await runner.cleanup()
        raise AssertionError("unreachable")
