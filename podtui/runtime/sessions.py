"""What stays open between a caller and a container: commands under way, and byte streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

Output = tuple[Literal["stdout", "stderr"], bytes]
"""A piece of what a process wrote; with a terminal everything is ``stdout``."""


class Session(Protocol):
    """A process that somebody talks with: a command run in a container, or the container's own.

    Reading and writing go on side by side; each may be cancelled. What is not read makes the
    process wait, and `write` waits while the process does not read.
    """

    def output(self) -> AsyncIterator[Output]:
        """What it writes, as it comes, to the end. Asked for once."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it input; what comes after it stopped reading is dropped."""
        ...

    async def end_input(self) -> None:
        """Let it read the end of its input. Idempotent. Raises `EngineError` where the way to the
        engine can't be closed in one direction (TLS)."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Change its terminal's size; nothing happens where it has none or has ended."""
        ...

    async def exit_code(self) -> int | None:
        """How a command ended, asked after the end of its output; it may still have to end. None
        for a container's own process, whose status tells."""
        ...


class Duplex(Protocol):
    """A connection of bytes to a port in a pod. Raises `EngineError` when it breaks."""

    async def read(self) -> bytes:
        """The next bytes, empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more."""
        ...

    async def end(self) -> None:
        """Nothing more will be written. Idempotent."""
        ...
