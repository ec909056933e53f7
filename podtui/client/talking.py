"""The interface for sessions with pods, used by screens and commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

Output = tuple[Literal["stdout", "stderr"], bytes]


class ExecQuery(Struct, frozen=True, kw_only=True):
    """An empty ``container`` selects the only one. With ``tty``, stdout has all output."""

    container: str = ""
    command: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


class AttachQuery(Struct, frozen=True, kw_only=True):
    """``tty`` must match the container's own setting."""

    container: str = ""
    stdin: bool = False
    tty: bool = False


class RemoteSession(Protocol):
    """A process in a container. Raises `podtui.errors.AgentUnavailable` if the agent is lost.

    The process blocks while its output is not read, and writes block while it does not read.
    """

    def output(self) -> AsyncIterator[Output]:
        """Yield the output as it arrives, until the end. Call this only once."""
        ...

    async def write(self, data: bytes) -> None:
        """Send input. Input after the end is dropped."""
        ...

    @property
    def can_end_input(self) -> bool:
        """False for servers before Kubernetes 1.30, whose protocol cannot close the input."""
        ...

    async def end_input(self) -> None:
        """Close the input of the process, if possible. Idempotent."""
        ...

    async def resize(self, columns: int, rows: int) -> None: ...

    def exit_code(self) -> int:
        """Return the exit code, which is available after the output has ended; 0 for an attached
        process. Raises `podtui.errors.ApiError` for a failure not caused by the process."""
        ...


class PortForward(Protocol):
    """A port of this machine's loopback address that leads to a port of a pod.

    Each connection uses the pod's state at that time, so a forward survives restarts.
    """

    @property
    def local_port(self) -> int: ...

    @property
    def remote_port(self) -> int: ...

    @property
    def connections(self) -> int:
        """The number of open connections."""
        ...

    @property
    def accepted(self) -> int:
        """The total number of connections."""
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
        """The error of the newest connection; empty if it succeeded."""
        ...

    async def run(self) -> None:
        """Serve until cancelled. The port listens from creation on."""
        ...

    def close(self) -> None:
        """Stop listening. Idempotent; also done at the end of `run`."""
        ...


class Copied(Struct, frozen=True, kw_only=True):
    """``skipped`` counts links, devices and the like, which are not copied to this machine."""

    files: int
    bytes: int
    skipped: int = 0


class Talking(Protocol):
    """Raises `podtui.errors.AgentUnavailable`, and `podtui.errors.ApiError` for refusals."""

    def exec(
        self, namespace: str, pod: str, query: ExecQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        """Run a command. If it still runs when the block ends, it is killed."""
        ...

    def attach(
        self, namespace: str, pod: str, query: AttachQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        """Attach to a container's main process, which keeps running when the block ends."""
        ...

    async def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0
    ) -> PortForward:
        """Listen on loopback, with any free port for 0; serving starts with ``run``. Raises
        `podtui.errors.PodtuiError` if the port is not available."""
        ...

    async def copy_from(
        self, namespace: str, pod: str, container: str, path: str, destination: Path
    ) -> Copied:
        """Copy a file or directory at an absolute path out of a container: into ``destination`` if
        that is a directory, else to that name. Raises `podtui.errors.PodtuiError`."""
        ...

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> Copied:
        """Copy a file or directory into a container: into ``path`` if that is a directory there,
        else to that name. Raises the same errors as `copy_from`."""
        ...
