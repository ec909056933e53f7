"""The resolvers of this machine, which the cluster's name server asks for other names."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Sequence
from typing import Final

from podtui.clock import Clock
from podtui.kubelet.sandbox.dns import read_resolver
from podtui.kubelet.types import ConfigError
from podtui.services.dns_server import ADDRESS, PORT
from podtui.services.forwarding import Resolver

_LOG = logging.getLogger(__name__)
NODE_FILE: Final = "/etc/resolv.conf"
_SECONDS: Final = 5.0
"""Seconds for which a file that was read counts."""


class NodeResolvers:
    """Reads the file again when it is needed, as it may change while the agent runs."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path or NODE_FILE
        self._clock = clock
        self._resolvers: tuple[Resolver, ...] = ()
        self._read: float | None = None

    async def __call__(self) -> Sequence[Resolver]:
        now = self._clock.monotonic()
        if self._read is None or now - self._read >= _SECONDS:
            self._read = now
            try:
                node = await asyncio.to_thread(read_resolver, self._path)
            except ConfigError as error:
                _LOG.warning("the resolvers of the node are unknown: %s", error)
            else:
                self._resolvers = resolvers_of(node.servers)
        return self._resolvers


def resolvers_of(servers: Sequence[str]) -> tuple[Resolver, ...]:
    """Return the servers that are addresses. The cluster's own address is left out: where a pod has
    the host's network, it would lead back here."""
    return tuple((server, PORT) for server in servers if _is_address(server) and server != ADDRESS)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
