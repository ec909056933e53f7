"""The scheduling loop: follow the API, try the waiting pods one by one, and bind or report them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, cast

from podtui.api.claims import reserved
from podtui.api.objects import Object
from podtui.api.storage import StorageClass
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    Binding,
    Namespace,
    Node,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from podtui.client.protocol import Changed, Lost, Removed, Synced
from podtui.clock import Clock
from podtui.errors import ApiError, PodtuiError
from podtui.scheduler.api import SchedulerApi
from podtui.scheduler.cache import ClusterCache
from podtui.scheduler.claims import ClaimPlan, binding_problem, is_plan_bound
from podtui.scheduler.cycle import ScheduleResult, schedule
from podtui.scheduler.events import SchedulerEvents
from podtui.scheduler.filters import Pending
from podtui.scheduler.hints import ClaimChange, NodeChange, PodChange
from podtui.scheduler.infos import DEFAULT_SCHEDULER, PREEMPTED, PodInfo, node_facts, pod_info
from podtui.scheduler.queue import Queued, SchedulingQueue

_LOG = logging.getLogger(__name__)
_ENDED: Final = ("Succeeded", "Failed")
_BINDINGS_AT_ONCE: Final = 16
Reason = Literal["Unschedulable", "SchedulerError"]
_VOLUMES_SECONDS: Final = 600.0
"""The longest wait until the claims of a pod are bound."""
Kind = type[Pod | Node | Namespace | PersistentVolume | PersistentVolumeClaim | StorageClass]


class Scheduler:
    """Schedules the pods of one ``schedulerName``. Use each instance once."""

    def __init__(
        self, api: SchedulerApi, clock: Clock, *, host: str, name: str = DEFAULT_SCHEDULER
    ) -> None:
        self._api = api
        self._clock = clock
        self._name = name
        self._queue = SchedulingQueue(clock.monotonic)
        self._cache = ClusterCache()
        self._events = SchedulerEvents(api, clock, name, host)
        self._waiting: dict[str, Pod] = {}
        """Our pods without a node, as the API last reported them."""
        self._unknown: set[Kind] = {
            Pod,
            Node,
            Namespace,
            PersistentVolume,
            PersistentVolumeClaim,
            StorageClass,
        }
        """The kinds that have not been listed yet."""
        self._storage_changed = asyncio.Event()
        """Set and replaced when a claim or volume changes, or a pod goes."""
        self._wake = asyncio.Event()
        self._bindings = asyncio.Semaphore(_BINDINGS_AT_ONCE)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="scheduler events")
            group.create_task(self._follow(Pod, self._set_pod, self._remove_pod, self._all_pods))
            group.create_task(
                self._follow(Node, self._set_node, self._remove_node, self._all_nodes)
            )
            group.create_task(self._follow_namespaces())
            cache = self._cache
            group.create_task(
                self._follow_storage(
                    PersistentVolumeClaim,
                    cache.set_claim,
                    cache.remove_claim,
                    cache.replace_claims,
                )
            )
            group.create_task(
                self._follow_storage(
                    PersistentVolume,
                    cache.set_volume,
                    cache.remove_volume,
                    cache.replace_volumes,
                )
            )
            group.create_task(
                self._follow_storage(
                    StorageClass, cache.set_class, cache.remove_class, cache.replace_classes
                )
            )
            while True:
                # Until everything is listed, a node may seem free that is not.
                queued = None if self._unknown else self._queue.pop()
                if queued is None:
                    await self._wait_for_change()
                else:
                    await self._attempt(queued, group)

    async def _wait_for_change(self) -> None:
        deadline = None if self._unknown else self._queue.deadline()
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    # --- what the API reports

    async def _follow(
        self,
        kind: type[Any],
        put: Callable[[Any], None],
        remove: Callable[[Any], None],
        replace_all: Callable[[Iterable[Any]], None],
    ) -> None:
        async for delta in self._api.follow(kind):
            match delta:
                case Synced(items):
                    replace_all(items)
                    self._unknown.discard(kind)
                case Changed(items):
                    for item in items:
                        put(item)
                case Removed(items):
                    for item in items:
                        remove(item)
                case Lost(reason):
                    _LOG.warning("the scheduler has lost the API: %s", reason)
            self._wake.set()

    async def _follow_namespaces(self) -> None:
        """Keep the labels of the namespaces. If the server has no namespaces, there are none."""
        labels: dict[str, Mapping[str, str]] = {}
        async for delta in self._api.follow(Namespace):
            match delta:
                case Synced(items):
                    labels = {item.metadata.name: item.metadata.labels for item in items}
                case Changed(items):
                    labels |= {item.metadata.name: item.metadata.labels for item in items}
                case Removed(items):
                    for item in items:
                        labels.pop(item.metadata.name, None)
                case Lost():
                    pass
            self._cache.set_namespaces(labels)
            # After a refusal there is nothing to wait for. After another loss, they will be listed.
            if not isinstance(delta, Lost) or delta.refused:
                self._unknown.discard(Namespace)
                self._wake.set()

    async def _follow_storage(
        self,
        kind: type[PersistentVolume | PersistentVolumeClaim | StorageClass],
        put: Callable[[Any], None],
        remove: Callable[[Any], None],
        replace_all: Callable[[Iterable[Any]], None],
    ) -> None:
        """Keep the claims, volumes or classes. If the server does not have them, there are none."""
        async for delta in self._api.follow(kind):
            match delta:
                case Synced(items):
                    replace_all(items)
                    self._queue.move(ClaimChange())
                case Changed(items) | Removed(items):
                    for item in items:
                        (put if isinstance(delta, Changed) else remove)(item)
                        self._queue.move(_storage_change(cast("Object", item)))
                case Lost():
                    pass
            if not isinstance(delta, Lost) or delta.refused:
                self._unknown.discard(kind)
            self._wake.set()
            self._wake_bindings()

    def _wake_bindings(self) -> None:
        self._storage_changed.set()
        self._storage_changed = asyncio.Event()

    def _all_nodes(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        here = {node.metadata.name for node in nodes}
        for name in [name for name in self._cache.nodes if name not in here]:
            self._drop_node(name)
        for node in nodes:
            self._set_node(node)

    def _set_node(self, node: Node) -> None:
        try:
            facts = node_facts(node)
        except ValueError as error:
            _LOG.warning("the scheduler ignores node %s: %s", node.metadata.name, error)
            return
        before = self._cache.set_node(facts)
        if before != facts:
            self._queue.move(NodeChange(before, facts))

    def _remove_node(self, node: Node) -> None:
        self._drop_node(node.metadata.name)

    def _drop_node(self, name: str) -> None:
        gone = self._cache.remove_node(name)
        if gone is not None:
            self._queue.move(NodeChange(gone, None))

    def _all_pods(self, pods: Iterable[Pod]) -> None:
        pods = list(pods)
        here = {pod.metadata.uid for pod in pods}
        for uid in (self._waiting.keys() | self._cache.uids) - here:
            self._drop_pod(uid)
        for pod in pods:
            self._set_pod(pod)

    def _remove_pod(self, pod: Pod) -> None:
        self._drop_pod(pod.metadata.uid)

    def _set_pod(self, pod: Pod) -> None:
        try:
            if pod.status.phase in _ENDED:
                self._drop_pod(pod.metadata.uid)
            elif pod.spec.nodeName:
                self._set_pod_on_node(pod)
            elif pod.spec.schedulerName == self._name:
                self._set_waiting_pod(pod)
        except ValueError as error:
            _LOG.warning("the scheduler ignores pod %s: %s", pod.metadata.name, error)

    def _set_pod_on_node(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self._waiting.pop(uid, None) is not None:
            self._queue.delete(uid)
        info = pod_info(pod)
        # Most updates are of the status. They free nothing, and must not wake the waiting pods.
        if self._cache.pod(uid) == info and not self._cache.is_assumed(uid):
            return
        self._queue.move(PodChange(self._cache.set_pod(info), info))

    def _set_waiting_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        before = self._waiting.get(uid)
        if before == pod:
            return
        self._waiting[uid] = pod
        if self._cache.is_assumed(uid):
            # It is being bound, which fails if it is being deleted.
            if pod.metadata.deletionTimestamp is not None:
                self._free(uid)
                self._wake_bindings()
            return
        self._queue.add(pod)
        was = before.status.nominatedNodeName if before else ""
        now = pod.status.nominatedNodeName
        if before is None or was or now:
            info = pod_info(pod)
            self._cache.nominate(info, now)
            if was not in ("", now):
                self._free_nominated(replace(info, nominated=was))

    def _drop_pod(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        self._queue.delete(uid)
        self._free(uid)
        self._wake_bindings()
        node = self._cache.nominated_node(uid)
        if waiting is not None and node:
            info = replace(pod_info(waiting), nominated=node)
            self._cache.nominate(info, "")
            self._free_nominated(info)

    def _free(self, uid: str) -> None:
        """Stop counting a pod on its node."""
        gone = self._cache.remove_pod(uid)
        if gone is not None:
            self._queue.move(PodChange(gone, None))

    def _free_nominated(self, pod: PodInfo) -> None:
        """No node is kept free for the pod any more: try those pods again that had to respect
        this."""
        self._queue.move(PodChange(pod, None), lambda other: other.info.priority <= pod.priority)

    # --- attempts

    async def _attempt(self, queued: Queued, group: asyncio.TaskGroup) -> None:
        pod = queued.pending.pod
        if pod.metadata.deletionTimestamp is not None:
            self._queue.delete(queued.uid)
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._warn(pod, f"skip schedule deleting pod: {name}")
            return
        verdict = schedule(queued.pending, self._cache.snapshot())
        if verdict.node:
            # Bound beside the loop: the next pod is tried at once, and must see this one on its
            # node.
            assumed = self._cache.assume(queued.pending.info, verdict.node)
            self._cache.assume_claims(verdict.claims, verdict.node)
            group.create_task(
                self._bind(queued, assumed, verdict.claims), name=f"bind {assumed.name}"
            )
            # Many pods may be active: let the other tasks of this event loop run.
            await asyncio.sleep(0)
        else:
            await self._refused(queued, verdict)

    async def _bind(self, queued: Queued, pod: PodInfo, claims: ClaimPlan) -> None:
        plugin = 'PreBind plugin "VolumeBinding"'
        try:
            await self._bind_claims(pod, claims)
            plugin = 'Bind plugin "DefaultBinder"'
            await self._bind_pod(pod)
        except PodtuiError as error:
            self._cache.drop_claims(claims)
            if self._cache.is_assumed(pod.uid):
                self._free(pod.uid)
            message = f"running {plugin}: {error}"
            await self._report(
                queued, "SchedulerError", ScheduleResult(message=message, nominated="")
            )
            return
        self._queue.delete(pod.uid)
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node}"
        about = _reference(queued.pending.pod)
        self._events.record(about, "Normal", "Scheduled", "Binding", text)

    async def _bind_claims(self, pod: PodInfo, plan: ClaimPlan) -> None:
        """Reserve volumes and select the node of claims, and wait until the controllers have bound
        them. Raises `PodtuiError`."""
        if not plan.keys:
            return
        async with self._bindings:
            written = ClaimPlan(
                tuple([(await self._reserve(*pair), pair[1]) for pair in plan.reservations]),
                tuple([await self._api.select_node(item, pod.node) for item in plan.provisions]),
            )
        try:
            async with asyncio.timeout(_VOLUMES_SECONDS):
                await self._wait_for_claims(pod, written)
        except TimeoutError:
            raise PodtuiError("binding volumes: context deadline exceeded") from None

    async def _reserve(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> PersistentVolume:
        taken = reserved(volume, claim)
        return volume if taken is volume else await self._api.update_volume(taken)

    async def _wait_for_claims(self, pod: PodInfo, plan: ClaimPlan) -> None:
        while not is_plan_bound(plan, claims := self._cache.claims()):
            node = self._cache.nodes.get(pod.node)
            problem = "" if node else f'failed to get node "{pod.node}": node not found'
            if not self._cache.is_assumed(pod.uid):
                problem = f'pod does not exist any more: pod "{pod.name}" not found'
            elif node is not None:
                problem = binding_problem(plan, claims, pod.node, node.facts.labels)
            if problem:
                raise PodtuiError(f"binding volumes: {problem}")
            await self._storage_changed.wait()

    async def _bind_pod(self, pod: PodInfo) -> None:
        binding = Binding(
            apiVersion="v1",
            kind="Binding",
            metadata=ObjectMeta(namespace=pod.namespace, name=pod.name, uid=pod.uid),
            target=ObjectReference(kind="Node", name=pod.node),
        )
        async with self._bindings:
            await self._api.bind(binding)

    async def _refused(self, queued: Queued, verdict: ScheduleResult) -> None:
        if verdict.victims and verdict.nominated:
            try:
                await self._preempt(queued.pending, verdict.victims, verdict.nominated)
            except PodtuiError as error:
                verdict = replace(verdict, nominated=None, message=f"{verdict.message} {error}")
        await self._report(queued, "Unschedulable", verdict)

    async def _preempt(self, pending: Pending, victims: Iterable[PodInfo], node: str) -> None:
        for victim in victims:
            if not victim.deleting:
                await self._end(victim, pending, node)
        # What is freed is not for them: they have to look for another node.
        for pod in self._cache.less_important_on(node, pending.info.priority):
            await self._patch(pod, {"nominatedNodeName": None})

    async def _end(self, victim: PodInfo, pending: Pending, node: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self._clock.now()),
            "observedGeneration": victim.generation,
        }
        try:
            await self._patch(victim, {"conditions": [condition]})
            await self._api.delete_pod(victim.namespace, victim.name, victim.uid)
        except ApiError as error:
            # It is gone, or another pod has its name: nothing has to end.
            if error.code in (404, 409):
                return
            raise
        text = f"Preempted by pod {pending.info.uid} on node {node}"
        about = ObjectReference(
            apiVersion="v1",
            kind="Pod",
            namespace=victim.namespace,
            name=victim.name,
            uid=victim.uid,
        )
        self._events.record(about, "Normal", "Preempted", "Preempting", text)

    async def _report(self, queued: Queued, reason: Reason, verdict: ScheduleResult) -> None:
        """Put the pod back into the queue, and report the reason in its status and in an event."""
        pod = self._waiting.get(queued.uid)
        if pod is None:
            # It has been deleted, or bound by another scheduler.
            self._queue.delete(queued.uid)
            return
        self._queue.put_back(queued, verdict.plugins)
        nominated = verdict.nominated
        if nominated is None:
            nominated = pod.status.nominatedNodeName
        self._cache.nominate(queued.pending.info, nominated)
        self._warn(pod, verdict.message)
        status: dict[str, Any] = {}
        condition = _condition(pod, reason, verdict.message, rfc3339(self._clock.now()))
        if condition is not None:
            status["conditions"] = [condition]
        if nominated != pod.status.nominatedNodeName:
            status["nominatedNodeName"] = nominated or None
        if not status:
            return
        try:
            await self._patch(queued.pending.info, status)
        except PodtuiError as error:
            _LOG.warning("the status of pod %s is not updated: %s", pod.metadata.name, error)

    async def _patch(self, pod: PodInfo, status: Mapping[str, Any]) -> None:
        await self._api.patch_pod_status(pod.namespace, pod.name, pod.uid, status)

    def _warn(self, pod: Pod, text: str) -> None:
        self._events.record(_reference(pod), "Warning", "FailedScheduling", "Scheduling", text)


def _storage_change(item: Object) -> ClaimChange:
    if isinstance(item, PersistentVolumeClaim):
        return ClaimChange((item.metadata.namespace, item.metadata.name))
    return ClaimChange()


def _condition(pod: Pod, reason: Reason, message: str, now: str) -> dict[str, Any] | None:
    """Return the condition ``PodScheduled`` of a pod without a node; None if it has it already."""
    current = next(
        (condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None
    )
    since = now
    if current is not None and current.status == "False":
        if (current.reason, current.message) == (reason, message):
            return None
        since = current.lastTransitionTime or now
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }


def _reference(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(
        apiVersion="v1",
        kind="Pod",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )
