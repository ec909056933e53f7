"""Maintenance of the node itself: image garbage collection, eviction, the kernel log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final

from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.killer import EXCEEDED_GRACE, ends_in_time
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.eviction import EvictionManager, EvictionMessage, StorageLimits
from podtui.kubelet.images.image_gc import ImageCollector
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.kubelet_metrics import EVICTIONS
from podtui.kubelet.node.host import Host
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.node.oom import watch_oom
from podtui.kubelet.pleg.pleg import Engine
from podtui.kubelet.stats.samples import sample_containers
from podtui.kubelet.status.pod_status import status_ended_by
from podtui.kubelet.types import Decorate

EVICTED: Final = "Evicted"


class NodeCare:
    """Builds and runs the maintenance loops.

    ``pods`` returns the running pods, ``container_usage`` the bytes on disk of a container by its
    id; ``kill`` stops a pod within a grace period; ``collect`` removes every dead container that is
    no longer needed.
    """

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
        container_usage: Callable[[str], int | None],
        kill: Callable[[str, int, Decorate], asyncio.Event | None],
        collect: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._runtime = engine.runtime
        self._cache = engine.cache
        self._collect = collect
        self._kill = kill
        self._clock = clock
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
        limits = StorageLimits(
            runtime=engine.runtime,
            clock=clock,
            observed=engine.cache.get,
            container_usage=container_usage,
        )
        self._eviction = EvictionManager(
            host=host,
            link=engine.link,
            node=node,
            events=events,
            clock=clock,
            config=config,
            limits=limits,
            memory=self._memory,
            pods=pods,
            reclaim=self._reclaim,
            evict=self._evict,
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

    async def _memory(self) -> dict[str, dict[str, int]]:
        """Return the working sets in bytes by pod UID and container."""
        used: dict[str, dict[str, int]] = {}
        for sample in await sample_containers(self._runtime, self._cache):
            used.setdefault(sample.pod.uid, {})[sample.container.name] = sample.stats.memory
        return used

    async def _reclaim(self) -> None:
        await self._collect()
        await self._images.delete_unused()

    async def _evict(self, pod: Pod, grace: int, eviction: EvictionMessage) -> None:
        """Kill the pod with the reason Evicted, and wait until it has stopped."""
        text = eviction.message
        self._events.pod(pod, WARNING, EVICTED, text, annotations=eviction.annotations)
        ended = partial(
            status_ended_by,
            pod,
            reason=EVICTED,
            message=text,
            disruption=text if eviction.disruption else "",
            now=self._clock.now(),
        )
        EVICTIONS.labels(eviction.signal).inc()
        stopped = self._kill(pod.metadata.uid, grace, ended)
        if stopped is not None and not await ends_in_time(stopped, grace):
            self._events.pod(pod, WARNING, "ExceededGracePeriod", EXCEEDED_GRACE)

    async def _watch_kernel_log(self) -> None:
        await self._link.wait_ready()
        info = self._link.info
        if info is not None and info.local:
            await watch_oom(self._events, self._host.kernel_log)
        # There is no log to watch.
        await asyncio.Event().wait()
