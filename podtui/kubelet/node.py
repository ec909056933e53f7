"""This node: its record, its conditions, and what the other loops need to know of it (reference
§14.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from podtui.api.v1 import Node, NodeStatus, ObjectMeta
from podtui.clock import Clock
from podtui.errors import EngineError, PodtuiError
from podtui.kubelet.annotations import ENGINE_LACKS, SIMULATED
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.events import NORMAL, EventRecorder
from podtui.kubelet.host import HostFacts, HostUsage, read_host_facts, read_host_usage
from podtui.kubelet.link import EngineLink
from podtui.kubelet.node_status import (
    Health,
    Machine,
    condition_events,
    node_labels,
    node_resources,
    node_status,
    same_but_heartbeat,
)
from podtui.kubelet.types import NodeResources, NodeView
from podtui.runtime.protocol import EngineInfo, ImageRecord, Runtime
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
SIMULATED_DISK: Final = 100 << 30
SIMULATED_IP: Final = "127.0.0.1"


class NodeManager:
    """Writes the node's record when something changed, and every five minutes at least.

    ``problem`` is PLEG's; ``on_resources`` is called when the node came to have more or less.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        records: Records,
        events: EventRecorder,
        link: EngineLink,
        clock: Clock,
        config: KubeletConfig,
        problem: Callable[[], str],
        on_resources: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._records = records
        self._events = events
        self._link = link
        self._clock = clock
        self._config = config
        self._problem = problem
        self._on_resources = on_resources
        self._soon = asyncio.Event()
        self._facts = HostFacts()
        self._usage = HostUsage()
        self._images: tuple[ImageRecord, ...] = ()
        self._images_stale = True
        self._known_engine: EngineInfo | None = None
        self._view = NodeView(
            name=config.node_name,
            labels=dict(config.node_labels),
            resources=NodeResources(capacity={}, allocatable={}),
            allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        )
        self._node: Node | None = None
        self._status: NodeStatus | None = None
        self._reported_at: float | None = None

    @property
    def uid(self) -> str:
        """Of the node's record; empty before `register`."""
        return "" if self._node is None else self._node.metadata.uid

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The node's addresses, primary first; none for an engine on another machine."""
        if self._config.simulated:
            return (SIMULATED_IP,)
        return self._facts.ips

    def view(self) -> NodeView:
        """What admission and configurations know of the node. Without an engine it has nothing."""
        return self._view

    def refresh_soon(self) -> None:
        """Compute the status now: something about the engine changed."""
        self._soon.set()

    def images_changed(self) -> None:
        """An image came or went."""
        self._images_stale = True

    async def learn(self) -> None:
        """Take in the engine that has just answered; a step of connecting."""
        engine = self._link.info
        if engine is None or engine == self._known_engine:
            return
        if engine.local and not self._config.simulated:
            self._facts = await asyncio.to_thread(read_host_facts)
            self._usage = await asyncio.to_thread(read_host_usage, engine.root_dir)
        self._known_engine = engine
        disk = SIMULATED_DISK if self._config.simulated else self._usage.disk_capacity
        resources = node_resources(
            engine,
            system_reserved=self._config.system_reserved,
            kube_reserved=self._config.kube_reserved,
            eviction_hard=self._config.eviction_hard,
            max_pods=self._config.max_pods,
            disk_capacity=disk,
        )
        labels = {**node_labels(self._config.node_name, engine), **self._config.node_labels}
        self._view = NodeView(
            name=self._config.node_name,
            labels=labels,
            resources=resources,
            os=engine.os or "linux",
            kernel=engine.kernel,
            apparmor=engine.apparmor,
            supplemental_groups_policy=engine.supplemental_groups_policy,
            allowed_unsafe_sysctls=self._config.allowed_unsafe_sysctls,
        )
        self._on_resources()

    async def register(self) -> None:
        """See to it that there is a record of the node, which the mirror pods belong to. What is
        on record from before stays until the engine has, or has not, answered."""
        found = await self._records.get("nodes", "", self._config.node_name)
        if isinstance(found, Node):
            self._node, self._status = found, found.status
            return
        await self._put(self._compute(()))

    async def run(self) -> None:
        """Endless."""
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
                _LOG.warning("the node's record is not written: %s", error)

    async def _update(self) -> None:
        problems = self._link.problems()
        if self._link.ready and (stalled := self._problem()):
            problems = (*problems, stalled)
        if self._link.ready and self._images_stale:
            await self._read_images()
        status = self._compute(problems)
        now = self._clock.monotonic()
        overdue = self._reported_at is None or (
            now - self._reported_at >= self._config.node_report_period
        )
        changed = self._status is None or not same_but_heartbeat(self._status, status)
        for reason, message in condition_events(self._config.node_name, self._status, status):
            self._events.node(NORMAL, reason, message)
        if changed or overdue or self._node is None or self._labels_differ(self._node):
            self._images_stale = overdue
            await self._put(status)
            self._reported_at = now

    def _labels_differ(self, node: Node) -> bool:
        return node.metadata.labels != dict(self._view.labels)

    async def _read_images(self) -> None:
        self._images_stale = False
        try:
            self._images = await self._runtime.list_images()
        except EngineError as error:
            self._images_stale = True
            self._link.suspect(error)

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
            health=Health(errors=problems),
            images=self._images,
            machine=Machine(
                machine_id=facts.machine_id,
                system_uuid=facts.system_uuid,
                boot_id=facts.boot_id,
                addresses=self.host_ips,
            ),
        )

    async def _put(self, status: NodeStatus) -> None:
        annotations: dict[str, str] = {}
        if self._config.simulated:
            annotations[SIMULATED] = "true"
        if self._known_engine is not None and self._known_engine.lacking:
            annotations[ENGINE_LACKS] = "; ".join(self._known_engine.lacking)
        meta = ObjectMeta(
            name=self._config.node_name,
            uid=self.uid,
            labels=dict(self._view.labels),
            annotations=annotations,
        )
        node = Node(apiVersion="v1", kind="Node", metadata=meta, status=status)
        self._node = await self._records.put("nodes", node)
        self._status = status
