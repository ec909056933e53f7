"""Watch over the nodes, as the node lifecycle controller of a cluster does.

The scheduler reads the taints with the effect NoSchedule: no new pod goes to a node that is
cordoned, not ready or short of a resource. The kubelet of a node that does not renew its lease is
taken for lost: the conditions of the node become Unknown, its pods are not ready any more, and
its NoExecute taint ends them (`podtui.server.resources.taint_eviction`). The agent's own node is
never taken for lost, because its kubelet runs in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from podtui.agent.node_health import (
    NOT_READY,
    UNREACHABLE,
    Contact,
    contact,
    evicts,
    execution_taints,
    is_lost,
    is_ready,
    marked_not_ready,
    ready_condition,
    with_unknown_conditions,
)
from podtui.api.times import rfc3339
from podtui.api.v1 import Lease, Node, Pod, Taint
from podtui.clock import Clock
from podtui.errors import NotFound, StoreGone
from podtui.server.resources.component_events import WARNING, ComponentEvents
from podtui.store.protocol import Records, WatchType

_PREFIX: Final = "node.kubernetes.io/"
_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
UNSCHEDULABLE: Final = f"{_PREFIX}unschedulable"
_CONDITION_TAINTS: Final = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_EFFECT: Final = "NoSchedule"


MONITOR_SECONDS: Final = 5.0
COMPONENT: Final = "node-controller"
_LEASES: Final = "kube-node-lease"


class NodeLifecycle:
    """``node_name`` is the name of the agent's own node."""

    def __init__(self, records: Records, clock: Clock, node_name: str) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name
        self._events = ComponentEvents(records, clock, COMPONENT)
        self._contacts: dict[str, Contact] = {}
        """The last contact of each node, by UID."""
        self._nodes: dict[str, Node] = {}
        """The nodes of the last pass, by UID."""

    async def run(self) -> None:
        """Follow the nodes, forever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_conditions(), name="taints of conditions")
            group.create_task(self._monitor(), name="contact of nodes")

    # --- conditions

    async def _follow_conditions(self) -> None:
        while True:
            listing = await self._records.list("nodes")
            for item in listing.items:
                await self._update(item.metadata.name, self._tainted)
            try:
                async for change in self._records.watch("nodes", since=listing.resource_version):
                    if change.object is not None and change.type is not WatchType.DELETED:
                        await self._update(change.object.metadata.name, self._tainted)
            except StoreGone:
                continue

    async def _update(self, name: str, change: Callable[[Node], Node]) -> Node | None:
        try:
            return await self._records.update("nodes", "", name, change)
        except NotFound:
            return None

    def _tainted(self, node: Node) -> Node:
        return _with_taints(node, condition_taints(node, rfc3339(self._clock.now())))

    # --- contact

    async def _monitor(self) -> None:
        while True:
            await self._pass()
            await self._clock.sleep(MONITOR_SECONDS)

    async def _pass(self) -> None:
        items = (await self._records.list("nodes")).items
        nodes = [node for node in items if isinstance(node, Node)]
        await self._register(nodes)
        leases = {
            item.metadata.name: item
            for item in (await self._records.list("leases", _LEASES)).items
            if isinstance(item, Lease)
        }
        now, monotonic = self._clock.now(), self._clock.monotonic()
        self._contacts = {
            uid: contact(
                node, leases.get(node.metadata.name), self._contacts.get(uid), now, monotonic
            )
            for uid, node in self._nodes.items()
        }
        nodes = [await self._checked(node, monotonic) for node in nodes]
        await self._mark_pods({node.metadata.name for node in nodes if self._is_unknown(node)})
        evict = evicts(nodes)
        for node in nodes:
            if execution_taints(node, evict, now) != node.spec.taints:
                await self._update(
                    node.metadata.name,
                    lambda item: _with_taints(item, execution_taints(item, evict, now)),
                )

    async def _register(self, nodes: Iterable[Node]) -> None:
        """Record which nodes are new, and which are gone."""
        before, self._nodes = self._nodes, {node.metadata.uid: node for node in nodes}
        for uid in self._nodes.keys() - before.keys():
            name = self._nodes[uid].metadata.name
            message = f"Node {name} event: Registered Node {name} in Controller"
            await self._events.record(self._nodes[uid], "RegisteredNode", message)
        for uid in before.keys() - self._nodes.keys():
            name = before[uid].metadata.name
            message = f"Node {name} event: Removing Node {name} from Controller"
            await self._events.record(before[uid], "RemovingNode", message)

    async def _checked(self, node: Node, monotonic: float) -> Node:
        """Write the conditions of a node without contact. Return the node as it is now."""
        name, last = node.metadata.name, self._contacts[node.metadata.uid]
        if name == self._node_name or not is_lost(last, monotonic):
            return node
        now = self._clock.now()
        if with_unknown_conditions(node, now) == node:
            return node
        lost = False

        def changed(stored: Node) -> Node:
            nonlocal lost
            # A heartbeat that came meanwhile is read by the next pass.
            lost = stored.metadata.uid == node.metadata.uid and stored.status == node.status
            return with_unknown_conditions(stored, now) if lost else stored

        stored = await self._update(name, changed)
        if stored is None:
            return node
        if lost and is_ready(node):
            message = f"Node {name} status is now: NodeNotReady"
            await self._events.record(stored, "NodeNotReady", message)
        return stored

    def _is_unknown(self, node: Node) -> bool:
        ready = ready_condition(node)
        own = node.metadata.name == self._node_name
        return ready is not None and ready.status == "Unknown" and not own

    async def _mark_pods(self, lost: Collection[str]) -> None:
        """Mark the pods of nodes without contact as not ready."""
        pods = (await self._records.list("pods")).items if lost else ()
        now = self._clock.now()
        for pod in pods:
            if not isinstance(pod, Pod) or pod.spec.nodeName not in lost:
                continue
            if marked_not_ready(pod, now) == pod:
                continue
            meta = pod.metadata
            with contextlib.suppress(NotFound):
                await self._records.update(
                    "pods", meta.namespace, meta.name, lambda item: marked_not_ready(item, now)
                )
                await self._events.record(
                    pod, "NodeNotReady", "Node is not ready", event_type=WARNING
                )


def _with_taints(node: Node, taints: tuple[Taint, ...]) -> Node:
    if taints == node.spec.taints:
        return node
    return structs.replace(node, spec=structs.replace(node.spec, taints=taints))


def condition_taints(node: Node, now: str) -> tuple[Taint, ...]:
    """Return the node's taints: those of its conditions, and unchanged those that others set."""
    wanted = dict.fromkeys(_wanted(node))
    taints = node.spec.taints
    kept = [taint for taint in taints if not _is_condition_taint(taint) or taint.key in wanted]
    kept_keys = {taint.key for taint in kept if _is_condition_taint(taint)}
    new = [Taint(key=key, effect=_EFFECT, timeAdded=now) for key in wanted if key not in kept_keys]
    return (*kept, *new)


def _is_condition_taint(taint: Taint) -> bool:
    return taint.key in _CONDITION_TAINTS and taint.effect == _EFFECT


def _wanted(node: Node) -> Iterator[str]:
    for condition in node.status.conditions:
        key = _BY_CONDITION.get((condition.type, condition.status))
        if key is not None:
            yield key
    if node.spec.unschedulable:
        yield UNSCHEDULABLE
