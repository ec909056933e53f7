"""The kubelet's interface for the server, besides the records: streams and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.errors import LogError as LogError
from podtui.runtime.protocol import Duplex, LogLines, LogOptions, ProcessSession


class SessionEndpoints(Protocol):
    """Sessions with pods. All methods raise `podtui.errors.SessionError`, whose ``code`` is the
    HTTP status, and `podtui.errors.EngineError`."""

    def find(self, namespace: str, pod: str) -> Pod:
        """404 if there is no such pod; 503 before the kubelet has read its pods."""
        ...

    async def container(self, pod: Pod, name: str) -> str:
        """Return the name of the requested container, which is running. Empty selects the only
        one."""
        ...

    def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[ProcessSession]:
        """If the command still runs when the block ends, kill it."""
        ...

    def attach(
        self, pod: Pod, container: str, *, stdin: bool
    ) -> AbstractAsyncContextManager[ProcessSession]: ...

    def dial(self, pod: Pod, port: int) -> AbstractAsyncContextManager[Duplex]: ...

    def read_files(
        self, pod: Pod, container: str, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read a tar archive; the container need not run. 404 if the path does not exist."""
        ...

    async def write_files(
        self, pod: Pod, container: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        """Unpack a tar archive. 404 if the directory does not exist."""
        ...


class KubeletEndpoints(Protocol):
    """The kubelet's interface for its own HTTP endpoints."""

    @property
    def node_name(self) -> str: ...

    @property
    def sessions(self) -> SessionEndpoints: ...

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLines]:
        """Raises `LogError` with the kubelet's texts. An empty container name selects the only
        container; with several, the error is the API server's 400, ``a container name must be
        specified …``."""
        ...

    async def pod_metrics(self) -> tuple[PodMetrics, ...]: ...

    async def node_metrics(self) -> NodeMetrics | None: ...

    async def retry(self, namespace: str, pod: str) -> None:
        """Admit a rejected pod again (departure 6). Raises `LookupError` if there is no such pod,
        with a text for the user."""
        ...

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        """Restart a pod, or only the named container. Raises `LookupError` if there is no such pod
        or container, and `podtui.errors.RestartRefused`, both with texts for the user."""
        ...

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Replace the ephemeral containers of a pod, and return the updated pod. Raises
        `LookupError` if there is no such pod, with a text for the user, and
        `podtui.errors.InvalidUpdate` if the change is not allowed."""
        ...

    def health_checks(self) -> Mapping[str, str]:
        """Return the problem of each health check, empty if it passes."""
        ...
