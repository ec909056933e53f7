"""The API as the scheduler uses it, and its implementation over a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from podtui.api.claims import SELECTED_NODE
from podtui.api.objects import T
from podtui.api.v1 import Binding, Event, PersistentVolume, PersistentVolumeClaim, Pod
from podtui.client.api_client import ApiClient
from podtui.client.protocol import Delta, Follower


class SchedulerApi(Follower, Protocol):
    """Raises `podtui.errors.AgentUnavailable` while there is no answer, and
    `podtui.errors.ApiError` for refusals."""

    async def bind(self, binding: Binding) -> None: ...

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        """Merge into the status of exactly this pod; conditions are merged by their types."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete exactly this pod, with its own grace period."""
        ...

    async def update_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Replace the volume if it still has this version, else raise `ApiError` 409."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
        """Write the node for which the volume of exactly this claim is provisioned."""
        ...

    async def create_event(self, event: Event) -> None: ...

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None: ...


class SchedulerClient:
    """A `SchedulerApi`: for an agent, or for any API server. It follows ``objects``, and writes
    with ``client``."""

    def __init__(self, client: ApiClient, objects: Follower) -> None:
        self._client = client
        self._objects = objects

    def follow(self, kind: type[T]) -> AsyncIterator[Delta]:
        return self._objects.follow(kind)

    async def bind(self, binding: Binding) -> None:
        meta = binding.metadata
        await self._client.create_sub(Pod, meta.namespace, meta.name, "binding", binding)

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        patch = {"metadata": {"uid": uid}, "status": status}
        await self._client.patch(Pod, namespace, name, patch, subresource="status")

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        await self._client.delete(Pod, namespace, name, uid=uid)

    async def update_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return await self._client.update(PersistentVolume, volume)

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
        meta = claim.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {SELECTED_NODE: node}}}
        return await self._client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch)

    async def create_event(self, event: Event) -> None:
        await self._client.create(Event, event)

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        await self._client.patch(Event, namespace, name, patch)
