"""End the pods that no kubelet ends, as the pod garbage collector of a cluster does.

The agent's node gets another name with the setting ``nodeName``. The node of the earlier name is
removed at the next start: no kubelet runs its pods. The pods of any other absent node end after a
quarantine, in which the node may appear; a pod that a client deletes ends at once. So do deleted
pods without a node, and deleted pods of a node that is out of service. Of pods that have ended,
12,500 are kept.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from podtui.agent.node_health import is_ready
from podtui.api.names import STATIC_POD_PATH
from podtui.api.times import rfc3339
from podtui.api.v1 import Node, Pod, PodCondition
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.manifest.strategies.pods import PODS
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.deletion import delete_record
from podtui.server.resources.pod_routes import with_condition
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource
from podtui.text.terminal_text import plural

_LOG = logging.getLogger(__name__)
_LEASES: Final = "kube-node-lease"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
QUARANTINE_SECONDS: Final = 40.0
"""A node must be absent for this time before its pods are deleted, as in a cluster."""
PASS_SECONDS: Final = 20.0
ENDED_PODS: Final = 12_500
"""The ended pods that are kept."""
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_NODE_GONE: Final = PodCondition(
    type="DisruptionTarget",
    status="True",
    reason="DeletionByPodGC",
    message="PodGC: node no longer exists",
)


class PodCollector:
    """``node_name`` is the name of the agent's own node."""

    def __init__(self, records: Records, clock: Clock, node_name: str) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name
        self._absent_since: dict[str, float] = {}
        """When each absent node with pods was first seen to be absent, by name."""

    async def remove_former(self) -> None:
        """Remove the nodes that the agent of this root directory had before, with their pods."""
        for node in (await self._records.list("nodes")).items:
            name = node.metadata.name
            # Only a kubelet sets this annotation; nodes that API clients created have none.
            if name == self._node_name or STATIC_POD_PATH not in node.metadata.annotations:
                continue
            pods = [pod for pod in await self._pods() if pod.spec.nodeName == name]
            for pod in pods:
                await self._end(pod, _NODE_GONE)
            # The node goes last: if the agent is killed before, its next start finishes the rest.
            await self._records.delete("leases", _LEASES, name)
            await self._records.delete("nodes", "", name)
            _LOG.warning(
                "this node was %s and is %s now: %s and its %s are deleted",
                name,
                self._node_name,
                name,
                plural(len(pods), "pod"),
            )

    async def run(self) -> None:
        """End pods, forever."""
        await run_control_loop(
            "pod garbage collector",
            self._records,
            ("pods", "nodes"),
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, _: Resource, change: Change) -> bool:
        if isinstance(change.object, Node):
            return change.type is not WatchType.MODIFIED
        if not isinstance(change.object, Pod) or change.type is WatchType.DELETED:
            return False
        name = change.object.spec.nodeName
        return self._is_foreign(name) and await self._records.get("nodes", "", name) is None

    def _is_foreign(self, name: str) -> bool:
        """Return whether pods are bound to a node that is not the own one, which registers itself
        again when it is deleted."""
        return name not in ("", self._node_name)

    async def _pass(self) -> float:
        """End the pods that are due, and return the seconds until the next pass."""
        items = (await self._records.list("nodes")).items
        nodes = {node.metadata.name: node for node in items if isinstance(node, Node)}
        pods = await self._pods()
        orphans = [
            pod
            for pod in pods
            if self._is_foreign(pod.spec.nodeName) and pod.spec.nodeName not in nodes
        ]
        now = self._clock.monotonic()
        names = {pod.spec.nodeName for pod in orphans}
        self._absent_since = {name: self._absent_since.get(name, now) for name in names}
        due = {name: since + QUARANTINE_SECONDS for name, since in self._absent_since.items()}
        for pod in orphans:
            if pod.metadata.deletionTimestamp is not None or due[pod.spec.nodeName] <= now:
                await self._end(pod, _NODE_GONE)
        for pod in (*ended_beyond(pods, ENDED_PODS), *without_kubelet(pods, nodes)):
            await self._end(pod)
        waits = [moment - now for moment in due.values() if moment > now]
        return min([*waits, PASS_SECONDS])

    async def _pods(self) -> list[Pod]:
        items = (await self._records.list("pods")).items
        return [item for item in items if isinstance(item, Pod)]

    async def _end(self, pod: Pod, condition: PodCondition | None = None) -> None:
        """Mark a pod as failed, and delete it without a grace period."""
        now = self._clock.now()
        meta = pod.metadata

        def failed(stored: Pod) -> Pod:
            if stored.metadata.uid != meta.uid:
                raise NotFound(meta.name)
            if stored.status.phase in _ENDED:
                return stored
            if condition is not None:
                stored = with_condition(stored, condition, rfc3339(now))
            status = structs.replace(stored.status, phase="Failed")
            return structs.replace(stored, status=status)

        # The pod may be gone meanwhile.
        with contextlib.suppress(NotFound):
            ended = await self._records.update("pods", meta.namespace, meta.name, failed)
            await delete_record(self._records, "pods", PODS, ended, seconds=0, now=now)


def ended_beyond(pods: Iterable[Pod], limit: int) -> list[Pod]:
    """Return the ended pods beyond a limit: evicted ones first, then the oldest."""
    ended = [pod for pod in pods if pod.status.phase in _ENDED]
    excess = len(ended) - limit
    return sorted(ended, key=_collection_order)[:excess] if excess > 0 else []


def _collection_order(pod: Pod) -> tuple[bool, str, str]:
    meta, status = pod.metadata, pod.status
    evicted = status.phase == "Failed" and status.reason == "Evicted"
    return not evicted, meta.creationTimestamp or "", meta.name


def without_kubelet(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Return the deleted pods that no kubelet ends: those without a node, and those of a node that
    is not ready and has the taint that says that it is out of service."""
    lost = {
        name
        for name, node in nodes.items()
        if not is_ready(node) and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
    }
    return [
        pod
        for pod in pods
        if pod.metadata.deletionTimestamp is not None
        and (not pod.spec.nodeName or pod.spec.nodeName in lost)
    ]
