"""The interface of a client: watches, logs, sessions with pods, and the server's capabilities.

Screens and commands import this; tests implement it with a scripted client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct

from podtui.api.insight import (
    AT_ONCE,
    ConnectionCheck,
    InsightQuery,
    NodeInsight,
    PodInsight,
    ProbeRun,
)
from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.objects import Object, T
from podtui.api.v1 import (
    EphemeralContainer,
    Pod,
)
from podtui.client.any_kind import AnyObject, ServedKind, TableRow

if TYPE_CHECKING:
    from podtui.api.local import EngineCall, NodeImage, Plan, PrunedImages, PullStep, WhatIf

Output = tuple[Literal["stdout", "stderr"], bytes]
MERGE: Final = "application/merge-patch+json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
NO_END_OF_INPUT: Final = (
    "this server cannot close the standard input of a command; Kubernetes 1.30 and newer can"
)


Item = Object | AnyObject | TableRow


class Synced(Struct, frozen=True):
    """The complete list, at the start and after every reconnect. Replaces all known objects."""

    items: tuple[Item, ...]


class Changed(Struct, frozen=True):
    """Objects added or modified, oldest change first, coalesced per read."""

    items: tuple[Item, ...]


class Removed(Struct, frozen=True):
    items: tuple[Item, ...]


class Lost(Struct, frozen=True):
    """The agent does not answer; known objects are stale until the next `Synced`. With ``refused``,
    it answers but does not serve this kind to this user; other kinds are not affected."""

    reason: str
    refused: bool = False


Delta = Synced | Changed | Removed | Lost


class Follower(Protocol):
    """Follows the objects of a kind: an API client, or the records of an agent."""

    def follow(self, kind: type[T]) -> AsyncIterator[Delta]:
        """List, then watch, endlessly; a lost connection is reported once and retried."""
        ...


class LogQuery(Struct, frozen=True, kw_only=True):
    """``since_seconds`` uses the server's clock, ``since_time`` (RFC 3339) the log's time stamps.
    Set at most one of them."""

    container: str
    follow: bool = True
    previous: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    timestamps: bool = True
    gaps: bool = False
    """Let a podtui agent report missing lines, as lines that begin with `LOG_GAP`; other servers
    ignore this. Requires ``timestamps``."""


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


class CopyResult(Struct, frozen=True, kw_only=True):
    """``skipped`` counts links, devices and the like, which are not copied to this machine."""

    files: int
    bytes: int
    skipped: int = 0


class SessionClient(Protocol):
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
    ) -> CopyResult:
        """Copy a file or directory at an absolute path out of a container: into ``destination`` if
        that is a directory, else to that name. Raises `podtui.errors.PodtuiError`."""
        ...

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> CopyResult:
        """Copy a file or directory into a container: into ``path`` if that is a directory there,
        else to that name. Raises the same errors as `copy_from`."""
        ...


class Client(SessionClient, Protocol):
    """One agent (or API server). Raises `podtui.errors.AgentUnavailable` and `ApiError`."""

    @property
    def target(self) -> str:
        """The server's address, for the status line."""
        ...

    @property
    def namespace(self) -> str | None:
        """The current namespace, empty for all; None while it is not yet known."""
        ...

    def follow(self, kind: type[T], namespace: str = "") -> AsyncIterator[Delta]:
        """List, then watch. On loss, yield one `Lost`, then reconnect with back-off, endlessly."""
        ...

    async def get(self, kind: type[T], namespace: str, name: str) -> T: ...

    def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        """Yield batches of lines without line feeds, each line as the API writes it (with
        ``timestamps``: RFC 3339 nanoseconds, a space, the text). Ends at the end of the log."""
        ...

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        """Return the current usage; empty while the agent has none."""
        ...

    async def node_metrics(self) -> NodeMetrics | None: ...

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        """Return the usage of each node; empty if it is not measured."""
        ...

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        """Return the start, the probe states and the usage of a pod. None: nothing new arrived
        within the wait time. Raises `ApiError` 404 if there is no such pod."""
        ...

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        """Return the usage of the node; None as for pods. Raises `ApiError` 404 if unsupported."""
        ...

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        """Run a probe now; the result has no effect. Raises `ApiError` 404 if there is no such
        probe, or its container is not running."""
        ...

    async def check_connection(
        self, namespace: str, pod: str, host: str, port: int = 0
    ) -> ConnectionCheck:
        """Look up a host from inside a pod, and connect to the port unless it is 0. Raises
        `ApiError` 404 if there is no such pod, 409 if it has no network, and 500 if the agent may
        not enter it."""
        ...

    async def version(self) -> str:
        """The server's version in the Kubernetes format: ``v1.36.0+podtui-0.1.0``."""
        ...

    async def retry(self, namespace: str, pod: str) -> None:
        """Admit a rejected pod again. Raises `ApiError` 404 if there is no such pod."""
        ...

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        """Restart a pod, or only the named container. Raises `ApiError` 404 if it does not exist,
        409 if it would not start again."""
        ...

    async def debug(self, namespace: str, pod: str, container: EphemeralContainer) -> Pod:
        """Add an ephemeral container to a pod. Raises `ApiError` 404 if the pod does not exist, 422
        if the container is not allowed."""
        ...

    async def plan(self, name: str, text: bytes | None) -> Plan:
        """Return the effect of writing ``text`` to the manifest file ``name``, or of removing the
        file (None). Raises `ApiError` 400 for a name that the manifest folder would ignore."""
        ...

    async def create_pod(self, namespace: str, text: bytes, *, dry_run: bool = False) -> None:
        """Create the pod of a YAML text through the API; ``namespace`` is used if it names none.
        With ``dry_run`` only check it. Raises `ApiError`: 409 if it exists, 422 if it is
        invalid."""
        ...

    async def replace_pod(
        self,
        namespace: str,
        name: str,
        text: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> None:
        """Replace a pod, or its ``subresource``, by a YAML text through the API; with ``dry_run``
        only check it. Raises `ApiError`: 409 if it was changed since, 422 if the change is not
        allowed."""
        ...

    async def delete_pod(self, pod: Pod) -> None:
        """Delete exactly this pod through an API server, not a successor with the same name. Raises
        `ApiError` 404 if it does not exist, 409 for a successor, 403 and 405 if not allowed."""
        ...

    async def kinds(self) -> tuple[ServedKind, ...]:
        """Return the kinds of objects that the server can list, also those of custom resources."""
        ...

    def follow_table(self, kind: ServedKind, namespace: str = "") -> AsyncGenerator[Delta]:
        """Follow the objects of a kind as rows of a Table (`TableRow`), as `follow` does."""
        ...

    def follow_objects(
        self, kind: ServedKind, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[Delta]:
        """Follow the objects of a kind, or the one named ``name``, as `AnyObject`."""
        ...

    async def count(self, kind: ServedKind, namespace: str = "") -> int:
        """Return the number of objects of a kind."""
        ...

    async def get_object(self, kind: ServedKind, namespace: str, name: str) -> AnyObject: ...

    async def create_object(
        self, kind: ServedKind, namespace: str, content: Mapping[str, Any], *, dry_run: bool = False
    ) -> AnyObject:
        """Create an object; return it as it was stored. With ``dry_run`` only check it."""
        ...

    async def patch_object(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = MERGE,
        dry_run: bool = False,
    ) -> AnyObject:
        """Patch an object, by default with a JSON merge patch; return what the server answers. With
        ``dry_run``, nothing is changed."""
        ...

    async def delete_object(
        self, kind: ServedKind, namespace: str, name: str, *, uid: str, dry_run: bool = False
    ) -> None:
        """Delete exactly the object with this ``uid``; its dependents follow."""
        ...

    async def what_if(self, manifest: bytes) -> WhatIf:
        """Return whether the node would admit the pod of a YAML or JSON manifest. Raises `ApiError`
        422 if the manifest defines no pod."""
        ...

    async def images(self) -> tuple[NodeImage, ...]:
        """Return the engine's images, largest first. Raises `ApiError` 503 without an engine."""
        ...

    async def remove_image(self, image_id: str) -> None:
        """Remove an image with all its names. Raises `ApiError`: 404 for an unknown id, 409 with
        the users of the image."""
        ...

    async def prune_images(self, ids: Sequence[str]) -> PrunedImages:
        """Remove those of these images that the agent pulled and nothing uses. Raises
        `ApiError`."""
        ...

    def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        """Pull an image, even if it exists; the last step contains it. Closing the iterator cancels
        the pull. Raises `ApiError` with the engine's text."""
        ...

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """Return the agent's engine calls, for all pods or for one, oldest first."""
        ...

    async def close(self) -> None: ...


class ServerCapabilities(Struct, frozen=True, kw_only=True):
    """Flags of available features. Features of the standard Kubernetes API are not listed."""

    manifests: bool = True
    """Pods come from manifest files: plans, templates, trash and quick fixes."""
    engine: bool = True
    """The container engine is exposed: its calls and its images."""
    what_if: bool = True
    """Admission checks for a manifest, and rejected pods."""
    timelines: bool = True
    """The start of each pod, step by step."""
    insights: bool = True
    """Probe states and usage history."""
    restarts: bool = True
    """Pods and containers can be restarted in place."""
    deletes: bool = False
    """A pod can be deleted through the API."""
    managed_fields: bool = True
    several_nodes: bool = False
    contexts: bool = False
    """The user can switch to other servers."""
    usage_seconds: float = 3.0
    """The poll interval for usage."""


AGENT: Final = ServerCapabilities()
CLUSTER: Final = ServerCapabilities(
    manifests=False,
    engine=False,
    what_if=False,
    timelines=False,
    insights=False,
    restarts=False,
    deletes=True,
    managed_fields=False,
    several_nodes=True,
    contexts=True,
    usage_seconds=15.0,
)


class Server(Struct, frozen=True, kw_only=True):
    """The server: the agent of this machine, or a cluster with its names in the kubeconfig.
    ``contexts`` are the contexts that the user can switch to."""

    capabilities: ServerCapabilities = AGENT
    host: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    contexts: tuple[str, ...] = ()

    @property
    def is_cluster(self) -> bool:
        return bool(self.context)


LOCAL: Final = Server()
