"""Serve the API on a listener inside the network of a pod.

A connection proves nothing but that it comes from this network: requests need credentials, as on
TCP. Each pod has a server of its own, which ends with the pod, and so do its connections.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from aiohttp import web

from podtui.clock import Clock
from podtui.server.transport.tls import ServerCertificate, TlsAcceptor
from podtui.server.transport.unix import SERVER_OPTIONS

MOST_CONNECTIONS_OF_POD: Final = 100
MOST_CONNECTIONS_OF_PODS: Final = 512
_END_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SourcePod:
    """The pod whose network a request comes from. Both texts are empty for the network of the host,
    where other programs can connect as well."""

    name: str = ""
    """Namespace and name, ``default/web``."""
    ip: str = ""


SOURCE_POD: Final = web.RequestKey("source pod", SourcePod)
"""Set for requests from the network of a pod, and for no others."""


class PodServers:
    """Serves a runner's application to pods. ``most`` limits the connections of all pods,
    ``most_each`` those of a pod."""

    def __init__(
        self,
        runner: web.AppRunner,
        certificate: ServerCertificate,
        *,
        clock: Clock,
        most: int = MOST_CONNECTIONS_OF_PODS,
        most_each: int = MOST_CONNECTIONS_OF_POD,
    ) -> None:
        self._runner = runner
        self._certificate = certificate
        self._clock = clock
        self._most = most
        self._most_each = most_each
        self._servers: list[web.Server] = []

    async def serve(self, pod: SourcePod, listener: socket.socket) -> NoReturn:
        """Serve a pod until cancelled; then close its connections. The caller closes the
        listener."""
        server = self._server_of(pod)

        def has_room(handshakes: int) -> bool:
            if len(server.connections) + handshakes >= self._most_each:
                return False
            return sum(len(each.connections) for each in self._servers) + handshakes < self._most

        acceptor = TlsAcceptor(
            server,
            self._certificate,
            name=f"the API's address in the pod {pod.name}".rstrip(),
            clock=self._clock,
            has_room=has_room,
        )
        self._servers.append(server)
        try:
            await acceptor.run(listener)
        finally:
            self._servers.remove(server)
            server.pre_shutdown()
            await server.shutdown(_END_SECONDS)
        raise AssertionError("unreachable")

    def _server_of(self, pod: SourcePod) -> web.Server:
        shared = self._runner.server
        assert shared is not None
        make: Callable[..., web.BaseRequest] = shared.request_factory

        def make_request(*arguments: Any) -> web.BaseRequest:
            request = make(*arguments)
            request[SOURCE_POD] = pod
            return request

        return web.Server(shared.request_handler, request_factory=make_request, **SERVER_OPTIONS)
