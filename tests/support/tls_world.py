"""The API behind TLS on a free port of this machine, with keys in a folder of the test."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from served import Served, serving

from podtui.clock import Clock, SystemClock
from podtui.pki.access_point import AccessPoint, choose_access_point
from podtui.pki.certificates import cluster_names, server_names
from podtui.pki.pki import Pki
from podtui.server.auth.access import Access
from podtui.server.transport.tls import ServerCertificate, TlsServer


@dataclass
class ShiftedClock:
    """The machine's clock plus ``ahead``, its monotonic clock plus ``later`` seconds; a sleep sets
    ``waiting`` and lasts until a tick."""

    ahead: timedelta = timedelta()
    later: float = 0.0
    ticks: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.later

    async def sleep(self, seconds: float) -> None:
        self.waiting.set()
        await self.ticks.wait()
        self.ticks.clear()


@dataclass
class TlsWorld:
    served: Served
    pki: Pki
    point: AccessPoint
    certificate: ServerCertificate

    def trust(self) -> ssl.SSLContext:
        """Return a client's context, as strict as Python 3.13's default."""
        context = ssl.create_default_context(cadata=self.pki.authority.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def client(self, token: str | None = None, **headers: str) -> aiohttp.ClientSession:
        """Return a client with the owner's token, another one, or none if it is empty."""
        token = self.pki.token if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connector = aiohttp.TCPConnector(ssl=self.trust())
        return aiohttp.ClientSession(self.point.url, connector=connector, headers=headers)

    def plain_socket(self) -> socket.socket:
        return socket.create_connection((self.point.address, self.point.port), timeout=10)

    def raw(self) -> ssl.SSLSocket:
        """Open a blocking TLS connection, for bytes that no library would send."""
        return self.trust().wrap_socket(self.plain_socket(), server_hostname="localhost")

    async def exchange(self, data: bytes) -> bytes:
        """Send bytes and return all that comes back until the server closes."""
        return await asyncio.to_thread(self._exchange, data)

    def _exchange(self, data: bytes) -> bytes:
        with self.raw() as connection:
            # The server may answer and close before it has read everything.
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.sendall(data)
            found = b""
            with suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    found += piece
            return found


@asynccontextmanager
async def tls_world(
    folder: Path,
    *,
    clock: Clock | None = None,
    address: str = "127.0.0.1",
    server: dict[str, Any] | None = None,
    on_authority: Callable[[], Awaitable[None]] | None = None,
    **options: Any,
) -> AsyncIterator[TlsWorld]:
    clock = clock or SystemClock()
    pki = await asyncio.to_thread(Pki, folder / "pki", clock.now())
    point = choose_access_point(folder, address, 0)
    names = server_names(("node-1", address))
    access = Access(pki.token, names=names, cluster_names=cluster_names("cluster.local"))
    options.setdefault("access", access)
    async with serving(folder / "s.sock", **options) as served, asyncio.TaskGroup() as group:
        certified = (*names, *cluster_names("cluster.local"))
        certificate = ServerCertificate(pki, certified, clock=clock, on_authority=on_authority)
        tls = TlsServer(served.runner, certificate, point, clock=clock, **(server or {}))
        task = group.create_task(tls.run())
        async with asyncio.timeout(120):
            await tls.listening.wait()
        try:
            yield TlsWorld(served, pki, point, certificate)
        finally:
            task.cancel()
