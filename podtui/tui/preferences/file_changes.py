"""Detect file changes by polling every two seconds.

A file system watch would be faster, but its library wakes the processor twenty times a second, and
two seconds are short enough after saving a theme.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 2.0

Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Return a value that changes when the file does; None if the file cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def changes_of(stamp: Callable[[], object]) -> AsyncIterator[None]:
    """Yield each time the result of ``stamp`` changes. ``stamp`` may block; it runs in a thread."""
    before = await asyncio.to_thread(stamp)
    while True:
        await asyncio.sleep(POLL_SECONDS)
        after = await asyncio.to_thread(stamp)
        if after != before:
            before = after
            yield
