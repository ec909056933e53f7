"""The scheduler's port over a client of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from podtui.api.v1 import Binding, Event, Pod
from podtui.client.api_client import ApiClient
from podtui.client.protocol import Delta, T


class ClientOfScheduler:
    """A `podtui.scheduler.port.SchedulerApi`: for an agent, or for any API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def follow(self, kind: type[T]) -> AsyncIterator[Delta]:
        return self._client.follow(kind)

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

    async def create_event(self, event: Event) -> None:
        await self._client.create(Event, event)

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        await self._client.patch(Event, namespace, name, patch)
