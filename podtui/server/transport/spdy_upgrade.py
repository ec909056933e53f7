"""Connections that a client upgraded to SPDY/3.1, as kubectl before 1.30 and 1.31 does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from podtui.clock import Clock
from podtui.http.server import UpgradedSocket
from podtui.server.status import StatusError
from podtui.wire.spdy import ping_frame

UPGRADE: Final = "SPDY/3.1"
_HEADER: Final = "X-Stream-Protocol-Version"
_PING_NUMBER: Final = 2
STREAMS_SECONDS: Final = 30.0
"""The kubelet's ``streamCreationTimeout``: how long a client may take to open streams."""


def is_upgrade(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == UPGRADE.lower()


def negotiated(request: web.Request, served: Sequence[str]) -> str:
    """Return the first protocol of the client that is served; the oldest if it names none.

    Raises `StatusError` 403.
    """
    lines = request.headers.getall(_HEADER, [])
    offered = [name.strip() for line in lines for name in line.split(",") if name.strip()]
    if not offered:
        # ``served`` begins with the newest protocol.
        return served[-1]
    for name in offered:
        if name in served:
            return name
    raise StatusError(
        403,
        f"unable to upgrade: unable to negotiate protocol: client supports {_listed(offered)},"
        f" server accepts {_listed(served)}",
    )


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


class SpdySocket(UpgradedSocket):
    def __init__(self, protocol: str, clock: Clock) -> None:
        super().__init__({"Connection": "Upgrade", "Upgrade": UPGRADE, _HEADER: protocol}, clock)
        self.protocol = protocol

    async def ping(self) -> None:
        await self.response.write(ping_frame(_PING_NUMBER))
