"""The choice of a backend for a connection from this machine.

The choice is random, as by kube-proxy. With the session affinity ``ClientIP``, a client keeps its
backend for as long as the Service says, while the backend can be chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Final

from podtui.services.backends import Backend, PortBackends

MAX_CLIENTS: Final = 4096
"""The number of clients that a port remembers, for session affinity."""


class Balancer:
    """Chooses backends of one port of a Service. ``port`` changes with the endpoints."""

    def __init__(
        self,
        port: PortBackends,
        monotonic: Callable[[], float],
        chooser: random.Random | None = None,
    ) -> None:
        self.port = port
        self._monotonic = monotonic
        self._random = chooser or random.Random()
        self._clients: dict[str, tuple[Backend, float]] = {}
        """The backend of each client, and when the client was seen last; the oldest first."""

    def choose(self, client: str, refused: Collection[Backend] = ()) -> Backend | None:
        """Return a backend for the address of a client; None if there is none besides those that
        ``refused`` the connection."""
        backends = [item for item in self.port.backends if item not in refused]
        if not backends:
            return None
        affinity = self.port.affinity
        now = self._monotonic()
        if affinity and client in self._clients:
            backend, seen = self._clients.pop(client)
            if now - seen < affinity and backend in backends:
                self._clients[client] = (backend, now)
                return backend
        backend = self._random.choice(backends)
        if affinity:
            while len(self._clients) >= MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
            self._clients[client] = (backend, now)
        return backend
