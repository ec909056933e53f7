"""The kubelet: wires the loops, and is the sync loop that feeds them (reference §3)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from podtui.api.images import NodeImageList
from podtui.api.insight import StepKind
from podtui.api.pods import pod_ref
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.api.what_if import WhatIf
from podtui.clock import Clock
from podtui.errors import RestartRefused
from podtui.kubelet.admission import host_ports
from podtui.kubelet.admissions import Admissions
from podtui.kubelet.allocations import Allocations
from podtui.kubelet.annotations import PULL_PROGRESS
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.disk_images import disk_images
from podtui.kubelet.documents import Documents
from podtui.kubelet.endpoints import Endpoints
from podtui.kubelet.ephemerals import Ephemerals
from podtui.kubelet.events import NORMAL, WARNING, EventRecorder
from podtui.kubelet.hooks import Hooks
from podtui.kubelet.host import Host, LocalHost
from podtui.kubelet.housekeeping import Housekeeping
from podtui.kubelet.image_manager import ImageManager
from podtui.kubelet.image_volumes import ImageVolumes
from podtui.kubelet.insights import Insights
from podtui.kubelet.killer import Killer
from podtui.kubelet.link import EngineLink
from podtui.kubelet.listeners import Listener
from podtui.kubelet.log_files import LogFiles
from podtui.kubelet.metrics import Metrics
from podtui.kubelet.node import NodeManager
from podtui.kubelet.node_care import NodeCare
from podtui.kubelet.pleg import Pleg
from podtui.kubelet.pod_cache import PodCache
from podtui.kubelet.pod_manager import PodManager
from podtui.kubelet.pod_workers import PodWorkers
from podtui.kubelet.prober.address import PodAddresses
from podtui.kubelet.prober.handlers import Handlers
from podtui.kubelet.prober.hooks import HookRunner
from podtui.kubelet.prober.prober import Prober
from podtui.kubelet.prober.state import ProbeKind
from podtui.kubelet.probing import Probes
from podtui.kubelet.pulled_images import PulledImages
from podtui.kubelet.reasons import ReasonCache
from podtui.kubelet.resizes import Resizes
from podtui.kubelet.resolver import Resolvers
from podtui.kubelet.restarts import restarts_in_place, to_restart
from podtui.kubelet.shutdown import NodeShutdown, shutdown_steps
from podtui.kubelet.sources import FolderSource, ManifestRecorder
from podtui.kubelet.starter import ContainerStarter
from podtui.kubelet.status_manager import StatusManager
from podtui.kubelet.supervise import keep_running
from podtui.kubelet.sync import Syncer
from podtui.kubelet.timelines import Timelines
from podtui.kubelet.types import PodOperation, PodUpdate, ProbeResult, WorkerState
from podtui.kubelet.usage_book import UsageRecords
from podtui.kubelet.volume_manager import VolumeManager
from podtui.manifest.objects import ObjectKey, references
from podtui.manifest.types import Folder
from podtui.runtime.protocol import Runtime
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
LOOP_LIMIT: Final = 300.0
LAST_WORDS: Final = 1.0


class FolderProvider(Protocol):
    """Something that reads a folder over time."""

    def snapshots(self) -> AsyncIterator[Folder]: ...


class Kubelet:
    """Runs the pods of a folder on a runtime and keeps the records of them.

    ``folders`` yields the folder whole, at first and whenever it changed. Cancelling `run` ends the
    supervision and leaves the containers running; a later kubelet takes them up again. ``host`` is
    the machine to look at where the engine is local. ``jitter`` gives numbers in [0, 1), which
    stretch every retry by up to a half. ``usage`` keeps the history of usage on disk.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        records: Records,
        folders: AsyncIterator[Folder] | FolderProvider,
        clock: Clock,
        config: KubeletConfig,
        probes: Probes | None = None,
        hooks: Hooks | None = None,
        host: Host | None = None,
        jitter: Callable[[], float] = random.random,
        usage: UsageRecords | None = None,
    ) -> None:
        self._runtime = runtime
        self._folders = folders
        self._clock = clock
        self._config = config
        self._jitter = jitter
        self._manifests = ManifestRecorder(records)
        self._source = FolderSource()
        self._documents = Documents()
        self._folder: Folder | None = None
        self._folder_changed = asyncio.Event()
        self._sources_ready = False
        self._last_turn: float | None = None
        self._workers: PodWorkers | None = None

        self._events = EventRecorder(records, clock, config.node_name)
        self._timelines = Timelines(records, clock)
        self._link = EngineLink(runtime, clock, config)
        self._cache = PodCache()
        self._manager = PodManager()
        self._reasons = ReasonCache()
        self._pleg = Pleg(
            runtime,
            self._cache,
            self._link,
            clock,
            config,
            on_change=self._on_observed,
            is_busy=self._is_busy,
        )
        if host is None and not config.simulated:
            host = LocalHost()
        self._host = host
        self._node = NodeManager(
            runtime=runtime,
            records=records,
            events=self._events,
            link=self._link,
            clock=clock,
            config=config,
            host=host,
            problem=self._pleg.problem,
            on_resources=self._on_room,
        )
        self._statuses = StatusManager(records, clock, config.node_name, lambda: self._node.uid)
        self._ephemerals = Ephemerals(self._statuses.seed, strict=config.strict)
        self._allocations = Allocations(config.root_dir, clock)
        self._admissions = Admissions(
            manager=self._manager,
            statuses=self._statuses,
            events=self._events,
            node=self._node,
            allocations=self._allocations,
            clock=clock,
            config=config,
        )
        self._resizes = Resizes(
            allocations=self._allocations,
            judge=self._admissions,
            find=self._manager.get,
            wake=self.wake,
            events=self._events,
            clock=clock,
        )
        addresses = PodAddresses(self._cache.get, lambda: self._link.info)
        self._probes: Probes = probes or Prober(
            handlers=Handlers(runtime, addresses, simulated=config.simulated),
            observe=self._cache.get,
            recorded=self._statuses.seed,
            turned=self._on_probe,
            events=self._events,
            clock=clock,
            jitter=jitter,
        )
        self._hooks: Hooks = hooks or HookRunner(
            runtime=runtime,
            addresses=addresses,
            events=self._events,
            clock=clock,
            simulated=config.simulated,
        )
        killer = Killer(runtime, self._events, self._hooks, clock)
        self._pulled = PulledImages(config.root_dir)
        images = ImageManager(
            runtime,
            self._events,
            clock,
            config,
            documents=self._documents,
            pulled=self._pulled,
            timelines=self._timelines,
            on_progress=self._on_pull_progress,
        )
        self._resolvers = Resolvers(config, self._events, lambda: self._node.host_ips)
        logs = LogFiles(config.root_dir, local=self._engine_is_here)
        self._syncer = Syncer(
            runtime=runtime,
            starter=ContainerStarter(
                runtime,
                images,
                killer,
                self._events,
                self._hooks,
                self._documents,
                self._timelines,
                clock,
                config,
            ),
            killer=killer,
            statuses=self._statuses,
            reasons=self._reasons,
            events=self._events,
            pleg=self._pleg,
            cache=self._cache,
            node=self._node,
            link=self._link,
            resolvers=self._resolvers,
            probes=self._probes,
            hooks=self._hooks,
            volumes=VolumeManager(
                runtime, self._documents, self._events, clock, strict=config.strict
            ),
            image_volumes=ImageVolumes(runtime, images),
            allocations=self._allocations,
            resizes=self._resizes,
            timelines=self._timelines,
            clock=clock,
            config=config,
            logs=logs,
            on_gone=self._on_gone,
        )
        self._housekeeping = Housekeeping(
            runtime=runtime,
            manager=self._manager,
            cache=self._cache,
            events=self._events,
            link=self._link,
            clock=clock,
            config=config,
            sources_ready=lambda: self._sources_ready,
            on_turn=self._turn,
            forget_backoffs=self._syncer.collect,
            logs=logs,
        )
        self._shutdown = NodeShutdown(
            steps=shutdown_steps(
                config.shutdown_grace_period,
                config.shutdown_grace_period_critical_pods,
                config.shutdown_grace_period_by_pod_priority,
            ),
            node=self._node,
            events=self._events,
            clock=clock,
            pods=self._running_pods,
        )
        self._care: NodeCare | None = None
        if host is not None:
            self._care = NodeCare(
                host=host,
                runtime=runtime,
                link=self._link,
                node=self._node,
                cache=self._cache,
                events=self._events,
                clock=clock,
                config=config,
                pulled=self._pulled,
                pods=self._running_pods,
                collect=self._collect_dead,
            )
        self._metrics = Metrics(
            runtime, self._cache, self._link, clock, config.node_name, table=usage
        )
        self.insights = Insights(
            find=self._manager.by_name,
            probes=self._probes,
            metrics=self._metrics,
            timelines=self._timelines,
            clock=clock,
        )
        self.endpoints = Endpoints(
            runtime=runtime,
            statuses=self._statuses,
            metrics=self._metrics,
            health=self._health,
            retry=self.retry,
            restart=self.restart,
            set_ephemeral=self.set_ephemeral,
        )

    # --- life

    async def run(self) -> None:
        """Supervise until cancelled."""
        self._turn()
        await self._statuses.load()
        await self._timelines.load()
        await self._allocations.load()
        await self._pulled.load()
        self._events.node(NORMAL, "Starting", "Starting kubelet.")
        await self._node.register()
        try:
            await self._supervise()
        finally:
            # What was decided last is still worth a moment.
            async with asyncio.timeout(LAST_WORDS):
                await self._statuses.drain()
                await self._events.drain()
                await self._allocations.drain()
                await self._timelines.drain()

    async def _supervise(self) -> None:
        async with asyncio.TaskGroup() as group:
            workers = self._workers = PodWorkers(
                group=group,
                syncer=self._syncer,
                pleg=self._pleg,
                cache=self._cache,
                link=self._link,
                clock=self._clock,
                config=self._config,
                jitter=self._jitter,
                on_restart=self._on_restart,
                on_stopped=self._on_stopped,
            )
            self._admissions.workers = workers

            async def link() -> None:
                await self._link.run(self._take_up, self._node.refresh_soon)

            async def keep_house() -> None:
                await self._housekeeping.run(workers)

            tasks = {
                "event records": self._events.run,
                "pod records": self._statuses.run,
                "engine link": link,
                "relists": self._pleg.run_relists,
                "engine events": self._pleg.run_events,
                "looks": self._pleg.run_refreshes,
                "node status": self._node.run,
                "probes": self._probes.run,
                "folder": self._read_folders,
                "allocations": self._allocations.run,
                "resizes": self._resizes.run,
                "timelines": self._timelines.run,
                "usage": self._metrics.run,
                "sync loop": self._consume_folders,
                "housekeeping": keep_house,
                **({} if self._care is None else self._care.tasks()),
            }
            for name, task in tasks.items():
                group.create_task(keep_running(name, task, self._clock), name=name)

    async def _take_up(self) -> None:
        """An engine answered: learn what it is and what it runs, before anything is done."""
        await self._node.learn()
        if self._link.info is not None:
            await self._resolvers.check(self._link.info)
        await self._pleg.relist()

    @property
    def ends_pods(self) -> bool:
        """Whether pods have time to end when the machine goes down."""
        return self._shutdown.enabled

    async def shut_down(self) -> bool:
        """The machine is about to go: end the pods in the order of their priority (reference
        §14.7). False where the settings give them no time; then nothing is ended."""
        if not self._shutdown.enabled or self._workers is None:
            return False
        await self._shutdown.run(self._workers)
        return True

    def _running_pods(self) -> list[Pod]:
        workers = self._workers
        if workers is None:
            return []
        return [pod for pod in self._manager if workers.state(pod.metadata.uid) is WorkerState.SYNC]

    async def _collect_dead(self) -> None:
        if self._workers is not None:
            await self._housekeeping.collect(self._workers, ended=True)
            # What was removed holds its image no longer.
            await self._pleg.relist()

    def wake(self, uid: str) -> None:
        """Something of this pod changed outside the runtime: a probe's result."""
        if self._workers is not None:
            self._workers.wake(uid)

    async def retry(self, namespace: str, name: str) -> None:
        """Admit a rejected pod afresh (departure 6); one that was not rejected is let be.

        Raises `LookupError`, with a text for the user, where there is no such pod.
        """
        pod = self._manager.by_name(namespace, name)
        if pod is None:
            raise LookupError(f'pod "{name}" not found')
        if self._admissions.forgive(pod.metadata.uid):
            await self._add(pod)

    async def restart(self, namespace: str, name: str, container: str = "") -> None:
        """Run a pod anew, or one of its containers, with the manifest as it is.

        Containers that come back however they end are ended, with their grace; a pod that has
        others or is ending starts over, and one that was rejected is admitted afresh. Raises
        `LookupError` where there is no such pod or container, `RestartRefused`.
        """
        pod = self._manager.by_name(namespace, name)
        if pod is None or self._workers is None:
            raise LookupError(f'pods "{name}" not found')
        uid = pod.metadata.uid
        if self._admissions.forgive(uid):
            await self._add(pod)
        elif not container and (self._workers.ending(uid) or not restarts_in_place(pod)):
            self._statuses.mark_deleted(uid, self._workers.effective_grace(pod))
            self._workers.start_over(pod)
        else:
            if self._workers.ending(uid):
                raise RestartRefused(f'pod "{name}" has ended or is ending: restart the pod')
            self._syncer.restart(uid, to_restart(pod, self._cache.get(uid), container))
            self.wake(uid)

    async def what_if(self, pod: Pod) -> WhatIf:
        """What this node would say to a pod of which there is no manifest yet."""
        listeners: tuple[Listener, ...] = ()
        if self._host is not None and self._engine_is_here() and host_ports(pod):
            listeners = await asyncio.to_thread(self._host.listeners)
        return self._admissions.what_if(pod, listeners)

    async def images(self) -> NodeImageList:
        """What the engine has on its disk. Raises `EngineError`."""
        images = await self._runtime.list_images()
        return disk_images(
            images, self._cache, lambda image: self._config.strict or self._pulled.owns(image)
        )

    async def set_ephemeral(
        self, namespace: str, name: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Give a pod these ephemeral containers; its record with them.

        Raises `LookupError` where there is no such pod, `InvalidUpdate` where they may not be.
        """
        pod = self._manager.by_name(namespace, name)
        if pod is None:
            raise LookupError(f'pods "{name}" not found')
        changed = self._ephemerals.change(pod, wanted)
        uid = pod.metadata.uid
        self._manager.set(changed)
        self._statuses.set(changed, self._statuses.get(uid) or changed.status)
        if self._workers is not None and not self._admissions.is_rejected(uid):
            self._workers.update(changed)
        record = self._statuses.record_of(uid)
        return changed if record is None else record

    def _turn(self) -> None:
        self._last_turn = self._clock.monotonic()

    def _health(self) -> tuple[bool, str]:
        if self._last_turn is None:
            return False, "the kubelet has not started"
        limit = max(2 * self._config.sync_frequency, LOOP_LIMIT)
        if self._clock.monotonic() - self._last_turn > limit:
            return False, "sync Loop took longer than expected"
        return True, ""

    # --- the folder

    async def _read_folders(self) -> None:
        """Only the newest folder counts: each one is whole."""
        folders = self._folders
        if not isinstance(folders, AsyncIterator):
            folders = folders.snapshots()
        async for folder in folders:
            self._folder = folder
            self._folder_changed.set()
            await self._manifests.record(folder.manifests)

    async def _consume_folders(self) -> None:
        while True:
            await self._folder_changed.wait()
            await self._link.wait_ready()
            self._folder_changed.clear()
            if self._folder is not None:
                await self._apply(self._folder)
            self._turn()

    async def _apply(self, folder: Folder) -> None:
        if folder.error:
            _LOG.warning("the static-pod folder: %s", folder.error)
            if not self._sources_ready and not folder.pods:
                # Nothing was ever seen of it: what runs may well be wanted.
                return
        changed = self._documents.take(folder)
        updates = self._source.diff(folder.pods, self._clock.now())
        for pod in self._source.duplicates:
            text = (
                f"Error validating pod {pod_ref(pod)} from file due to duplicate pod name "
                f'"{pod.metadata.name}", ignoring'
            )
            self._events.pod(pod, WARNING, "FailedValidation", text)
        if not self._sources_ready:
            self._begin(folder)
        for update in updates:
            await self._handle(update)
        if updates:
            self._admissions.review()
        self._wake_readers(changed)

    def _wake_readers(self, changed: frozenset[ObjectKey]) -> None:
        """Pods need not wait for their next pass to see a document that changed."""
        for pod in self._manager if changed else ():
            if changed & references(pod).found:
                self.wake(pod.metadata.uid)

    def _begin(self, folder: Folder) -> None:
        """The first folder: what it does not ask for is ended before anything new begins."""
        self._sources_ready = True
        if self._workers is not None:
            self._housekeeping.sweep(self._workers, wanted=folder.pods.keys())
        self._statuses.remove_orphans(folder.pods.keys())
        self._allocations.keep_only(folder.pods.keys())
        self._timelines.keep_only(folder.pods.keys())

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
                    await self._add(pod)
                case PodOperation.UPDATE:
                    await self._update(pod)
                case PodOperation.RECONCILE:
                    self._manager.set(pod)
                    self.wake(pod.metadata.uid)
        if update.operation is PodOperation.ADD:
            self._resizes.restore(pods)

    async def _add(self, pod: Pod) -> None:
        assert self._workers is not None
        uid = pod.metadata.uid
        self._manager.set(pod)
        self._statuses.claim(pod)
        self._timelines.seen(pod)
        # One that comes back while it is still ending is not admitted again: it never left.
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
        assert self._workers is not None
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
        assert self._workers is not None
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
            self._statuses.mark_deleted(uid, self._workers.effective_grace(pod))
        self._workers.remove(uid)

    # --- what the other loops tell

    def _is_busy(self, uid: str) -> bool:
        return self._workers is not None and self._workers.busy(uid)

    def _on_observed(self, uid: str) -> None:
        workers = self._workers
        if workers is None:
            return
        workers.wake(uid)
        pod = self._manager.get(uid)
        if (
            pod is not None
            and not self._config.strict
            and workers.busy(uid)
            and workers.state(uid) is WorkerState.SYNC
        ):
            # The pass may wait for another container's image; what runs by now need not.
            self._syncer.publish(pod)

    def _engine_is_here(self) -> bool:
        return self._link.info is not None and self._link.info.local

    def _on_probe(self, uid: str, container_id: str, kind: ProbeKind, result: ProbeResult) -> None:
        pod = self._manager.get(uid)
        if pod is not None and kind is ProbeKind.READINESS:
            # Whatever the pod's worker waits for just now.
            self._syncer.show_readiness(pod, container_id, ready=result is ProbeResult.SUCCESS)
        self._on_observed(uid)

    def _on_pull_progress(self, uid: str, text: str | None) -> None:
        self._statuses.annotate(uid, PULL_PROGRESS, text)
        if text is None:
            self._node.images_changed()

    def _on_restart(self, pod: Pod) -> None:
        self._syncer.begin_anew(pod.metadata.uid)
        self._allocations.allocate(pod)
        self._admissions.let_in(pod)
        self._statuses.claim(pod)

    def _on_stopped(self, uid: str) -> None:
        self._admissions.let_go(uid)
        self._on_room()

    def _on_gone(self, uid: str) -> None:
        _LOG.debug("nothing is left of pod %s", uid)

    def _on_room(self) -> None:
        self._admissions.review()
        self._resizes.retry_soon()
