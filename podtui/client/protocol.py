"""The client interface used by the screens, so that tests can use a scripted client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from podtui.api.insight import AT_ONCE, InsightQuery, NodeInsight, PodInsight, ProbeRun, Timeline
from podtui.api.local import Manifest, NodeMetrics, PodMetrics
from podtui.api.v1 import EphemeralContainer, Event, Node, Pod
from podtui.client.talking import Talking

if TYPE_CHECKING:
    from podtui.api.engine_calls import EngineCall
    from podtui.api.images import NodeImage, PrunedImages, PullStep
    from podtui.api.plan import Plan
    from podtui.api.what_if import WhatIf

T = TypeVar("T", Pod, Node, Event, Manifest, Timeline)


class Synced(Struct, frozen=True):
    """The complete list, at the start and after every reconnect. Replaces all known objects."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Changed(Struct, frozen=True):
    """Objects added or modified, oldest change first, coalesced per read."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Removed(Struct, frozen=True):
    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Lost(Struct, frozen=True):
    """The agent does not answer; known objects are stale until the next `Synced`. With ``refused``,
    it answers but does not serve this kind to this user; other kinds are not affected."""

    reason: str
    refused: bool = False


Delta = Synced | Changed | Removed | Lost


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


class Client(Talking, Protocol):
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

    async def delete_pod(self, pod: Pod) -> None:
        """Delete exactly this pod through an API server, not a successor with the same name. Raises
        `ApiError` 404 if it does not exist, 409 for a successor, 403 and 405 if not allowed."""
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

    async def prune_images(self) -> PrunedImages:
        """Remove all unused images that the agent pulled. Raises `ApiError`."""
        ...

    def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        """Pull an image, even if it exists; the last step contains it. Closing the iterator cancels
        the pull. Raises `ApiError` with the engine's text."""
        ...

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """Return the agent's engine calls, for all pods or for one, oldest first."""
        ...

    async def close(self) -> None: ...
