"""Serve on TCP with TLS: the API, beside its unix socket, and the kubelet server.

Connections are accepted here and not by asyncio's server, so that those in a TLS handshake count,
too. A port in use and a certificate that cannot be renewed never stop the agent: both are reported
once and retried. The certificate is checked by the wall clock, which may jump, before each
handshake and after each that fails.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NoReturn, Protocol

from aiohttp import web

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.pki.access_point import AccessPoint, listen
from podtui.pki.pki import Pki

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 512
HANDSHAKE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 5.0
_ACCEPT_RETRY_SECONDS: Final = 1.0
_RENEWAL_CHECK: Final = timedelta(minutes=1)
"""Between checks without connections, and between attempts that fail."""


class Certificate(Protocol):
    """The certificate that a server presents."""

    async def context(self) -> ssl.SSLContext:
        """Return the context of a new connection. Raises `PodtuiError`."""
        ...

    async def renew_if_due(self) -> None:
        """Make the next `context` a valid one. Errors are logged."""
        ...


class ServerCertificate:
    """The certificate that all listeners of the API present; ``names`` are in it.

    ``on_authority`` is called when the authority has a new certificate, which clients must get. It
    may raise `PodtuiError`.
    """

    def __init__(
        self,
        pki: Pki,
        names: Sequence[str],
        *,
        clock: Clock,
        on_authority: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._pki = pki
        self._names = names
        self._clock = clock
        self._on_authority = on_authority
        self._context: ssl.SSLContext | None = None
        self._renewal = asyncio.Lock()
        self._published = pki.authority
        self._retry_at = 0.0
        self._reported = False

    async def context(self) -> ssl.SSLContext:
        """Return the server's context, which new certificates are loaded into. Raises
        `PodtuiError`."""
        async with self._renewal:
            if self._context is None:
                await asyncio.to_thread(
                    self._pki.ensure_server_certificate, self._names, self._clock.now()
                )
                self._context = tls_context(self._pki.server_path)
            return self._context

    async def renew_if_due(self) -> None:
        """Renew the certificates if the wall clock is outside of their time, and publish a new
        authority. New connections get the new certificate."""
        # A connection that comes during a renewal waits for it: the new certificate may be written
        # already, but not loaded.
        if not self._renewal.locked() and not self._is_due():
            return
        async with self._renewal:
            if self._clock.monotonic() < self._retry_at or not self._is_due():
                return
            try:
                if await asyncio.to_thread(
                    self._pki.ensure_server_certificate, self._names, self._clock.now()
                ):
                    if self._context is not None:
                        self._context.load_cert_chain(self._pki.server_path)
                    log.info("renewed the certificate of the API")
                authority = self._pki.authority
                if authority != self._published and self._on_authority is not None:
                    await self._on_authority()
                self._published = authority
                self._reported = False
            except (PodtuiError, OSError) as error:
                self._retry_at = self._clock.monotonic() + _RENEWAL_CHECK.total_seconds()
                if not self._reported:
                    log.warning("cannot renew the certificate of the API: %s", error)
                self._reported = True

    def _is_due(self) -> bool:
        return self._pki.is_due(self._clock.now()) or self._pki.authority != self._published


class TlsAcceptor:
    """Accepts the connections of a listener, and passes them to ``server`` after the handshake.
    Those above the limit are closed. ``name`` is that of the listener in the log."""

    def __init__(
        self,
        server: web.Server,
        certificate: Certificate,
        *,
        name: str,
        clock: Clock,
        has_room: Callable[[int], bool],
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        """``has_room`` gets the number of connections in a handshake."""
        self._server = server
        self._certificate = certificate
        self._name = name
        self._clock = clock
        self._has_room = has_room
        self._handshake_seconds = handshake_seconds
        self._handshakes = 0

    async def run(self, listener: socket.socket) -> NoReturn:
        """The caller closes the listener, and the connections of the server. Raises
        `PodtuiError`."""
        await self._certificate.context()
        async with asyncio.TaskGroup() as group:
            await self._accept(listener, group)
        raise AssertionError("unreachable")

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        reported = ""
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Out of file descriptors, or the client left before it was accepted.
                if str(error) != reported:
                    log.warning("cannot accept connections on %s: %s", self._name, error)
                reported = str(error)
                await self._clock.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            reported = ""
            if not self._has_room(self._handshakes):
                log.debug("too many connections on %s: one was closed", self._name)
                connection.close()
                continue
            self._handshakes += 1
            group.create_task(self._handshake(connection))

    async def _handshake(self, connection: socket.socket) -> None:
        """Start TLS on a connection; the server has it afterwards."""
        try:
            await self._certificate.renew_if_due()
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server,
                connection,
                ssl=await self._certificate.context(),
                ssl_handshake_timeout=self._handshake_seconds,
            )
        except OSError as error:
            # Also SSLError and TimeoutError: the client does not trust us, or is no TLS client.
            log.debug("a TLS handshake failed: %s", error)
            connection.close()
            await self._certificate.renew_if_due()
        finally:
            self._handshakes -= 1


class TlsServer:
    """Serves a runner's application at an access point until it is cancelled. ``name`` is that of
    the server in the log; ``warning`` says what other machines can do if they reach it."""

    def __init__(
        self,
        runner: web.AppRunner,
        certificate: Certificate,
        point: AccessPoint,
        *,
        clock: Clock,
        name: str = "the API",
        warning: str = "its token gives control of this one",
        most_connections: int = MOST_CONNECTIONS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._runner = runner
        self._certificate = certificate
        self._point = point
        self._clock = clock
        self._name = name
        self._warning = warning
        self._most_connections = most_connections
        self._handshake_seconds = handshake_seconds
        self.listening = asyncio.Event()

    async def run(self) -> NoReturn:
        server = self._runner.server
        assert server is not None

        def has_room(handshakes: int) -> bool:
            return len(server.connections) + handshakes < self._most_connections

        await self._certificate.context()
        acceptor = TlsAcceptor(
            server,
            self._certificate,
            name=self._point.url,
            clock=self._clock,
            has_room=has_room,
            handshake_seconds=self._handshake_seconds,
        )
        listener = await self._listener()
        try:
            log.info("serving %s", self._point.url)
            self.listening.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_valid(), name="certificate renewal")
                await acceptor.run(listener)
        finally:
            listener.close()
        raise AssertionError("unreachable")

    async def _keep_valid(self) -> NoReturn:
        while True:
            await self._clock.sleep(_RENEWAL_CHECK.total_seconds())
            await self._certificate.renew_if_due()

    async def _listener(self) -> socket.socket:
        """Return the listening socket. Retries while the port is in use or the address is not
        there yet."""
        address, port = self._point.address, self._point.port
        if self._warning and not ipaddress.ip_address(address).is_loopback:
            log.warning(
                "%s listens on %s: other machines can reach it, and %s",
                self._name,
                address,
                self._warning,
            )
        reported = ""
        while True:
            try:
                return listen(address, port)
            except OSError as error:
                reason = "the port is in use" if error.errno == errno.EADDRINUSE else str(error)
                if reason != reported:
                    log.warning(
                        "cannot serve %s on %s port %d: %s; pods and podtui's own screen do"
                        " not need it. Retrying every %.0f s",
                        self._name,
                        address,
                        port,
                        reason,
                        _RETRY_SECONDS,
                    )
                    reported = reason
            await self._clock.sleep(_RETRY_SECONDS)


def tls_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """Return the server's context for a file with the certificate, and the key if that has no file
    of its own. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # With an empty password, the library does not prompt for one on the terminal.
    context.load_cert_chain(certificate, key, password="")
    return context
