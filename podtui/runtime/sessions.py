"""Open connections between a caller and a container: command sessions and byte streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

Output = tuple[Literal["stdout", "stderr"], bytes]
"""A piece of a process's output. With a terminal, everything is ``stdout``."""


class Session(Protocol):
    """An interactive process: a command run in a container, or the container's main process.

    Reads and writes may run concurrently, and each may be cancelled. A process blocks while its
    output is not read; `write` blocks while the process does not read.
    """

    def output(self) -> AsyncIterator[Output]:
        """Yield the output as it arrives, until the end. Call this only once."""
        ...

    async def write(self, data: bytes) -> None:
        """Send input. Input that arrives after the process stopped reading is dropped."""
        ...

    async def end_input(self) -> None:
        """Close the input of the process. Idempotent. Raises `EngineError` if the connection to the
        engine can't be closed in one direction (TLS)."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal. Does nothing without a terminal or after the end."""
        ...

    async def exit_code(self) -> int | None:
        """Return the exit code of a command; call this after its output has ended, and it waits
        until the command exits. None for a container's main process, whose status has the exit
        code."""
        ...


class Duplex(Protocol):
    """A byte connection to a port of a pod. Raises `EngineError` when it breaks."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write, and return when there is room for more."""
        ...

    async def end(self) -> None:
        """Close the write direction. Idempotent."""
        ...
