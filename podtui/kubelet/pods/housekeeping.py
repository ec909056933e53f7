"""Periodic clean-up: orphaned pods, dead containers, unused sandboxes (reference §14.5, 17)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from podtui.api.names import CONFIG_SOURCE
from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, ObjectMeta, Pod, PodSpec
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.tasks import gather_all
from podtui.kubelet.base.types import ObservedPod, WorkerState
from podtui.kubelet.containers.container_gc import garbage
from podtui.kubelet.containers.log_files import LogFiles
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sources import SOURCE
from podtui.runtime.protocol import Runtime

_LOG = logging.getLogger(__name__)


class Housekeeping:
    """Runs `sweep` every two seconds and `collect` every minute, after the folder was first read.

    ``on_turn`` is called before each sweep, ``forget_backoffs`` at each collection.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        manager: PodManager,
        cache: PodCache,
        events: EventRecorder,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
        sources_ready: Callable[[], bool],
        on_turn: Callable[[], None],
        forget_backoffs: Callable[[], None],
        logs: LogFiles,
    ) -> None:
        self._runtime = runtime
        self._manager = manager
        self._cache = cache
        self._events = events
        self._link = link
        self._clock = clock
        self._config = config
        self._sources_ready = sources_ready
        self._on_turn = on_turn
        self._forget_backoffs = forget_backoffs
        self._logs = logs

    async def run(self, workers: PodWorkers) -> None:
        """Run forever."""
        # Collect at once after the start: the leftovers of a killed kubelet are old enough.
        next_gc = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._config.housekeeping_period)
            await self._link.wait_ready()
            if not self._sources_ready():
                continue
            self._on_turn()
            self.sweep(workers)
            if self._clock.monotonic() >= next_gc:
                next_gc = self._clock.monotonic() + self._config.container_gc_period
                await self.collect(workers)
                await self.collect_data(workers)

    def sweep(self, workers: PodWorkers, *, wanted: Collection[str] = ()) -> None:
        """Start a terminating worker for every orphan; ``wanted`` holds UIDs about to be added."""
        for observed in self._cache:
            uid = observed.uid
            if uid not in self._manager and uid not in wanted and workers.state(uid) is None:
                pod = pod_of(observed)
                _LOG.info("pod %s has no manifest and is removed", pod_ref(pod))
                workers.remove_orphan(pod, owns_name=not self._config.strict)

    async def collect(self, workers: PodWorkers, *, ended: bool = False) -> None:
        """Remove dead containers beyond one per name, and unused sandboxes.

        With ``ended``, used when the disk is full, also remove the rest of finished pods.
        """
        self._forget_backoffs()
        for observed in self._cache:
            if workers.busy(observed.uid):
                continue
            over = ended and workers.state(observed.uid) is WorkerState.FINISHED
            found = garbage((observed,), live=() if over else (observed.uid,))
            try:
                await gather_all(
                    partial(self._runtime.remove_container, one) for one in found.containers
                )
                await gather_all(
                    partial(self._runtime.remove_sandbox, one) for one in found.sandboxes
                )
            except EngineUnavailable as error:
                self._link.suspect(error)
                return
            except EngineError as error:
                self._events.node(WARNING, "ContainerGCFailed", str(error))

    async def collect_data(self, workers: PodWorkers) -> None:
        """Remove the volumes and log files of unknown pods.

        They remain if a kubelet is killed after it removed a pod's last container.
        """

        def known(uid: str) -> bool:
            wanted = uid in self._manager or workers.state(uid) is not None
            return wanted or self._cache.get(uid) is not None

        await self._logs.collect(known)
        try:
            for uid in await self._runtime.pod_data():
                if not known(uid):
                    _LOG.info("removing the orphaned volumes of pod %s", uid)
                    await self._runtime.remove_pod_data(uid)
        except EngineUnavailable as error:
            self._link.suspect(error)
        except EngineError as error:
            self._events.node(WARNING, "ContainerGCFailed", str(error))


def pod_of(observed: ObservedPod) -> Pod:
    """Build a pod from the labels of its containers and sandboxes."""
    names = dict.fromkeys(container.name for container in observed.containers)
    return Pod(
        apiVersion="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=observed.name,
            namespace=observed.namespace,
            uid=observed.uid,
            annotations={CONFIG_SOURCE: SOURCE},
        ),
        spec=PodSpec(
            containers=tuple([Container(name=name) for name in names]), restartPolicy="Always"
        ),
    )
