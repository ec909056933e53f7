"""Where life-cycle hooks plug in (reference §9)."""

from __future__ import annotations

from typing import Protocol

from podtui.api.v1 import Container, Pod


class Hooks(Protocol):
    """Runs postStart and preStop handlers. Both emit their own failure events."""

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        """Returns once the handler has run; what went wrong, empty when nothing did."""
        ...

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        """Returns once the handler has run, or ``grace`` seconds are over."""
        ...


class NoHooks:
    """Runs none; `podtui.kubelet.containers.unsupported` says so."""

    async def post_start(self, pod: Pod, container: Container, container_id: str) -> str:
        return ""

    async def pre_stop(
        self, pod: Pod, container: Container, container_id: str, grace: float
    ) -> None:
        return None
