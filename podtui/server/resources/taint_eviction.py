"""Delete the pods that do not tolerate the NoExecute taints of their node, like the taint eviction
controller of Kubernetes.

Static pods tolerate all of these taints, as the kubelet ensures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.objects import Object
from podtui.api.selectors import tolerates
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    Node,
    Pod,
    PodCondition,
    Taint,
    Toleration,
)
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.manifest.strategies.pods import PODS
from podtui.server.resources.component_events import ComponentEvents
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.deletion import delete_record
from podtui.server.resources.pod_routes import with_condition
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource

COMPONENT: Final = "taint-eviction-controller"
_REASON: Final = "TaintManagerEviction"
_CONDITION: Final = PodCondition(
    type="DisruptionTarget",
    status="True",
    reason="DeletionByTaintManager",
    message="Taint manager: deleting due to NoExecute taint",
)


@dataclass(frozen=True, slots=True)
class _Eviction:
    """A pod that is deleted at a time of the monotonic clock."""

    pod: Pod
    due: float


class TaintEviction:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._scheduled: dict[str, _Eviction] = {}
        """By the UID of the pod."""
        self._evicted: set[str] = set()
        """The UIDs of pods that were deleted and are still there."""
        self._tainted = False
        """Some node has a NoExecute taint."""
        self._events = ComponentEvents(records, clock, COMPONENT)

    async def run(self) -> None:
        """Evict pods when taints or tolerations change, and when a toleration ends. Runs
        forever."""
        await run_control_loop(
            "taint eviction",
            self._records,
            ("nodes", "pods"),
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, resource: Resource, change: Change) -> bool:
        if resource == "nodes":
            return no_execute_taints(change.object) != no_execute_taints(change.previous)
        if not self._tainted:
            return False
        if change.type is not WatchType.MODIFIED:
            return True
        return _relevant(change.object) != _relevant(change.previous)

    async def _pass(self) -> float | None:
        """Schedule, cancel and carry out evictions. Return the seconds until the next one."""
        taints = {
            node.metadata.name: no_execute
            for node in (await self._records.list("nodes")).items
            if (no_execute := no_execute_taints(node))
        }
        self._tainted = bool(taints)
        if not taints and not self._scheduled:
            self._evicted.clear()
            return None
        pods = {
            pod.metadata.uid: pod
            for pod in (await self._records.list("pods")).items
            if isinstance(pod, Pod) and pod.spec.nodeName in taints
        }
        self._evicted &= pods.keys()
        now = self._clock.monotonic()
        stays = {
            uid: toleration_seconds(pod.spec.tolerations, taints[pod.spec.nodeName])
            for uid, pod in pods.items()
        }
        for uid in [uid for uid in self._scheduled if not stays.get(uid)]:
            await self._event(self._scheduled.pop(uid).pod, "Cancelling deletion of Pod")
        for uid, seconds in stays.items():
            if seconds is None:
                self._evicted.discard(uid)
            elif uid not in self._evicted and uid not in self._scheduled:
                self._scheduled[uid] = _Eviction(pods[uid], now + seconds)
        for uid, eviction in list(self._scheduled.items()):
            if eviction.due <= now:
                # It stays scheduled if it fails, and the loop is restarted.
                await self._evict(eviction.pod)
                del self._scheduled[uid]
                self._evicted.add(uid)
        left = [eviction.due - now for eviction in self._scheduled.values()]
        return min(left, default=None)

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        await self._event(pod, "Marking for deletion Pod")
        now = self._clock.now()

        def check(stored: Object) -> None:
            if stored.metadata.uid != meta.uid:
                raise NotFound(meta.name)

        def marked(stored: Pod) -> Pod:
            check(stored)
            return with_condition(stored, _CONDITION, rfc3339(now))

        with contextlib.suppress(NotFound):
            stored = await self._records.update("pods", meta.namespace, meta.name, marked)
            await delete_record(
                self._records, "pods", PODS, stored, seconds=None, now=now, check=check
            )

    async def _event(self, pod: Pod, action: str) -> None:
        meta = pod.metadata
        await self._events.record(pod, _REASON, f"{action} {meta.namespace}/{meta.name}")


def no_execute_taints(node: Object | None) -> tuple[Taint, ...]:
    if not isinstance(node, Node):
        return ()
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")


def toleration_seconds(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> float | None:
    """Return how long a pod may stay on a node with these taints: None for ever, 0 if it does not
    tolerate one of them. For each taint, the first toleration counts."""
    tolerations = tuple(tolerations)
    seconds: list[int] = []
    for taint in taints:
        first = next((item for item in tolerations if tolerates((item,), taint)), None)
        if first is None:
            return 0
        if first.tolerationSeconds is not None:
            seconds.append(max(first.tolerationSeconds, 0))
    return min(seconds, default=None)


def _relevant(pod: Object | None) -> tuple[object, ...]:
    """Return the parts of a pod that decide about its eviction."""
    return (pod.spec.nodeName, pod.spec.tolerations) if isinstance(pod, Pod) else ()
