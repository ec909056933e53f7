"""What the screens ask of the API, so that they can be tested against a scripted client."""

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
    """The whole list, at the start and again after every reconnect: replaces what was known."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Changed(Struct, frozen=True):
    """Objects added or modified, oldest change first, coalesced per read."""

    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Removed(Struct, frozen=True):
    items: tuple[Pod | Node | Event | Manifest | Timeline, ...]


class Lost(Struct, frozen=True):
    """The agent does not answer; what was known is stale until the next `Synced`. ``refused``: it
    answers, but does not give this kind to this user; the others are not touched by it."""

    reason: str
    refused: bool = False


Delta = Synced | Changed | Removed | Lost


class LogQuery(Struct, frozen=True, kw_only=True):
    """``since_seconds`` goes by the server's clock, ``since_time`` (RFC 3339) by the log's own; at
    most one of them."""

    container: str
    follow: bool = True
    previous: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    timestamps: bool = True
    gaps: bool = False
    """Have our agent say where lines are missing, in lines that begin with `LOG_GAP`; other servers
    do not know this. Only with ``timestamps``."""


class Client(Talking, Protocol):
    """One agent (or API server). Raises `podtui.errors.AgentUnavailable` and `ApiError`."""

    @property
    def target(self) -> str:
        """Where it speaks to, for the status line."""
        ...

    @property
    def namespace(self) -> str | None:
        """The one that is looked into, empty for all; None while that is not known."""
        ...

    def follow(self, kind: type[T], namespace: str = "") -> AsyncIterator[Delta]:
        """List, then watch; on loss one `Lost`, then reconnect with back-off, for ever."""
        ...

    async def get(self, kind: type[T], namespace: str, name: str) -> T: ...

    def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        """Batches of lines without line feeds, each line as the API writes it (with
        ``timestamps``: RFC 3339 nanoseconds, a space, the text). Ends when the log does."""
        ...

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        """Usage now; empty while the agent has none."""
        ...

    async def node_metrics(self) -> NodeMetrics | None: ...

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        """Usage of each node; empty where nobody measures it."""
        ...

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        """How it started, how its probes stand, what it used. None: nothing new in all the time
        that was waited. Raises `ApiError` 404 where there is no such pod."""
        ...

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        """What the node used; None as for pods. Raises `ApiError` 404 where nobody tells."""
        ...

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        """Run a probe now, without its counting for anything. Raises `ApiError` 404 where there is
        none, or its container does not run."""
        ...

    async def version(self) -> str:
        """The other side's version, as Kubernetes spells one: ``v1.36.0+podtui-0.1.0``."""
        ...

    async def retry(self, namespace: str, pod: str) -> None:
        """Have a rejected pod admitted afresh. Raises `ApiError` 404 where there is none."""
        ...

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        """Run a pod anew, or the one container that is named. Raises `ApiError` 404 where there is
        none, 409 where it would not come back."""
        ...

    async def debug(self, namespace: str, pod: str, container: EphemeralContainer) -> Pod:
        """Put an ephemeral container beside those of a pod. Raises `ApiError` 404 without the pod,
        422 where it may not be."""
        ...

    async def plan(self, name: str, text: bytes | None) -> Plan:
        """What would happen if the file of the folder called ``name`` held ``text``, or were not
        there. Raises `ApiError` 400 for a name that would not be read."""
        ...

    async def delete_pod(self, pod: Pod) -> None:
        """Have an API server end a pod, this one and not one that followed it. Raises `ApiError`
        404 without it, 409 for a successor, 403 and 405 where it may not be."""
        ...

    async def what_if(self, manifest: bytes) -> WhatIf:
        """Whether the node would take the pod of a manifest, YAML or JSON. Raises `ApiError` 422
        where it makes none."""
        ...

    async def images(self) -> tuple[NodeImage, ...]:
        """All images that the engine has, the largest first. Raises `ApiError` 503 without one."""
        ...

    async def remove_image(self, image_id: str) -> None:
        """Remove an image with all its names. Raises `ApiError`: 404 for an id that is none's, 409
        with who uses it."""
        ...

    async def prune_images(self) -> PrunedImages:
        """Remove all images that the agent pulled and nobody uses. Raises `ApiError`."""
        ...

    def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        """Pull an image, whether it is there or not; the last step has it. Closing the iterator
        gives the pull up. Raises `ApiError` with the engine's text."""
        ...

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """What the agent asked of the engine, for all pods or for one, the oldest first."""
        ...

    async def close(self) -> None: ...
