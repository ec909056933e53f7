"""The scheduler's port to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from podtui.api.v1 import Binding, Event
from podtui.client.protocol import Delta, T


class SchedulerApi(Protocol):
    """Raises `podtui.errors.AgentUnavailable` while there is no answer, and
    `podtui.errors.ApiError` for refusals."""

    def follow(self, kind: type[T]) -> AsyncIterator[Delta]:
        """List, then watch, endlessly; a lost connection is reported once and retried."""
        ...

    async def bind(self, binding: Binding) -> None: ...

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, Any]
    ) -> None:
        """Merge into the status of exactly this pod; conditions are merged by their types."""
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete exactly this pod, with its own grace period."""
        ...

    async def create_event(self, event: Event) -> None: ...

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None: ...
