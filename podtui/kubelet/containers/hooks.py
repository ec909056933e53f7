"""The interface of container life-cycle hooks (reference §9)."""

from __future__ import annotations

from typing import Protocol

from podtui.api.v1 import Container, Pod


class Hooks(Protocol):
    """Runs postStart and preStop handlers. Both emit their own failure events."""

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        """Run the handler to its end; return an error message, empty on success."""
        ...

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        """Run the handler for at most ``grace`` seconds."""
        ...


class NoHooks:
    """Runs no hooks; `podtui.kubelet.pods.sync` reports this."""

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        return ""

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        return None
