"""The data path of Services: keeps the rules of all attached pods up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podtui.client.cache import Cache
from podtui.clock import Clock
from podtui.services.index import ServiceIndex
from podtui.services.protocol import AttachedPod, EventSink, PodListener, PodNetworks


class Proxy:
    def __init__(
        self,
        cache: Cache,
        index: ServiceIndex,
        networks: PodNetworks,
        listeners: Sequence[PodListener],
        events: EventSink,
        clock: Clock,
        *,
        host_table: str,
    ) -> None:
        self._cache = cache
        self._index = index
        self._networks = networks
        self._listeners = listeners
        self._events = events
        self._clock = clock
        self._host_table = host_table
        self._pods: dict[str, AttachedPod] = {}

    async def attach(self, pod: AttachedPod) -> None:
        self._pods[pod.sandbox_id] = pod

    async def detach(self, sandbox_id: str) -> None:
        if self._pods.pop(sandbox_id, None) is not None:
            for listener in self._listeners:
                await listener.detach(sandbox_id)

    async def run(self) -> None:
        """Apply changes of Services and of their endpoints. Runs forever."""
        await self._index.listed()
        await asyncio.Event().wait()
