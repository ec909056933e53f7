"""The tcpSocket handler: a connection that comes about is all it wants (reference §8)."""

from __future__ import annotations

import asyncio

from podtui.kubelet.prober.address import Address
from podtui.kubelet.prober.go_words import dial_error, dial_timeout
from podtui.kubelet.prober.outcome import SUCCESS, Outcome, failure


async def connect(address: Address, timeout: float) -> Outcome:
    """``timeout`` is in seconds."""
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            return failure(dial_timeout(address))
        return failure(dial_error(address, error))
    # Nothing was said, so nothing has to be waited for.
    writer.transport.abort()
    return SUCCESS
