"""Periodic clean-up: orphaned pods, dead containers, unused sandboxes (kubelet.md §14.5, 17)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from podtui.api.names import CONFIG_SOURCE
from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, ObjectMeta, Pod, PodSpec
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.container_gc import garbage
from podtui.kubelet.containers.log_files import LogFiles
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.pleg.pleg import Engine
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sources import FILE
from podtui.kubelet.tasks import gather_all
from podtui.kubelet.types import ObservedPod, WorkerState

_LOG = logging.getLogger(__name__)


class Housekeeping:
    """Ends orphaned pods and removes what is left of ended ones.

    ``forget_backoffs`` is called at each collection.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        manager: PodManager,
        workers: PodWorkers,
        events: EventRecorder,
        logs: LogFiles,
        forget_backoffs: Callable[[], None],
        config: KubeletConfig,
    ) -> None:
        self._engine = engine
        self._manager = manager
        self._workers = workers
        self._events = events
        self._logs = logs
        self._forget_backoffs = forget_backoffs
        self._config = config

    def sweep(self, *, wanted: Collection[str] = ()) -> None:
        """Start a terminating worker for every orphan; ``wanted`` holds UIDs about to be added."""
        for observed in self._engine.cache:
            uid = observed.uid
            if uid not in self._manager and uid not in wanted and self._workers.state(uid) is None:
                pod = pod_of(observed)
                _LOG.info("pod %s has no manifest and is removed", pod_ref(pod))
                self._workers.remove_orphan(pod, owns_name=not self._config.strict)

    async def collect(self, *, ended: bool = False) -> None:
        """Remove dead containers beyond one per name, and unused sandboxes.

        With ``ended``, used when the disk is full, also remove the rest of finished pods.
        """
        self._forget_backoffs()
        for observed in self._engine.cache:
            if self._workers.busy(observed.uid):
                continue
            finished = ended and self._workers.state(observed.uid) is WorkerState.FINISHED
            dead = garbage((observed,), live=() if finished else (observed.uid,))
            try:
                await gather_all(
                    partial(self._engine.runtime.remove_container, container_id)
                    for container_id in dead.containers
                )
                await gather_all(
                    partial(self._engine.runtime.remove_sandbox, sandbox_id)
                    for sandbox_id in dead.sandboxes
                )
            except EngineUnavailable as error:
                self._engine.link.suspect(error)
                return
            except EngineError as error:
                self._events.node(WARNING, "ContainerGCFailed", str(error))

    async def collect_data(self) -> None:
        """Remove the volumes and log files of unknown pods.

        They remain if a kubelet is killed after it removed a pod's last container.
        """

        def is_known(uid: str) -> bool:
            wanted = uid in self._manager or self._workers.state(uid) is not None
            return wanted or self._engine.cache.get(uid) is not None

        await self._logs.collect(is_known)
        try:
            for uid in await self._engine.runtime.pod_data():
                if not is_known(uid):
                    _LOG.info("removing the volumes of the unknown pod %s", uid)
                    await self._engine.runtime.remove_pod_data(uid)
        except EngineUnavailable as error:
            self._engine.link.suspect(error)
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
            annotations={CONFIG_SOURCE: FILE},
        ),
        spec=PodSpec(
            containers=tuple([Container(name=name) for name in names]), restartPolicy="Always"
        ),
    )
