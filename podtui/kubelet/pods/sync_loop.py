"""The sync loop: turns each folder into adds, updates and removals of pods (reference §3, 1.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, Protocol

from podtui.api.insight import StepKind
from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.admission.admissions import Admissions
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.types import PodOperation, PodUpdate
from podtui.kubelet.containers.ephemeral import Ephemerals
from podtui.kubelet.containers.killer import effective_grace
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pods.housekeeping import Housekeeping
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sources import FolderSource, ManifestRecorder
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resizes import Resizes
from podtui.kubelet.status.status_manager import StatusManager
from podtui.kubelet.volumes.documents import Documents
from podtui.manifest.objects import ObjectKey, references
from podtui.manifest.types import Folder

_LOG = logging.getLogger(__name__)
LOOP_LIMIT: Final = 300.0


class FolderProvider(Protocol):
    """A source of folder snapshots."""

    def snapshots(self) -> AsyncIterator[Folder]: ...


class SyncLoop:
    """Passes the pods of the folder to the pod workers while an engine answers.

    Each snapshot is complete, so only the newest one counts. ``sources_ready`` is False until a
    folder was read; before that, running pods must not be treated as unwanted.
    """

    def __init__(
        self,
        *,
        folders: AsyncIterator[Folder] | FolderProvider,
        manifests: ManifestRecorder,
        documents: Documents,
        manager: PodManager,
        workers: PodWorkers,
        admissions: Admissions,
        resizes: Resizes,
        ephemerals: Ephemerals,
        allocations: Allocations,
        statuses: StatusManager,
        timelines: Timelines,
        housekeeping: Housekeeping,
        events: EventRecorder,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._folders = folders
        self._manifests = manifests
        self._documents = documents
        self._manager = manager
        self._workers = workers
        self._admissions = admissions
        self._resizes = resizes
        self._ephemerals = ephemerals
        self._allocations = allocations
        self._statuses = statuses
        self._timelines = timelines
        self._housekeeping = housekeeping
        self._events = events
        self._link = link
        self._clock = clock
        self._config = config
        self._source = FolderSource()
        self._folder: Folder | None = None
        self._changed = asyncio.Event()
        self._last_turn: float | None = None
        self.sources_ready = False

    # --- health

    def turn(self) -> None:
        """Record that the loop is alive; housekeeping calls this, too."""
        self._last_turn = self._clock.monotonic()

    def health(self) -> tuple[bool, str]:
        """Return True if the loop ran recently, or False with an error message."""
        if self._last_turn is None:
            return False, "the kubelet has not started"
        limit = max(2 * self._config.sync_frequency, LOOP_LIMIT)
        if self._clock.monotonic() - self._last_turn > limit:
            return False, "sync Loop took longer than expected"
        return True, ""

    # --- tasks

    async def read(self) -> None:
        """Receive folder snapshots and record their manifests."""
        folders = self._folders
        if not isinstance(folders, AsyncIterator):
            folders = folders.snapshots()
        async for folder in folders:
            self._folder = folder
            self._changed.set()
            await self._manifests.record(folder.manifests)

    async def consume(self) -> None:
        """Apply the newest folder after each change."""
        while True:
            await self._changed.wait()
            await self._link.wait_ready()
            self._changed.clear()
            if self._folder is not None:
                await self._apply(self._folder)
            self.turn()

    async def _apply(self, folder: Folder) -> None:
        if folder.error:
            _LOG.warning("the static-pod folder: %s", folder.error)
            if not self.sources_ready and not folder.pods:
                # The folder was never read: running pods may still be wanted.
                return
        changed = self._documents.take(folder)
        updates = self._source.diff(folder.pods, self._clock.now())
        for pod in self._source.duplicates:
            text = (
                f"Error validating pod {pod_ref(pod)} from file due to duplicate pod name "
                f'"{pod.metadata.name}", ignoring'
            )
            self._events.pod(pod, WARNING, "FailedValidation", text)
        if not self.sources_ready:
            self._begin(folder)
        for update in updates:
            await self._handle(update)
        if updates:
            self._admissions.review()
        self._wake_readers(changed)

    def _wake_readers(self, changed: frozenset[ObjectKey]) -> None:
        """Wake the pods that reference a changed document, before their next regular pass."""
        for pod in self._manager if changed else ():
            if changed & references(pod).found:
                self._workers.wake(pod.metadata.uid)

    def _begin(self, folder: Folder) -> None:
        """Clean up after the first folder was read: end unwanted pods before new ones start."""
        self.sources_ready = True
        self._housekeeping.sweep(self._workers, wanted=folder.pods.keys())
        self._statuses.remove_orphans(folder.pods.keys())
        self._allocations.keep_only(folder.pods.keys())
        self._timelines.keep_only(folder.pods.keys())

    # --- pods

    async def _handle(self, update: PodUpdate) -> None:
        if update.operation is PodOperation.REMOVE:
            for pod in update.pods:
                self._remove(pod)
            self._resizes.retry_soon()
            return
        pods = [self._ephemerals.onto(pod) for pod in update.pods]
        for pod in pods:
            match update.operation:
                case PodOperation.ADD:
                    await self.add(pod)
                case PodOperation.UPDATE:
                    await self._update(pod)
                case PodOperation.RECONCILE:
                    self._manager.set(pod)
                    self._workers.wake(pod.metadata.uid)
        if update.operation is PodOperation.ADD:
            self._resizes.restore(pods)

    async def add(self, pod: Pod) -> None:
        """Admit a pod and let its worker run it."""
        uid = pod.metadata.uid
        self._manager.set(pod)
        self._statuses.claim(pod)
        self._timelines.seen(pod)
        # A pod that comes back while it is still ending is not admitted again: it never left.
        if self._workers.ending(uid):
            self._admissions.let_in(pod)
            self._timelines.ended(pod, StepKind.ADMIT)
            self._workers.update(pod)
            return
        admitted = await self._admissions.admit(pod)
        why = "" if admitted else self._statuses.reason(uid)
        self._timelines.ended(pod, StepKind.ADMIT, failed=not admitted, note=why)
        if admitted:
            self._workers.update(pod)

    async def _update(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        before = self._manager.get(uid)
        self._manager.set(pod)
        if self._admissions.is_rejected(uid):
            return
        if not self._workers.ending(uid):
            await self._resizes.updated(before, pod)
            self._admissions.let_in(pod)
        self._workers.update(pod)

    def _remove(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._manager.remove(uid)
        self._timelines.removed(pod)
        self._admissions.forgive(uid)
        self._admissions.let_go(uid)
        self._allocations.forget(uid)
        self._resizes.forget(uid)
        self._ephemerals.forget(uid)
        if self._workers.state(uid) is None or self._config.strict:
            self._statuses.remove(uid)
        else:
            self._statuses.mark_deleted(uid, effective_grace(pod))
        self._workers.remove(uid)
