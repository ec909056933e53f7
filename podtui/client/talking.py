"""Talking with pods, as the screens and commands ask for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

Output = tuple[Literal["stdout", "stderr"], bytes]


class ExecQuery(Struct, frozen=True, kw_only=True):
    """``container`` empty means the only one. With ``tty`` there is one stream of output."""

    container: str = ""
    command: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


class AttachQuery(Struct, frozen=True, kw_only=True):
    """``tty`` tells whether the container has a terminal; it is the container's to have."""

    container: str = ""
    stdin: bool = False
    tty: bool = False


class RemoteSession(Protocol):
    """A process in a container. Raises `podtui.errors.AgentUnavailable` when the agent goes.

    What is not read makes the process wait, and writing waits while it does not read.
    """

    def output(self) -> AsyncIterator[Output]:
        """What it writes, as it comes, to the end. Asked for once."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it input; what comes after its end is dropped."""
        ...

    @property
    def can_end_input(self) -> bool:
        """False at servers before Kubernetes 1.30, which have no word for it."""
        ...

    async def end_input(self) -> None:
        """Let it read the end of its input, where that can be. Idempotent."""
        ...

    async def resize(self, columns: int, rows: int) -> None: ...

    def exit_code(self) -> int:
        """How it ended, known after the end of its output; 0 for what was attached to. Raises
        `podtui.errors.ApiError` where something broke that is no fault of the process."""
        ...


class PortForward(Protocol):
    """A port of this machine's loopback address that leads to a port of a pod.

    Each connection is made to the pod as it is by then, so a forward outlives restarts.
    """

    @property
    def local_port(self) -> int: ...

    @property
    def remote_port(self) -> int: ...

    @property
    def connections(self) -> int:
        """How many are open."""
        ...

    @property
    def accepted(self) -> int:
        """How many there ever were."""
        ...

    @property
    def sent(self) -> int:
        """Bytes to the pod."""
        ...

    @property
    def received(self) -> int:
        """Bytes from the pod."""
        ...

    @property
    def problem(self) -> str:
        """Why the newest connection failed; empty where it did not."""
        ...

    async def run(self) -> None:
        """Serve until cancelled. It listens from the moment it is made."""
        ...

    def close(self) -> None:
        """Stop listening. Idempotent; the end of `run` does it, too."""
        ...


class Copied(Struct, frozen=True, kw_only=True):
    """``skipped`` are links, devices and the like, which are not copied to this machine."""

    files: int
    bytes: int
    skipped: int = 0


class Talking(Protocol):
    """Raises `podtui.errors.AgentUnavailable`, and `podtui.errors.ApiError` for refusals."""

    def exec(
        self, namespace: str, pod: str, query: ExecQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        """Run a command; what still runs when the block ends is killed."""
        ...

    def attach(
        self, namespace: str, pod: str, query: AttachQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        """Talk with a container's own process, which goes on when the block ends."""
        ...

    async def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0
    ) -> PortForward:
        """Listen on loopback, on any port for 0; nothing is served before ``run``. Raises
        `podtui.errors.PodtuiError` where the port can't be had."""
        ...

    async def copy_from(
        self, namespace: str, pod: str, container: str, path: str, destination: Path
    ) -> Copied:
        """Copy a file or directory at an absolute path out of a container, into ``destination``
        where that is a directory, else under that name. Raises `podtui.errors.PodtuiError`."""
        ...

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> Copied:
        """Copy a file or directory into a container, into ``path`` where that is a directory
        there, else under that name. Raises as `copy_from`."""
        ...
