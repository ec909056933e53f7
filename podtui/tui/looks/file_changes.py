"""Whether files changed: looked at every other second.

The system's own watch would tell sooner, but the library for it wakes the processor twenty times a
second, and who has saved a theme waits two seconds for it gladly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 2.0

Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a file does; None where there is none to be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def changes_of(stamp: Callable[[], object]) -> AsyncIterator[None]:
    """Yields each time that ``stamp``, which may block, gives something else."""
    before = await asyncio.to_thread(stamp)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        after = await asyncio.to_thread(stamp)
        if after != before:
            before = after
            yield
