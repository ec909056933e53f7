"""This node: its record and conditions, and the view of it that the other loops use (kubelet.md
§14.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.cpus import CPUS, CpuMap, encode_cpu_map
from podtui.api.names import (
    ENGINE_LACKS,
    KUBELET_NOT_READY,
    SIMULATED,
    STATIC_POD_PATH,
    WOULD_EVICT,
)
from podtui.api.v1 import Node, NodeSpec, NodeStatus, ObjectMeta, Taint
from podtui.clock import Clock
from podtui.errors import EngineError, NotFound, PodtuiError
from podtui.kubelet.config import STOP_SIGNALS, KubeletConfig
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder
from podtui.kubelet.node.host import Host, HostFacts
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.node.node_status import (
    Machine,
    NodeHealth,
    condition_events,
    node_labels,
    node_resources,
    node_status,
    reboot_event,
    same_but_heartbeat,
    with_conditions_of,
    with_extended,
)
from podtui.kubelet.ports import NodeClient
from podtui.kubelet.types import NodeContext, NodeResources, NodeView
from podtui.runtime.protocol import EngineInfo, ImageRecord, Runtime

_LOG = logging.getLogger(__name__)
SIMULATED_DISK: Final = 100 << 30
SIMULATED_IP: Final = "127.0.0.1"
LEASE_SECONDS: Final = 40
LEASE_PERIOD: Final = 10.0
_DECLARED: Final = ("RestartAllContainersOnContainerExits",)
"""The features that a pod may require of its node: a scheduler binds it elsewhere without them."""
SHUTTING_DOWN: Final = "node is shutting down"
_OWN: Final = frozenset({CPUS, ENGINE_LACKS, SIMULATED, STATIC_POD_PATH, WOULD_EVICT})
"""The annotations that only this kubelet sets."""
CONTROLLER_ATTACHES: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
"""The controller that attaches volumes passes over a node without this annotation."""
UNWATCHED: Final = (
    "pressure: the engine is on another machine, whose memory, disk and processes are not observed"
)


class NodeManager:
    """Writes the node's record when it changed, and at least once per report period (five minutes
    by default). Labels, annotations, taints and everything else that API clients set are kept.

    ``stalled`` returns the problem of the PLEG, and ``problem`` those of the agent's parts, if any.
    Both keep the node from being ready. ``on_resources`` is called when the node's resources may
    have changed. ``host`` is None if no machine may be inspected. ``devices`` returns the extended
    resources of device plugins, and ``reset_devices`` whether recorded ones are those of an earlier
    machine. ``volumes_in_use`` returns the names of volumes that must stay attached.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        nodes: NodeClient,
        events: EventRecorder,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
        host: Host | None,
        stalled: Callable[[], str],
        problem: Callable[[], str],
        on_resources: Callable[[], None],
        devices: Callable[[], NodeResources] = NodeResources,
        reset_devices: Callable[[], bool] = lambda: False,
        volumes_in_use: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._volumes_in_use = volumes_in_use
        self._runtime = runtime
        self._nodes = nodes
        self._events = events
        self._link = link
        self._clock = clock
        self._config = config
        self._host = host
        self._stalled = stalled
        self._problem = problem
        self._on_resources = on_resources
        self._devices = devices
        self._reset_devices = reset_devices
        self._resources = NodeResources()
        self._written = False
        self._soon = asyncio.Event()
        self._facts = HostFacts()
        self._disk_capacity = SIMULATED_DISK if config.simulated else 0
        self._would_evict = ""
        self._cpus = ""
        self._images: tuple[ImageRecord, ...] = ()
        self._images_due = asyncio.Event()
        self._images_due.set()
        self._known_engine: EngineInfo | None = None
        self._view = NodeView(
            name=config.node_name,
            labels=dict(config.node_labels),
            resources=NodeResources(),
            allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        )
        self._labels = dict(config.node_labels)
        self._node: Node | None = None
        self._status: NodeStatus | None = None
        self._reported_at: float | None = None

    @property
    def uid(self) -> str:
        """The UID of the node's record; empty before `register`."""
        return "" if self._node is None else self._node.metadata.uid

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The node's addresses, primary first; empty for an engine on another machine."""
        if self._config.simulated:
            return (SIMULATED_IP,)
        return self._facts.ips

    def view(self) -> NodeView:
        """Return the view of the node for admission and pod configuration. Before the engine has
        answered, the node has no resources."""
        return self._view

    def context(self) -> NodeContext:
        """Return what the containers and statuses of pods depend on."""
        engine = self._link.info
        return NodeContext(
            host_ips=self.host_ips,
            runtime_name="docker" if engine is None else engine.name,
            recursive_read_only=engine is not None and engine.recursive_read_only,
            seccomp_default=self._config.seccomp_default,
            stop_signals=self._config.gate(STOP_SIGNALS),
            strict=self._config.strict,
        )

    def refresh_soon(self) -> None:
        """Trigger a status update, because the engine's state changed."""
        self._soon.set()

    def reports_in_use(self, volume: str) -> bool:
        """Return whether the stored status of the node says that a volume is in use."""
        return self._node is not None and volume in self._node.status.volumesInUse

    def images_changed(self) -> None:
        """Trigger an update of the image list."""
        self._images_due.set()

    def set_pressure(self, conditions: tuple[str, ...]) -> None:
        """Set the pressure conditions that hold (condition types); all others are cleared."""
        if conditions != self._view.conditions:
            self._view = replace(self._view, conditions=conditions)
            self.refresh_soon()

    def set_would_evict(self, pod: str) -> None:
        """Set the pod that would be evicted first (``namespace/name``); empty for none."""
        if pod != self._would_evict:
            self._would_evict = pod
            self.refresh_soon()

    def set_cpus(self, cpus: CpuMap | None) -> None:
        """Set the map of the CPUs; None without a CPU manager."""
        text = "" if cpus is None else encode_cpu_map(cpus)
        if text != self._cpus:
            self._cpus = text
            self.refresh_soon()

    def begin_shutdown(self) -> None:
        """Mark the node as shutting down: it is not ready and admits no pods."""
        self._view = replace(self._view, shutting_down=True)
        self.refresh_soon()

    async def update_engine_info(self) -> None:
        """Store the information of the connected engine. This is a step of connecting."""
        engine = self._link.info
        if engine is None or engine == self._known_engine:
            return
        if engine.local and self._host is not None:
            self._facts = await asyncio.to_thread(self._host.facts)
            disk = await asyncio.to_thread(self._host.disk, engine.root_dir)
            disk = disk or await asyncio.to_thread(self._host.disk, "/")
            self._disk_capacity = 0 if disk is None else disk.capacity
        elif not self._config.simulated:
            _LOG.info("%s", UNWATCHED)
        self._known_engine = engine
        resources = node_resources(
            engine,
            system_reserved=self._config.system_reserved,
            kube_reserved=self._config.kube_reserved,
            eviction_hard=self._hard_thresholds(),
            max_pods=self._config.max_pods,
            disk_capacity=self._disk_capacity,
            hugepages=self._facts.huge_pages,
        )
        if resources != self._resources:
            text = "Updated Node Allocatable limit across pods"
            self._events.node(NORMAL, "NodeAllocatableEnforced", text)
        self._resources = resources
        self._view = replace(
            self._view,
            os=engine.os or "linux",
            kernel="" if self._config.simulated else engine.kernel,
            apparmor=engine.apparmor,
            supplemental_groups_policy=engine.supplemental_groups_policy,
        )
        self._labels = {**node_labels(self._config.node_name, engine), **self._config.node_labels}
        self._publish_to_admission(self._node)
        self._publish_resources()

    def devices_changed(self) -> None:
        """Take over the extended resources of device plugins."""
        self._publish_resources()
        self.refresh_soon()

    def _publish_resources(self) -> None:
        """Update the resources that admission reads."""
        status = self._status if self._node is None else self._node.status
        reset = not self._written and self._reset_devices()
        resources = with_extended(self._resources, self._devices(), status, reset=reset)
        if resources != self._view.resources:
            self._view = replace(self._view, resources=resources)
            self._on_resources()

    def _publish_to_admission(self, node: Node | None) -> None:
        """Update the labels and taints that admission reads."""
        labels = {**({} if node is None else node.metadata.labels), **self._labels}
        taints = () if node is None else node.spec.taints
        if (labels, taints) != (self._view.labels, self._view.taints):
            self._view = replace(self._view, labels=labels, taints=taints)

    def _hard_thresholds(self) -> dict[str, str]:
        every = self._config.eviction_thresholds()
        return {threshold.signal: threshold.value for threshold in every if threshold.grace == 0}

    async def register(self) -> None:
        """Ensure that a record of the node exists; mirror pods belong to it. An existing record
        stays unchanged until the engine has answered or failed. If the API cannot be reached,
        `run` registers the node later."""
        try:
            node = await self._nodes.get()
            if node is not None:
                self._node, self._status = node, node.status
                self._publish_to_admission(node)
                return
            status = self._compute(())
            self._record_changes(status)
            await self._put(status)
        except PodtuiError as error:
            _LOG.warning("cannot register the node: %s", error)

    async def watch(self) -> None:
        """Follow the changes that API clients make to the node, forever. A deleted node is
        registered again (departure 55)."""
        async for node in self._nodes.snapshots():
            before, self._node = self._node, node
            self._publish_to_admission(node)
            if node is None:
                self.refresh_soon()
                continue
            self._publish_resources()
            was = before is not None and bool(before.spec.unschedulable)
            if was != bool(node.spec.unschedulable):
                reason = "NodeSchedulable" if was else "NodeNotSchedulable"
                text = f"Node {self._config.node_name} status is now: {reason}"
                self._events.node(NORMAL, reason, text)

    async def renew_lease(self) -> None:
        """Renew the node's lease periodically, forever."""
        while True:
            try:
                await self._nodes.renew_lease(LEASE_SECONDS)
            except PodtuiError as error:
                _LOG.warning("cannot renew the node's lease: %s", error)
            await self._clock.sleep(LEASE_PERIOD)

    def _record_changes(self, status: NodeStatus) -> None:
        """Record the events of the changes in a new status."""
        name = self._config.node_name
        if (text := reboot_event(name, self._status, status)) is not None:
            self._events.node(WARNING, "Rebooted", text)
        for reason, message in condition_events(name, self._status, status):
            self._events.node(NORMAL, reason, message)

    async def run(self) -> None:
        """Update the node's status periodically or on request. Runs forever."""
        while True:
            try:
                async with asyncio.timeout(self._config.node_status_period):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            try:
                await self._update()
            except PodtuiError as error:
                _LOG.warning("cannot write the node's record: %s", error)
            except Exception as error:
                await self._report_failure(f"{type(error).__name__}: {error}")
                raise

    async def _report_failure(self, text: str) -> None:
        """Set the condition Ready to False in the stored record, because no status is computed."""

        def unready(node: Node) -> Node:
            conditions = tuple(
                structs.replace(
                    condition,
                    status="False",
                    reason=KUBELET_NOT_READY,
                    message=f"node status failed: {text}",
                )
                if condition.type == "Ready"
                else condition
                for condition in node.status.conditions
            )
            return structs.replace(node, status=structs.replace(node.status, conditions=conditions))

        # The next status is written, even if it equals the last one.
        self._reported_at = None
        with suppress(PodtuiError):
            await self._nodes.update(unready)

    async def _update(self) -> None:
        problems = self._link.problems()
        if self._link.ready and (stalled := self._stalled()):
            problems = (*problems, stalled)
        if problem := self._problem():
            problems = (*problems, problem)
        if self._view.shutting_down:
            problems = (*problems, SHUTTING_DOWN)
        self._publish_resources()
        # Other clients may have changed the conditions: the node controller sets them to Unknown
        # while it sees no heartbeats.
        if self._status is not None and self._node is not None:
            self._status = with_conditions_of(self._status, self._node.status)
        status = self._compute(problems)
        now = self._clock.monotonic()
        overdue = self._reported_at is None or (
            now - self._reported_at >= self._config.node_report_period
        )
        changed = self._status is None or not same_but_heartbeat(self._status, status)
        self._record_changes(status)
        if changed or overdue or self._node is None or self._metadata_differs(self._node):
            if overdue:
                self._images_due.set()
            await self._put(status)
            self._reported_at = now

    def _metadata_differs(self, node: Node) -> bool:
        return self._with_metadata(node.metadata) != node.metadata

    def _with_metadata(self, meta: ObjectMeta) -> ObjectMeta:
        """Return the metadata with this kubelet's labels and annotations."""
        annotations = self._annotations()
        kept = {name: text for name, text in meta.annotations.items() if name not in _OWN}
        labels = {**meta.labels, **self._labels}
        return structs.replace(meta, labels=labels, annotations={**kept, **annotations})

    async def run_engine_info(self) -> None:
        """Read what the engine reports once per status period, because a reload of its
        configuration changes its runtimes. Runs forever; separate for the same reason as
        `run_images`.
        """
        while True:
            await self._clock.sleep(self._config.node_status_period)
            await self._link.wait_ready()
            try:
                self._link.info = await self._runtime.read_info()
            except EngineError as error:
                self._link.suspect(error)
                continue
            if self._link.info != self._known_engine:
                await self.update_engine_info()
                self.refresh_soon()

    async def run_images(self) -> None:
        """List the images after a change, at most once per status period. Runs forever.

        This is separate from the status update, because an engine that hangs must not delay that.
        """
        while True:
            await self._images_due.wait()
            await self._link.wait_ready()
            self._images_due.clear()
            try:
                images = await self._runtime.list_images()
            except EngineError as error:
                self._images_due.set()
                self._link.suspect(error)
            else:
                if images != self._images:
                    self._images = images
                    self.refresh_soon()
            await self._clock.sleep(self._config.node_status_period)

    def _compute(self, problems: tuple[str, ...]) -> NodeStatus:
        facts = self._facts
        if self._known_engine is None:
            problems = problems or self._link.problems()
        return node_status(
            name=self._config.node_name,
            engine=self._known_engine,
            resources=self._view.resources,
            now=self._clock.now(),
            previous=self._status,
            health=NodeHealth(
                pressures=self._view.conditions, errors=problems, reason=self._link.reason
            ),
            images=self._images,
            machine=Machine(
                machine_id=facts.machine_id,
                system_uuid=facts.system_uuid,
                boot_id=facts.boot_id,
                addresses=self.host_ips,
            ),
            features=tuple(name for name in _DECLARED if self._config.gate(name, True)),
            endpoint_port=self._config.endpoint_port,
            volumes_in_use=self._volumes_in_use(),
        )

    def _annotations(self) -> dict[str, str]:
        annotations = {CONTROLLER_ATTACHES: "true"}
        engine = self._known_engine
        lacking = () if engine is None else engine.lacking
        if engine is not None and not engine.local and not self._config.simulated:
            lacking = (*lacking, UNWATCHED)
        if lacking:
            annotations[ENGINE_LACKS] = "; ".join(lacking)
        if self._config.simulated:
            annotations[SIMULATED] = "true"
        if self._config.static_pod_path:
            annotations[STATIC_POD_PATH] = self._config.static_pod_path
        if self._would_evict:
            annotations[WOULD_EVICT] = self._would_evict
        if self._cpus:
            annotations[CPUS] = self._cpus
        return annotations

    async def _put(self, status: NodeStatus) -> None:
        def renewed(node: Node) -> Node:
            # The controller that attaches volumes writes them.
            attached = node.status.volumesAttached
            return structs.replace(
                node,
                metadata=self._with_metadata(node.metadata),
                status=structs.replace(status, volumesAttached=attached),
            )

        try:
            self._node = await self._nodes.update(renewed)
        except NotFound:
            if not self._config.register_node:
                raise
            meta = ObjectMeta(name=self._config.node_name, uid=self.uid)
            taints = tuple(
                Taint(key=key, value=value, effect=effect)
                for key, value, effect in self._config.register_with_taints
            )
            spec = NodeSpec(taints=taints)
            node = Node(apiVersion="v1", kind="Node", metadata=meta, spec=spec)
            self._node = await self._nodes.create(renewed(node))
        self._status = status
        self._written = True
