"""List the programs that listen on ports of this machine."""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass
from typing import Any, Final

import psutil

_LOG = logging.getLogger(__name__)
_EVERY: Final = ("::", "0.0.0.0", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket. ``protocol`` is ``TCP`` or ``UDP``; ``ip`` is empty for all addresses.
    ``process`` is empty and ``pid`` is None if unknown, as for other users' programs."""

    protocol: str
    ip: str
    port: int
    process: str = ""
    pid: int | None = None


def read_listeners() -> tuple[Listener, ...]:
    """List the listening sockets; empty if they cannot be read. Blocks for some tens of
    milliseconds."""
    try:
        found: list[Any] = psutil.net_connections(kind="inet")
    except (psutil.Error, OSError) as error:
        _LOG.info("the machine does not tell who listens on its ports: %s", error)
        return ()
    listeners: list[Listener] = []
    names: dict[int | None, str] = {}
    for one in found:
        udp = one.type == socket.SOCK_DGRAM
        if not one.laddr or (one.raddr if udp else one.status != psutil.CONN_LISTEN):
            continue
        if one.pid not in names:
            names[one.pid] = _name_of(one.pid)
        ip = "" if one.laddr.ip in _EVERY else str(one.laddr.ip)
        listeners.append(
            Listener(
                protocol="UDP" if udp else "TCP",
                ip=ip,
                port=int(one.laddr.port),
                process=names[one.pid],
                pid=one.pid,
            )
        )
    return tuple(listeners)


def _name_of(pid: int | None) -> str:
    if pid is None:
        return ""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        # The process has ended, or is not visible to this user.
        return ""
