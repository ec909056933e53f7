"""What the server asks of the kubelet beside the records: streams and live figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.errors import LogError as LogError
from podtui.runtime.protocol import LogLine, LogOptions
from podtui.runtime.sessions import Duplex, Session


class PodSessions(Protocol):
    """Talking with pods. Everything raises `podtui.errors.SessionError`, whose ``code`` is the
    HTTP status, and `podtui.errors.EngineError`."""

    def find(self, namespace: str, pod: str) -> Pod:
        """404 where there is no such pod."""
        ...

    async def container(self, pod: Pod, name: str) -> str:
        """The name of the container that is meant, which runs: empty means the only one."""
        ...

    def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[Session]:
        """What still runs when the block ends is killed."""
        ...

    def attach(
        self, pod: Pod, container: str, *, stdin: bool
    ) -> AbstractAsyncContextManager[Session]: ...

    def dial(self, pod: Pod, port: int) -> AbstractAsyncContextManager[Duplex]: ...

    def read_files(
        self, pod: Pod, container: str, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A tar archive, of a container that need not run; 404 where there is no such path."""
        ...

    async def write_files(
        self, pod: Pod, container: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        """Unpack a tar archive; 404 where there is no such directory."""
        ...


class KubeletEndpoints(Protocol):
    """The kubelet as its own HTTP endpoints see it."""

    @property
    def sessions(self) -> PodSessions: ...

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLine]:
        """Raises `LogError` with the kubelet's texts; an empty container name means the only one
        (more than one: the API server's 400, ``a container name must be specified …``)."""
        ...

    async def pod_metrics(self) -> tuple[PodMetrics, ...]: ...

    async def node_metrics(self) -> NodeMetrics | None: ...

    async def retry(self, namespace: str, pod: str) -> None:
        """Admit a rejected pod afresh (departure 6). Raises `LookupError` where there is no such
        pod, with a text for the user."""
        ...

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        """Run a pod anew, or the one container that is named. Raises `LookupError` where there is
        no such pod or container and `podtui.errors.RestartRefused`, with texts for the user."""
        ...

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Give a pod these ephemeral containers and no other; the pod as it is then. Raises
        `LookupError` where there is no such pod, with a text for the user, and
        `podtui.errors.InvalidUpdate` where they may not be."""
        ...

    def healthy(self) -> tuple[bool, str]:
        """``syncloop`` health and the reason where it fails."""
        ...
