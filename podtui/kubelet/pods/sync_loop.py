"""The sync loop: adds, updates and removes pods as the sources change (kubelet.md §3, 1.6)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from podtui.api.insight import StepKind
from podtui.api.pod_resources import is_static
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.admission.admissions import Admissions
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.ephemeral import Ephemerals
from podtui.kubelet.containers.killer import effective_grace
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pods.housekeeping import Housekeeping
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sources import PodSources
from podtui.kubelet.resize.resizes import PodResources
from podtui.kubelet.status.conditions import others_conditions
from podtui.kubelet.status.phase import TERMINAL
from podtui.kubelet.status.status_manager import PodRecords
from podtui.kubelet.types import PodOperation, PodUpdate, WorkerState
from podtui.kubelet.volumes.claims import ClaimKey, uses_claim
from podtui.kubelet.volumes.tokens import token_projections
from podtui.manifest.objects import ObjectKey, references

_LOG = logging.getLogger(__name__)
LOOP_LIMIT: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodControl:
    """The desired pods, and the components that admit and run them."""

    manager: PodManager
    ephemerals: Ephemerals
    admissions: Admissions
    workers: PodWorkers


_BY_EFFECT: Final = (PodOperation.ADD, PodOperation.UPDATE, PodOperation.RECONCILE)
"""Each does all that the next one does."""


class SyncLoop:
    """Passes the pods of the folder and of the API to the pod workers while an engine answers."""

    def __init__(
        self,
        *,
        sources: PodSources,
        pods: PodControl,
        resources: PodResources,
        records: PodRecords,
        housekeeping: Housekeeping,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
    ) -> None:
        self._sources = sources
        self._pods = pods
        self._resources = resources
        self._records = records
        self._housekeeping = housekeeping
        self._link = link
        self._clock = clock
        self._config = config
        self._last_alive: float | None = None
        self.has_begun = False
        """True once every source of pods was read."""
        self._failed: dict[str, PodUpdate] = {}
        """The update to try again, by the UID of the pod."""

    # --- health

    def mark_alive(self) -> None:
        """Record that the loop runs, for its health check."""
        self._last_alive = self._clock.monotonic()

    def health(self) -> tuple[bool, str]:
        """Return True if the loop ran recently, or False with an error message."""
        if self._last_alive is None:
            return False, "the kubelet has not started"
        limit = max(2 * self._config.sync_frequency, LOOP_LIMIT)
        if self._clock.monotonic() - self._last_alive > limit:
            return False, "sync Loop took longer than expected"
        return True, ""

    # --- tasks

    async def run(self) -> None:
        """Apply the newest pods of each source after each change. An update that fails is kept for
        the next run of this loop; the other pods go first."""
        while True:
            if not self._failed:
                await self._sources.changed.wait()
            await self._link.wait_ready()
            await self._apply()
            self.mark_alive()

    async def run_housekeeping(self) -> None:
        """Sweep every two seconds and collect every minute, after the folder was first read."""
        # Collect at once after the start: the leftovers of a killed kubelet are old enough.
        next_collection = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._config.housekeeping_period)
            await self._link.wait_ready()
            if not self._sources.ready:
                continue
            self.mark_alive()
            self._housekeeping.sweep()
            if self._clock.monotonic() >= next_collection:
                next_collection = self._clock.monotonic() + self._config.container_gc_period
                await self._housekeeping.collect()
                await self._housekeeping.collect_data()

    async def _apply(self) -> None:
        changes = self._sources.take()
        if not self.has_begun and self._sources.ready:
            self._begin()
            self.has_begun = True
        failed, self._failed = self._failed, {}
        errors: list[Exception] = []
        for update in changes.updates:
            errors += await self._handle(update, failed)
        retried = list(failed.values())
        for update in retried:
            errors += await self._handle(update, failed)
        if changes.updates or retried:
            self._pods.admissions.review()
        self.wake_readers(changes.documents)
        if errors:
            raise errors[0]

    def wake_readers(self, changed: frozenset[ObjectKey]) -> None:
        """Wake the pods that reference a changed document, before their next regular pass."""
        for pod in self._pods.manager if changed else ():
            if changed & references(pod).keys:
                self._pods.workers.wake(pod.metadata.uid)

    def wake_users(self, claim: ClaimKey) -> None:
        """Wake the pods that use a claim."""
        for pod in self._pods.manager:
            if uses_claim(pod, claim):
                self._pods.workers.wake(pod.metadata.uid)

    def wake_account(self, namespace: str, account: str) -> None:
        """Wake the pods that have tokens of a service account."""
        for pod in self._pods.manager:
            if (
                pod.metadata.namespace == namespace
                and (pod.spec.serviceAccountName or "default") == account
                and any(token_projections(pod))
            ):
                self._pods.workers.wake(pod.metadata.uid)

    def _begin(self) -> None:
        """Clean up once every source is known: end unwanted pods before new ones start."""
        wanted = self._sources.wanted
        self._housekeeping.sweep(wanted=wanted)
        self._records.statuses.remove_orphans(wanted)
        self._resources.allocations.keep_only(wanted)
        self._pods.admissions.keep_only(wanted)
        self._records.timelines.keep_only(wanted)

    # --- pods

    async def _handle(self, update: PodUpdate, failed: dict[str, PodUpdate]) -> list[Exception]:
        """Handle each pod of an update. ``failed`` has the updates that failed before; one of the
        same pod is replaced. Return the errors of those to try again."""
        errors: list[Exception] = []
        pods = list(update.pods)
        if update.operation is PodOperation.ADD:
            pods.sort(key=lambda pod: pod.metadata.creationTimestamp or "")
        for pod in pods:
            uid = pod.metadata.uid
            earlier = failed.pop(uid, None) or self._failed.pop(uid, None)
            operation = merged_operation(earlier, update.operation)
            try:
                await self._handle_pod(operation, pod)
            except Exception as error:  # noqa: BLE001 - it is raised after the other pods
                errors.append(error)
                self._failed[uid] = replace(update, operation=operation, pods=(pod,))
        if update.operation is PodOperation.REMOVE:
            self._resources.resizes.retry_soon()
        if update.operation is PodOperation.ADD:
            self._resources.resizes.restore(pods)
        return errors

    async def _handle_pod(self, operation: PodOperation, pod: Pod) -> None:
        if operation is not PodOperation.REMOVE and is_static(pod):
            pod = self._pods.ephemerals.onto(pod)
        match operation:
            case PodOperation.REMOVE:
                self._remove(pod)
            case PodOperation.ADD:
                await self.add(pod)
            case PodOperation.UPDATE:
                await self._update(pod)
            case PodOperation.RECONCILE:
                self._reconcile(pod)

    async def add(self, pod: Pod) -> None:
        """Admit a pod and let its worker run it."""
        uid = pod.metadata.uid
        self._pods.manager.set(pod)
        self._records.statuses.claim(pod)
        self._records.timelines.seen(pod)
        if pod.metadata.deletionTimestamp is not None or pod.status.phase in TERMINAL:
            # An API pod from before this kubelet started, which is ending or has ended.
            self._pods.workers.finish(pod)
            return
        # A pod that comes back while it is still ending is not admitted again: it never left.
        if self._pods.workers.ending(uid):
            self._pods.admissions.mark_admitted(pod)
            self._records.timelines.ended(pod, StepKind.ADMIT)
            self._pods.workers.update(pod)
            return
        admitted = await self._pods.admissions.admit(pod)
        why = "" if admitted else self._records.statuses.reason(uid)
        self._records.timelines.ended(pod, StepKind.ADMIT, failed=not admitted, note=why)
        if admitted:
            self._pods.workers.update(pod)

    async def _update(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        before = self._pods.manager.get(uid)
        self._pods.manager.set(pod)
        self._records.statuses.record_changed(pod)
        if self._pods.admissions.is_rejected(uid):
            self._records.statuses.mark_ended(uid)
            return
        if pod.metadata.deletionTimestamp is not None:
            self._pods.workers.finish(pod)
            return
        if not self._pods.workers.ending(uid):
            await self._resources.resizes.updated(before, pod)
            self._pods.admissions.mark_admitted(pod)
        self._pods.workers.update(pod)

    def _reconcile(self, pod: Pod) -> None:
        """Take over a status that another component changed, such as a readiness gate."""
        uid = pod.metadata.uid
        before = self._pods.manager.get(uid)
        self._pods.manager.set(pod)
        self._records.statuses.record_changed(pod)
        if self._pods.workers.state(uid) is WorkerState.SYNC:
            # As in a kubelet, conditions of others matter to a pass only with readiness gates.
            changed = bool(pod.spec.readinessGates) and (
                before is None or others_conditions(before) != others_conditions(pod)
            )
            self._pods.workers.update(pod, wake=changed)

    def _remove(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._pods.manager.remove(uid)
        self._records.timelines.removed(pod)
        self._pods.admissions.forget_rejection(uid)
        self._pods.admissions.mark_stopped(uid)
        self._resources.allocations.forget(uid)
        self._resources.resizes.forget(uid)
        self._pods.ephemerals.forget(uid)
        if self._pods.workers.state(uid) is None or self._config.strict or not is_static(pod):
            self._records.statuses.remove(uid)
        else:
            self._records.statuses.mark_deleted(uid, effective_grace(pod))
        self._pods.workers.remove(uid)


def merged_operation(failed: PodUpdate | None, newer: PodOperation) -> PodOperation:
    """Return what to do with the newer version of a pod, an earlier update of which failed."""
    if failed is None or failed.operation is PodOperation.REMOVE or newer is PodOperation.REMOVE:
        return newer
    return min(failed.operation, newer, key=_BY_EFFECT.index)
