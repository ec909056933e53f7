"""End the pods of nodes that do not exist, as the pod garbage collector of a cluster does.

The agent's node gets another name with the setting ``nodeName``. The node of the earlier name is
removed at the next start: no kubelet runs its pods. A pod of any other absent node ends as soon as
it is deleted, because no kubelet would end it.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from msgspec import structs

from podtui.api.names import STATIC_POD_PATH
from podtui.api.times import rfc3339
from podtui.api.v1 import Node, Pod, PodCondition
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.deletion import delete_record
from podtui.server.resources.pod_routes import with_condition
from podtui.server.resources.strategies.pods import PODS
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource
from podtui.terminal_text import plural

_LOG = logging.getLogger(__name__)
_LEASES: Final = "kube-node-lease"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class AbsentNodes:
    """``node_name`` is the name of the agent's own node."""

    def __init__(self, records: Records, clock: Clock, node_name: str) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name

    async def remove_former(self) -> None:
        """Remove the nodes that the agent of this root directory had before, with their pods."""
        for node in (await self._records.list("nodes")).items:
            name = node.metadata.name
            # Only a kubelet sets this annotation; nodes that API clients created have none.
            if name == self._node_name or STATIC_POD_PATH not in node.metadata.annotations:
                continue
            pods = [pod for pod in await self._pods() if pod.spec.nodeName == name]
            for pod in pods:
                await self._end(pod)
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
        """End deleted pods of nodes that do not exist. Runs forever."""
        await run_control_loop(
            "absent nodes",
            self._records,
            ("pods", "nodes"),
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, _: Resource, change: Change) -> bool:
        if isinstance(change.object, Node):
            return change.type is WatchType.DELETED
        return isinstance(change.object, Pod) and self._is_waiting(change.object)

    def _is_waiting(self, pod: Pod) -> bool:
        node = pod.spec.nodeName
        deleted = pod.metadata.deletionTimestamp is not None
        return deleted and bool(node) and node != self._node_name

    async def _pass(self) -> None:
        nodes = {node.metadata.name for node in (await self._records.list("nodes")).items}
        for pod in await self._pods():
            if self._is_waiting(pod) and pod.spec.nodeName not in nodes:
                await self._end(pod)

    async def _pods(self) -> list[Pod]:
        items = (await self._records.list("pods")).items
        return [item for item in items if isinstance(item, Pod)]

    async def _end(self, pod: Pod) -> None:
        """Mark a pod as failed, and delete it without a grace period."""
        now = self._clock.now()
        meta = pod.metadata
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="DeletionByPodGC",
            message="PodGC: node no longer exists",
        )

        def failed(stored: Pod) -> Pod:
            if stored.metadata.uid != meta.uid:
                raise NotFound(meta.name)
            if stored.status.phase in _ENDED:
                return stored
            stored = with_condition(stored, condition, rfc3339(now))
            status = structs.replace(stored.status, phase="Failed")
            return structs.replace(stored, status=status)

        # The pod may be gone meanwhile.
        with contextlib.suppress(NotFound):
            ended = await self._records.update("pods", meta.namespace, meta.name, failed)
            await delete_record(self._records, "pods", PODS, ended, seconds=0, now=now)
