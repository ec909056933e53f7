"""Read the output of sessions with containers, of the runtime and of the client."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from podtui.client.protocol import RemoteSession
from podtui.runtime.protocol import ProcessSession

MEBIBYTE = 1 << 20


async def output_of(session: ProcessSession | RemoteSession) -> dict[str, bytes]:
    """Return all output by stream."""
    found = {"stdout": b"", "stderr": b""}
    async with asyncio.timeout(120):
        async for stream, data in session.output():
            found[stream] += data
    return found


async def echo(session: ProcessSession | RemoteSession, mebibytes: int = 100) -> int:
    """Check that a session of ``cat`` returns all input; return by how many bytes this process
    grew meanwhile.
    """
    block = os.urandom(MEBIBYTE)
    sent, received, total = hashlib.sha256(), hashlib.sha256(), 0
    before = most = _resident()

    async def pour() -> None:
        for number in range(mebibytes):
            piece = number.to_bytes(4, "big") + block[4:]
            sent.update(piece)
            await session.write(piece)
        await session.end_input()

    async with asyncio.timeout(55), asyncio.TaskGroup() as group:
        group.create_task(pour())
        async for _, data in session.output():
            received.update(data)
            total += len(data)
            most = max(most, _resident())
    assert total == mebibytes * MEBIBYTE
    assert received.digest() == sent.digest()
    return most - before


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
