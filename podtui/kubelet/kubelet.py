"""The kubelet: connects its parts and runs their loops (kubelet.md §3)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from podtui.api.local import WhatIf
from podtui.api.names import PULL_PROGRESS
from podtui.api.pods import host_ports
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.admission.admissions import Admissions
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.ephemeral import Ephemerals
from podtui.kubelet.containers.killer import Killer
from podtui.kubelet.containers.log_files import LogFiles
from podtui.kubelet.containers.starter import ContainerStarter
from podtui.kubelet.endpoints import Endpoints
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.images.image_manager import ImageManager
from podtui.kubelet.images.image_volumes import ImageVolumes
from podtui.kubelet.images.image_work import ImageWork
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.kubelet_metrics import measured
from podtui.kubelet.node.host import Host, Listener, LocalHost
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.node_care import NodeCare
from podtui.kubelet.pleg.pleg import Engine, Pleg
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.plugins.csi_drivers import CSI_PLUGIN_TYPE, CsiDrivers
from podtui.kubelet.plugins.device_plugins import DevicePlugins
from podtui.kubelet.pods.housekeeping import Housekeeping
from podtui.kubelet.pods.pod_manager import PodManager
from podtui.kubelet.pods.pod_workers import PodWorkers
from podtui.kubelet.pods.sources import FolderProvider, PodSources
from podtui.kubelet.pods.sync import PodParts, Syncer
from podtui.kubelet.pods.sync_loop import PodControl, SyncLoop
from podtui.kubelet.ports import Ports, ServiceAccountTokens
from podtui.kubelet.prober.dialing import PodAddresses
from podtui.kubelet.prober.handlers import Handlers, ProbeHandlers
from podtui.kubelet.prober.hooks import HookRunner
from podtui.kubelet.prober.prober import Prober
from podtui.kubelet.prober.state import ProbeKind
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resizes import PodResources, ResizeActuator, Resizes
from podtui.kubelet.resource_managers.cpu_topology import read_machine_topology
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers, RunningContainer
from podtui.kubelet.sandbox.dns import Resolvers
from podtui.kubelet.sandbox.sandbox import SandboxMaker
from podtui.kubelet.shutdown import NodeShutdown, shutdown_steps
from podtui.kubelet.stats.insights import Insights
from podtui.kubelet.stats.metrics import Metrics
from podtui.kubelet.stats.usage_history import UsageRecords
from podtui.kubelet.status.status_manager import PodRecords, StatusManager
from podtui.kubelet.status.status_reporter import StatusReporter
from podtui.kubelet.tasks import Parts
from podtui.kubelet.types import ProbeResult, WorkerState
from podtui.kubelet.volumes.claims import Claims
from podtui.kubelet.volumes.csi_expander import CsiExpander
from podtui.kubelet.volumes.csi_mounter import COLLECT_PERIOD, CsiMounter
from podtui.kubelet.volumes.csi_usage import CsiUsage
from podtui.kubelet.volumes.documents import Documents
from podtui.kubelet.volumes.tokens import PodTokens
from podtui.kubelet.volumes.volume_manager import VolumeManager
from podtui.manifest.folder_state import Folder
from podtui.manifest.objects import DocumentKind
from podtui.runtime.protocol import ContainerState, Runtime
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
LAST_WRITES_SECONDS: Final = 1.0
NOT_LOCAL: Final = (
    "The CPU and memory managers are disabled: the engine runs on another machine, whose CPU "
    "topology is unknown"
)


class Kubelet:
    """Runs the pods of a folder and those of the API on a runtime, and reports their statuses.

    ``ports`` connect it to the API; ``records`` hold its own data: manifests and timelines.
    ``folders`` yields the complete folder, at first and after each change. Cancelling `run` ends
    the supervision and leaves the containers running; a later kubelet adopts them. ``host`` is the
    machine to observe if the engine is local. ``probe_handlers`` run the probes, `Handlers` by
    default. ``jitter`` returns numbers in [0, 1), which lengthen every retry by up to a half.
    ``usage`` stores the history of usage on disk. ``parts`` are those of the whole agent.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        ports: Ports,
        records: Records,
        folders: AsyncIterator[Folder] | FolderProvider,
        clock: Clock,
        config: KubeletConfig,
        probe_handlers: ProbeHandlers | None = None,
        host: Host | None = None,
        jitter: Callable[[], float] = random.random,
        usage: UsageRecords | None = None,
        parts: Parts | None = None,
    ) -> None:
        runtime = measured(runtime)
        self._parts = parts = parts or Parts(clock)
        self._clock = clock
        self._config = config
        self._host = host = host or (None if config.simulated else LocalHost())
        documents = Documents(ports.documents)
        self._claims = Claims(ports.claims, clock)

        self._events = EventRecorder(ports.events, clock, config.node_name)
        self._timelines = Timelines(records, clock)
        self._link = EngineLink(runtime, clock, config)
        self._cache = PodCache()
        self._pleg = Pleg(
            runtime,
            self._cache,
            self._link,
            clock,
            config,
            on_change=self._on_observed,
            is_busy=lambda uid: self._workers.busy(uid),
        )
        engine = Engine(runtime=runtime, link=self._link, pleg=self._pleg, cache=self._cache)
        self._node = NodeManager(
            runtime=runtime,
            nodes=ports.node,
            events=self._events,
            link=self._link,
            clock=clock,
            config=config,
            host=host,
            stalled=self._pleg.problem,
            problem=parts.problem,
            on_resources=self._on_resources_changed,
            devices=lambda: self._managers.devices.resources(),
            reset_devices=lambda: self._managers.without_checkpoint,
            volumes_in_use=lambda: () if self._csi is None else self._csi.in_use(),
        )
        self._statuses = StatusManager(
            ports.pods, clock, config.node_name, lambda: self._node.uid, self._may_run
        )
        pod_records = PodRecords(
            statuses=self._statuses, events=self._events, timelines=self._timelines
        )

        self._manager = PodManager()
        ephemerals = Ephemerals(self._statuses.seed, strict=config.strict)
        self._allocations = Allocations(config.root_dir, clock)
        self._managers = ResourceManagers(
            runtime=runtime,
            clock=clock,
            config=config,
            containers=self._running_containers,
            topology=read_machine_topology if host is None else host.topology,
            on_change=self._show_cpus,
            on_capacity=self._node.devices_changed,
            on_health=self._wake_all,
        )
        self._admissions = Admissions(
            find=self._manager.get,
            kill=lambda uid, decorate: self._workers.kill(uid, decorate=decorate),
            statuses=self._statuses,
            events=self._events,
            node=self._node,
            allocations=self._allocations,
            managers=self._managers,
            clock=clock,
            config=config,
        )
        self._resizes = Resizes(
            allocations=self._allocations,
            admission=self._admissions,
            find=self._manager.get,
            wake=self.wake,
            events=self._events,
            clock=clock,
        )
        resources = PodResources(
            allocations=self._allocations,
            resizes=self._resizes,
            actuator=ResizeActuator(runtime, self._allocations, self._managers, config),
        )

        addresses = PodAddresses(self._cache.get, lambda: self._link.info)
        self._probes = Prober(
            handlers=probe_handlers or Handlers(runtime, addresses, simulated=config.simulated),
            observe=self._cache.get,
            recorded=self._statuses.seed,
            on_result=self._on_probe,
            events=self._events,
            clock=clock,
            jitter=jitter,
        )
        hooks = HookRunner(
            runtime=runtime,
            addresses=addresses,
            events=self._events,
            clock=clock,
            simulated=config.simulated,
        )
        self._pulled = PulledImages(config.root_dir)
        self.images = ImageWork(
            runtime,
            pods=self._cache,
            pulled=self._pulled,
            clock=clock,
            strict=config.strict,
            on_change=self._node.images_changed,
        )
        images = ImageManager(
            runtime,
            self._events,
            clock,
            config,
            documents=documents,
            pulled=self._pulled,
            timelines=self._timelines,
            on_progress=self._on_pull_progress,
        )
        killer = Killer(
            runtime, self._events, hooks, clock, self._statuses.record_kill, ports.network
        )
        starter = ContainerStarter(
            runtime=runtime,
            images=images,
            killer=killer,
            events=self._events,
            hooks=hooks,
            documents=documents,
            services=ports.services,
            network=ports.network,
            managers=self._managers,
            timelines=self._timelines,
            clock=clock,
            config=config,
        )
        logs = LogFiles(config.root_dir, local=self._engine_is_here)
        self._csi_drivers: CsiDrivers | None = None
        self._csi: CsiMounter | None = None
        self._csi_expander: CsiExpander | None = None
        if config.plugin_dir and ports.storage is not None and ports.claims is not None:
            self._csi_drivers = CsiDrivers(ports.node, ports.storage, clock)
            self._csi_expander = CsiExpander(ports.claims, self._events, clock)
            self._csi = CsiMounter(
                root=Path(config.plugin_dir),
                node_name=config.node_name,
                drivers=self._csi_drivers,
                storage=ports.storage,
                documents=ports.documents,
                tokens=ports.tokens,
                expander=self._csi_expander,
                clock=clock,
                unusable=self._mounts_problem,
                on_use=self._node.refresh_soon,
                is_reported=self._node.reports_in_use,
            )
        self._volumes = volumes = VolumeManager(
            runtime,
            documents,
            PodTokens(ports.tokens, clock, jitter),
            self._events,
            clock,
            strict=config.strict,
            csi=self._csi,
        )
        self._csi_usage: CsiUsage | None = None
        if self._csi is not None:
            self._csi_usage = CsiUsage(volumes.csi_mounts, self._csi.stats, clock, jitter)
        self._resolvers = Resolvers(
            config,
            self._events,
            lambda: self._node.host_ips,
            services=ports.network is not None,
        )
        self._reporter = StatusReporter(
            cache=self._cache,
            records=pod_records,
            resources=resources,
            reasons=starter.reasons,
            probes=self._probes,
            node=self._node,
            managers=self._managers,
            clock=clock,
        )
        self._syncer = Syncer(
            engine=engine,
            records=pod_records,
            resources=resources,
            parts=PodParts(
                sandboxes=SandboxMaker(
                    runtime=runtime,
                    resolvers=self._resolvers,
                    runtime_classes=ports.runtime_classes,
                    volumes=volumes,
                    events=self._events,
                    pleg=self._pleg,
                    config=config,
                ),
                claims=self._claims,
                volumes=volumes,
                images=images,
                image_volumes=ImageVolumes(runtime, images),
                starter=starter,
                killer=killer,
                logs=logs,
                probes=self._probes,
                network=ports.network,
            ),
            reporter=self._reporter,
            node=self._node,
            clock=clock,
            config=config,
        )
        self._workers = PodWorkers(
            syncer=self._syncer,
            reporter=self._reporter,
            engine=engine,
            clock=clock,
            config=config,
            jitter=jitter,
            on_restart=self._on_restart,
            on_stopped=self._on_stopped,
        )
        self._housekeeping = Housekeeping(
            engine=engine,
            manager=self._manager,
            workers=self._workers,
            events=self._events,
            logs=logs,
            forget_backoffs=starter.collect,
            config=config,
        )
        self._sources = PodSources(
            folders,
            records,
            client=ports.pods,
            documents=documents,
            clock=clock,
            on_mirror=self._statuses.mirror_changed,
            events=self._events,
        )
        self._documents = ports.documents
        self._claim_source = ports.claims
        self._tokens = ports.tokens
        pods = PodControl(
            manager=self._manager,
            ephemerals=ephemerals,
            admissions=self._admissions,
            workers=self._workers,
        )
        self._loop = SyncLoop(
            sources=self._sources,
            pods=pods,
            resources=resources,
            records=pod_records,
            housekeeping=self._housekeeping,
            link=self._link,
            clock=clock,
            config=config,
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
        self._metrics = Metrics(
            runtime,
            self._cache,
            self._link,
            clock,
            config.node_name,
            table=usage,
            volumes=lambda uid: () if self._csi_usage is None else self._csi_usage.of(uid),
        )
        self._care: NodeCare | None = None
        if host is not None:
            self._care = NodeCare(
                host=host,
                engine=engine,
                node=self._node,
                events=self._events,
                clock=clock,
                config=config,
                pulled=self._pulled,
                pods=self._running_pods,
                container_usage=lambda identity: self._metrics.sizes.of(identity).total,
                kill=lambda uid, grace, decorate: self._workers.kill(
                    uid, grace=grace, decorate=decorate
                ),
                collect=self._collect_dead,
            )
        self.insights = Insights(
            find=self._manager.by_name,
            probes=self._probes,
            metrics=self._metrics,
            timelines=self._timelines,
            clock=clock,
        )
        self.endpoints = Endpoints(
            engine=engine,
            statuses=self._statuses,
            metrics=self._metrics,
            probes=self._probes,
            managers=self._managers,
            node_name=config.node_name,
            pods=pods,
            syncer=self._syncer,
            loop=self._loop,
            parts=parts,
        )

    # --- life

    async def run(self) -> None:
        """Supervise until cancelled."""
        self._loop.mark_alive()
        await self._statuses.load()
        await self._timelines.load()
        await self._allocations.load()
        await self._pulled.load()
        await self._managers.load()
        self._events.node(NORMAL, "Starting", "Starting kubelet.")
        await self._node.register()
        self._show_cpus()
        try:
            await self._supervise()
        finally:
            # Allow a moment to write the last decisions.
            for recorder in (self._statuses, self._events, self._allocations, self._timelines):
                try:
                    async with asyncio.timeout(LAST_WRITES_SECONDS):
                        await recorder.drain()
                except TimeoutError:
                    _LOG.warning("the last records are not written: the API does not answer")
                except Exception:  # noqa: BLE001 - the others still write; it is logged
                    _LOG.exception("cannot write the last records")

    async def _supervise(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._workers.open(group)

            async def link() -> None:
                await self._link.run(self._load_engine_state, self._node.refresh_soon)

            tasks: dict[str, Callable[[], Awaitable[object]]] = {
                "event records": self._events.run,
                "pod records": self._statuses.run,
                "engine link": link,
                "relists": self._pleg.run_relists,
                "engine events": self._pleg.run_events,
                "refreshes": self._pleg.run_refreshes,
                "node status": self._node.run,
                "node images": self._node.run_images,
                "engine information": self._node.run_engine_info,
                "probes": self._probes.run,
                "node": self._node.watch,
                "node lease": self._node.renew_lease,
                "folder": self._sources.folder.run,
                "pods of the API": self._sources.api.run,
                "config maps": partial(self._follow_documents, "ConfigMap"),
                "secrets": partial(self._follow_documents, "Secret"),
                "claims": self._follow_claims,
                "allocations": self._allocations.run,
                "resizes": self._resizes.run,
                "resource managers": self._managers.run,
                "timelines": self._timelines.run,
                "usage": self._metrics.run,
                "sync loop": self._loop.run,
                "housekeeping": self._loop.run_housekeeping,
                **({} if self._care is None else self._care.tasks()),
            }
            if self._config.plugin_dir:
                tasks["device plugins"] = self._run_plugins
            if self._csi_drivers is not None and self._csi is not None:
                tasks["CSI drivers"] = self._csi_drivers.run
                tasks["CSI volumes"] = partial(self._collect_csi_volumes, self._csi)
            if self._csi_usage is not None:
                tasks["CSI usage"] = self._csi_usage.run
            if self._csi_expander is not None and self._csi is not None:
                mounts, expand = self._volumes.csi_mounts, self._csi.expand
                tasks["CSI expansions"] = partial(self._csi_expander.run, mounts, expand)
            if self._tokens is not None:
                tasks["service accounts"] = partial(self._follow_accounts, self._tokens)
            for name, task in tasks.items():
                group.create_task(self._parts.keep_running(name, task), name=name)

    async def _run_plugins(self) -> None:
        """Serve plugins. Their devices and mounts are those of this machine, so that an engine on
        another one cannot use them."""
        await self._link.wait_ready()
        if not (self._engine_is_here() or self._config.simulated):
            _LOG.info("device plugins are not served: the engine runs on another machine")
            await asyncio.Event().wait()
        directory = Path(self._config.plugin_dir)
        others = {} if self._csi_drivers is None else {CSI_PLUGIN_TYPE: self._csi_drivers}
        await DevicePlugins(directory, self._managers.devices, self._clock, others).run()

    def _mounts_problem(self) -> str:
        """Return why the engine cannot see mounts of this machine; empty if it can."""
        info = self._link.info
        if self._config.simulated or info is None:
            return ""
        if not info.local:
            return "CSI volumes need an engine on this machine: the engine runs on another one"
        if info.rootless:
            return (
                "CSI volumes need an engine that sees the mounts of this machine: the engine is"
                " rootless"
            )
        return ""

    async def _collect_csi_volumes(self, csi: CsiMounter) -> None:
        """Unmount the volumes of pods that have ended, forever."""

        def is_used(uid: str) -> bool:
            state = self._workers.state(uid)
            if state is None:
                return uid in self._manager
            return state is not WorkerState.FINISHED

        await csi.load()
        while True:
            await self._clock.sleep(COLLECT_PERIOD)
            await self._link.wait_ready()
            if self._sources.ready:
                await csi.collect(is_used)

    async def _follow_documents(self, kind: DocumentKind) -> None:
        """Wake the pods that refer to a document that changes."""
        async for key in self._documents.changes(kind):
            self._loop.wake_readers(frozenset({key}))

    async def _follow_claims(self) -> None:
        """Wake the pods that use a claim which changes."""
        if self._claim_source is not None:
            async for key in self._claim_source.changes():
                self._loop.wake_users(key)
                if self._csi_expander is not None:
                    self._csi_expander.check_soon()

    async def _follow_accounts(self, tokens: ServiceAccountTokens) -> None:
        """Wake the pods with tokens of a service account that changes."""
        async for namespace, name in tokens.changes():
            self._loop.wake_account(namespace, name)

    async def _load_engine_state(self) -> None:
        """Read the connected engine's properties and containers, before anything is done."""
        await self._node.update_engine_info()
        if self._link.info is not None:
            await self._resolvers.check(self._link.info)
            if not (self._link.info.local or self._config.simulated) and self._managers.disable():
                self._events.node(WARNING, "ResourceManagersDisabled", NOT_LOCAL)
        await self._pleg.relist()

    @property
    def ends_pods(self) -> bool:
        """True if pods get time to end when the machine shuts down."""
        return self._shutdown.enabled

    async def shut_down(self) -> bool:
        """End the pods by priority before the machine shuts down (kubelet.md §14.7).

        Return False if the settings give them no time; then no pod is ended.
        """
        if not self._shutdown.enabled:
            return False
        await self._shutdown.run(self._workers)
        return True

    def _running_pods(self) -> list[Pod]:
        state = self._workers.state
        return [pod for pod in self._manager if state(pod.metadata.uid) is WorkerState.SYNC]

    def _show_cpus(self) -> None:
        def name(uid: str) -> str:
            pod = self._manager.get(uid)
            return uid if pod is None else f"{pod.metadata.namespace}/{pod.metadata.name}"

        self._node.set_cpus(self._managers.cpu_map(name))

    def _running_containers(self) -> list[RunningContainer]:
        return [
            RunningContainer(pod.metadata.uid, container.name, container.id)
            for pod in self._manager
            if (observed := self._cache.get(pod.metadata.uid)) is not None
            for container in observed.containers
            if container.state is ContainerState.RUNNING
        ]

    async def _collect_dead(self) -> None:
        await self._housekeeping.collect(ended=True)
        # Removed containers no longer use their images.
        await self._pleg.relist()

    def _wake_all(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._workers.wake(uid)

    def wake(self, uid: str) -> None:
        """Run a pass for a pod after a change outside the runtime, such as a probe result."""
        self._workers.wake(uid)

    async def what_if(self, pod: Pod) -> WhatIf:
        """Return how this node would admit a pod that has no manifest yet."""
        listeners: tuple[Listener, ...] = ()
        if self._host is not None and self._engine_is_here() and host_ports(pod):
            listeners = await asyncio.to_thread(self._host.listeners)
        return self._admissions.what_if(pod, listeners)

    # --- callbacks of the other loops

    def _on_observed(self, uid: str) -> None:
        workers = self._workers
        workers.wake(uid)
        pod = self._manager.get(uid)
        if (
            pod is not None
            and not self._config.strict
            and workers.busy(uid)
            and workers.state(uid) is WorkerState.SYNC
            and any(
                container.state is not ContainerState.CREATED
                for container in self._reporter.observed(pod).containers
            )
        ):
            # The pass may wait for another container's image; show the running ones meanwhile.
            # That a container is created is not worth a status: it starts next.
            self._reporter.publish(pod)

    def _may_run(self, uid: str) -> bool:
        """Return whether containers of the pod may still run."""
        return self._workers.state(uid) in (WorkerState.SYNC, WorkerState.TERMINATING)

    def _engine_is_here(self) -> bool:
        return self._link.info is not None and self._link.info.local

    def _on_probe(self, uid: str, container_id: str, kind: ProbeKind, result: ProbeResult) -> None:
        pod = self._manager.get(uid)
        if pod is not None and kind is ProbeKind.READINESS:
            # Show it at once, even if the pod's worker is busy.
            self._reporter.show_readiness(pod, container_id, ready=result is ProbeResult.SUCCESS)
        self._on_observed(uid)

    def _on_pull_progress(self, uid: str, text: str | None) -> None:
        self._statuses.annotate(uid, PULL_PROGRESS, text)
        if text is None:
            self._node.images_changed()

    def _on_restart(self, pod: Pod) -> None:
        self._syncer.forget_run(pod.metadata.uid)
        self._allocations.allocate(pod)
        self._admissions.readmit(pod)
        self._statuses.claim(pod)

    def _on_stopped(self, uid: str) -> None:
        self._admissions.mark_stopped(uid)
        self._on_resources_changed()

    def _on_resources_changed(self) -> None:
        self._admissions.review()
        self._resizes.retry_soon()
