"""The kubelet's ports to the API: the records of this agent, or an API server.

The agent connects the implementations; nothing in the kubelet knows which ones it has. Methods
raise `PodtuiError` if the API cannot be reached, besides the errors that they name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment
from podtui.api.v1 import (
    ConfigMap,
    Event,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    RuntimeClass,
    Secret,
    Service,
)
from podtui.manifest.objects import DocumentKind, ObjectKey


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Pods of the node by UID; None for one that is gone.

    If ``complete`` is true, these are all pods of the node: others are gone, too.
    """

    pods: Mapping[str, Pod | None]
    complete: bool = False


class PodClient(Protocol):
    """The pods bound to this node, mirror pods included."""

    def changes(self) -> AsyncIterator[PodChanges]:
        """Yield all pods of the node, then their changes, forever."""
        ...

    async def list(self) -> tuple[Pod, ...]: ...

    async def get(self, namespace: str, name: str) -> Pod | None: ...

    async def create(self, pod: Pod) -> Pod:
        """Create a mirror pod. Without a UID, it gets one. Raises `AlreadyExists`."""
        ...

    async def update(self, pod: Pod, change: Callable[[Pod], Pod]) -> Pod:
        """Replace the pod of this name and UID by what ``change`` makes of it. Raises `NotFound`.

        For a pod that is not a mirror pod, only the status may change.
        """
        ...

    async def delete(self, pod: Pod) -> None:
        """Remove the pod of this name and UID at once, unless a finalizer holds it."""
        ...


class EventSink(Protocol):
    async def put(self, event: Event) -> None:
        """Create the event, or replace the one of the same name."""
        ...


class NodeClient(Protocol):
    """The object of this node, and its lease."""

    def snapshots(self) -> AsyncIterator[Node | None]:
        """Yield the node at first and after each change, forever; None if it does not exist."""
        ...

    async def get(self) -> Node | None: ...

    async def create(self, node: Node) -> Node: ...

    async def update(self, change: Callable[[Node], Node]) -> Node:
        """Replace the node by what ``change`` makes of it. Raises `NotFound`."""
        ...

    async def renew_lease(self, seconds: int) -> None:
        """Renew the node's lease, and create it if it does not exist."""
        ...


class DocumentSource(Protocol):
    """ConfigMaps and Secrets."""

    async def get(self, key: ObjectKey) -> ConfigMap | Secret | None: ...

    def changes(self, kind: DocumentKind) -> AsyncIterator[ObjectKey]:
        """Yield the key of each document that changes from now on, forever."""
        ...


class ClaimSource(Protocol):
    """Claims and persistent volumes."""

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...

    async def volume(self, name: str) -> PersistentVolume | None: ...

    async def set_status(
        self, claim: PersistentVolumeClaim, status: PersistentVolumeClaimStatus
    ) -> PersistentVolumeClaim:
        """Write the status of a claim that has not changed since it was read; return the claim as
        it is then."""
        ...

    def changes(self) -> AsyncIterator[tuple[str, str]]:
        """Yield namespace and name of each claim that changes from now on, forever."""
        ...


class StorageClient(Protocol):
    """The objects by which the kubelet and CSI drivers work together."""

    async def driver(self, name: str) -> CSIDriver | None: ...

    async def attachment(self, name: str) -> VolumeAttachment | None: ...

    async def node(self) -> CSINode | None:
        """Return the drivers of this node."""
        ...

    async def set_node(self, change: Callable[[CSINode | None], CSINode]) -> None:
        """Create the drivers of this node, or replace them by what ``change`` makes of them."""
        ...


class ServiceSource(Protocol):
    async def of(self, pod: Pod) -> tuple[Service, ...]:
        """Return the Services that variables of the pod's containers may name: the API's and those
        of its namespace."""
        ...


class RuntimeClasses(Protocol):
    async def get(self, name: str) -> RuntimeClass | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token for the service account of a pod; it is valid as long as the pod exists."""

    pod: Pod
    service_account: str
    audience: str
    """Empty for the API server."""
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    text: str
    expires: datetime


class ServiceAccountTokens(Protocol):
    async def token(self, request: TokenRequest) -> Token:
        """Request a new token. Raises `PodtuiError` with the API's message."""
        ...

    def changes(self) -> AsyncIterator[tuple[str, str]]:
        """Yield namespace and name of each account that changes from now on, forever."""
        ...


class PodNetwork(Protocol):
    """The networks of pods, in which Services have names and addresses. No method raises because
    Services are unavailable: the implementation reports that itself."""

    async def attach(self, pod: Pod, sandbox_id: str, ips: tuple[str, ...]) -> None:
        """Let a pod reach Services, before its first container starts. ``ips`` are those of the
        sandbox, none with the host's network. Idempotent: called in each pass of the pod."""
        ...

    def reaches_services(self, sandbox_id: str) -> bool:
        """Return whether an attached pod reaches Services at their cluster addresses."""
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Forget a sandbox before it is stopped. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that the kubelet needs from the API. Without ``tokens``, volumes with a token
    cannot be set up; without ``claims``, those of claims; without ``storage``, those of CSI
    drivers; without ``services``, containers have no variables of Services. Without ``network``,
    leading pods to Services is the task of others, such as kube-proxy."""

    pods: PodClient
    events: EventSink
    node: NodeClient
    documents: DocumentSource
    runtime_classes: RuntimeClasses
    tokens: ServiceAccountTokens | None = None
    claims: ClaimSource | None = None
    storage: StorageClient | None = None
    network: PodNetwork | None = None
    services: ServiceSource | None = None
