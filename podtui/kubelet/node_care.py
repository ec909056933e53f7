"""Maintenance of the node itself: image garbage collection, eviction, the kernel log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.images.image_gc import ImageCollector
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.node.eviction import EvictionManager
from podtui.kubelet.node.host import Host
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.node.oom import watch_oom
from podtui.kubelet.pleg.pleg import Engine


class NodeCare:
    """Builds and runs the maintenance loops. ``pods`` returns the running pods; ``collect`` removes
    every dead container that is no longer needed."""

    def __init__(
        self,
        *,
        host: Host,
        engine: Engine,
        node: NodeManager,
        events: EventRecorder,
        clock: Clock,
        config: KubeletConfig,
        pulled: PulledImages,
        pods: Callable[[], Iterable[Pod]],
        collect: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._cache = engine.cache
        self._collect = collect
        self._link = engine.link
        self._events = events
        self._images = ImageCollector(
            host=host,
            runtime=engine.runtime,
            link=engine.link,
            events=events,
            clock=clock,
            config=config,
            pulled=pulled,
            used=self._used_images,
            on_change=node.images_changed,
        )
        self._eviction = EvictionManager(
            host=host,
            runtime=engine.runtime,
            link=engine.link,
            node=node,
            events=events,
            clock=clock,
            config=config,
            pods=pods,
            reclaim=self._reclaim,
        )

    def tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the loops by name."""
        return {
            "eviction": self._eviction.run,
            "image collection": self._images.run,
            "kernel log": self._watch_kernel_log,
        }

    def _used_images(self) -> frozenset[str]:
        return frozenset(
            container.image_id for observed in self._cache for container in observed.containers
        )

    async def _reclaim(self) -> None:
        await self._collect()
        await self._images.delete_unused()

    async def _watch_kernel_log(self) -> None:
        await self._link.wait_ready()
        info = self._link.info
        if info is not None and info.local:
            await watch_oom(self._events, self._host.kernel_log)
