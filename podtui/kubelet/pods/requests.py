"""User requests for one pod beyond its manifest: retry, restart, ephemeral containers."""

from __future__ import annotations

from podtui.api.v1 import EphemeralContainer, Pod
from podtui.errors import RestartRefused
from podtui.kubelet.admission.admissions import Admissions
from podtui.kubelet.containers.ephemeral import Ephemerals
from podtui.kubelet.containers.killer import effective_grace
from podtui.kubelet.containers.restart import restarts_in_place, to_restart
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sync import Syncer
from podtui.kubelet.pods.sync_loop import SyncLoop
from podtui.kubelet.status.status_manager import StatusManager


class PodRequests:
    """User requests; each raises `LookupError`, with a text for the user, for an unknown pod."""

    def __init__(
        self,
        *,
        manager: PodManager,
        workers: PodWorkers,
        admissions: Admissions,
        statuses: StatusManager,
        ephemerals: Ephemerals,
        syncer: Syncer,
        cache: PodCache,
        loop: SyncLoop,
    ) -> None:
        self._manager = manager
        self._workers = workers
        self._admissions = admissions
        self._statuses = statuses
        self._ephemerals = ephemerals
        self._syncer = syncer
        self._cache = cache
        self._loop = loop

    async def retry(self, namespace: str, name: str) -> None:
        """Admit a rejected pod again (departure 6); leave any other pod alone."""
        pod = self._find(namespace, name)
        if self._admissions.forgive(pod.metadata.uid):
            await self._loop.add(pod)

    async def restart(self, namespace: str, name: str, container: str = "") -> None:
        """Restart a pod, or one of its containers, with its current manifest.

        Containers that always restart are stopped with their grace period. A pod that has other
        containers or is ending starts over as a whole. A rejected pod is admitted again. Raises
        `LookupError` for an unknown pod or container, and `RestartRefused` for a container that
        would not run again.
        """
        pod = self._find(namespace, name)
        uid = pod.metadata.uid
        if self._admissions.forgive(uid):
            await self._loop.add(pod)
        elif not container and (self._workers.ending(uid) or not restarts_in_place(pod)):
            self._statuses.mark_deleted(uid, effective_grace(pod))
            self._workers.start_over(pod)
        else:
            if self._workers.ending(uid):
                raise RestartRefused(f'pod "{name}" has ended or is ending: restart the pod')
            self._syncer.restart(uid, to_restart(pod, self._cache.get(uid), container))
            self._workers.wake(uid)

    async def set_ephemeral(
        self, namespace: str, name: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Set the ephemeral containers of a pod and return its new record.

        Raises `InvalidUpdate` if the change is not allowed.
        """
        pod = self._find(namespace, name)
        changed = self._ephemerals.change(pod, wanted)
        uid = pod.metadata.uid
        self._manager.set(changed)
        self._statuses.set(changed, self._statuses.get(uid) or changed.status)
        if not self._admissions.is_rejected(uid):
            self._workers.update(changed)
        record = self._statuses.record_of(uid)
        return changed if record is None else record

    def _find(self, namespace: str, name: str) -> Pod:
        pod = self._manager.by_name(namespace, name)
        if pod is None:
            raise LookupError(f'pods "{name}" not found')
        return pod
