"""The writes of the controllers. Their answers go to the cache at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from podtui.api.local import PodMetrics
from podtui.client.api_client import ApiClient, Propagation
from podtui.client.cache import Cache, T
from podtui.client.decoding import kind_of
from podtui.errors import ApiError


class Writer(Protocol):
    """Raises `podtui.errors.AgentUnavailable` and `podtui.errors.ApiError`."""

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        """Read an object from the API, which may be newer than the cached one."""
        ...

    async def create(self, kind: type[T], item: T) -> T: ...

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T:
        """Replace the object if it still has this version, else raise `ApiError` 409."""
        ...

    async def patch(
        self, kind: type[T], item: T, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        """Apply a strategic merge patch to exactly this object."""
        ...

    async def delete(self, kind: type[T], item: T, *, policy: Propagation = "") -> None:
        """Delete exactly this object; without effect if it is gone."""
        ...


class ControllerClient:
    """A `Writer` for an agent, or for any API server."""

    def __init__(self, client: ApiClient, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        return await self._client.get(kind, namespace, name)

    async def create(self, kind: type[T], item: T) -> T:
        stored = await self._client.create(kind, item)
        self._cache.put(stored)
        return stored

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T:
        stored = await self._client.update(kind, item, subresource=subresource)
        self._cache.put(stored)
        return stored

    async def patch(
        self, kind: type[T], item: T, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        meta = item.metadata
        checked = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta.uid}}
        stored = await self._client.patch(
            kind, meta.namespace, meta.name, checked, subresource=subresource
        )
        self._cache.put(stored)
        return stored

    async def scale(self, kind: type[T], item: T, replicas: int) -> None:
        meta = item.metadata
        await self._client.scale(kind, meta.namespace, meta.name, replicas)

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._client.pod_metrics()

    async def delete(self, kind: type[T], item: T, *, policy: Propagation = "") -> None:
        meta = item.metadata
        try:
            body = await self._client.delete(
                kind, meta.namespace, meta.name, uid=meta.uid, policy=policy
            )
        except ApiError as error:
            if error.code != 404:
                raise
            self._cache.remove(item)
            return
        if msgspec.json.decode(body, type=_Typed).kind == "Status":
            self._cache.remove(item)
            return
        answer = kind_of(kind).decode(body)
        meta = answer.metadata
        if meta.finalizers or meta.deletionGracePeriodSeconds:
            self._cache.put(answer)
        else:
            # Nothing delays the deletion: the answer is the object as it was last.
            self._cache.remove(answer)


class _Typed(msgspec.Struct, frozen=True):
    kind: str = ""
