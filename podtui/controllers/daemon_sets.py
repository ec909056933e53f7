"""The controller of DaemonSets.

`plan` is a pure function of the set, the nodes and the pods. It first makes the pods of each node
right: one pod on each node that fits (two while an update with ``maxSurge`` replaces one), none on
others, and none that has ended. Only if there is nothing to do about that, it goes on with a
rolling update: without surge it deletes old pods, of which at most ``maxUnavailable`` may be
missing at a time; with surge it creates new pods beside at most ``maxSurge`` old ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet
from podtui.api.v1 import LabelSelector, Node, Pod, Taint
from podtui.client.cache import Cache, Key, Kind
from podtui.clock import Clock
from podtui.controllers.amounts import scaled
from podtui.controllers.client import Writer
from podtui.controllers.daemon_pods import Fit, fit, is_updated, new_pod, node_of
from podtui.controllers.events import ControllerEvents
from podtui.controllers.history import (
    REVISION_LABEL,
    RevisionControl,
    equal_revisions,
    next_number,
)
from podtui.controllers.loop import Keys, claimant_keys, controller_key, own_key
from podtui.controllers.pods import (
    PodControl,
    apply_claim,
    claim,
    is_available,
    is_current,
    is_ready,
    seconds_to_available,
)
from podtui.errors import PodtuiError

_COMPONENT: Final = "daemonset-controller"
_FIRST_DELAY: Final = 1.0
_MAX_DELAY: Final = 900.0
_ENDED: Final = ("Failed", "Succeeded")
Pods = Mapping[str, Sequence[Pod]]
"""The pods by the names of their nodes."""


@dataclass(slots=True)
class Plan:
    """``create`` has names of nodes. ``failed`` and ``succeeded`` are those of the pods to
    ``delete`` that have ended; ``held`` are nodes whose failed pod is deleted later."""

    create: list[str] = field(default_factory=list[str])
    delete: list[Pod] = field(default_factory=list[Pod])
    failed: list[Pod] = field(default_factory=list[Pod])
    succeeded: list[Pod] = field(default_factory=list[Pod])
    held: list[str] = field(default_factory=list[str])


def plan(
    daemon_set: DaemonSet,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    hash_value: str,
    now: datetime,
    is_held: Callable[[str], bool] = lambda _: False,
) -> Plan:
    """Decide which pods to create and delete. ``hash_value`` is the one of the current revision;
    ``is_held`` tells whether the failed pod of a node has to wait for the end of a back-off."""
    planner = _Planner(daemon_set, nodes, by_node(pods), hash_value, now)
    result = planner.manage(is_held)
    if result.create or result.delete or daemon_set.spec.updateStrategy.type != "RollingUpdate":
        return result
    update = planner.update()
    update.held = result.held
    return update


def by_node(pods: Iterable[Pod]) -> Pods:
    """Group pods by node, without those that have ended and are being deleted."""
    groups: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.status.phase in _ENDED and _is_terminating(pod):
            continue
        if (name := node_of(pod)) is not None:
            groups[name].append(pod)
    for group in groups.values():
        group.sort(key=_age)
    return groups


class _Planner:
    def __init__(
        self,
        daemon_set: DaemonSet,
        nodes: Iterable[Node],
        pods: Pods,
        hash_value: str,
        now: datetime,
    ) -> None:
        self._set = daemon_set
        self._fits = {
            node.metadata.name: fit(daemon_set, node)
            for node in sorted(nodes, key=lambda node: node.metadata.name)
        }
        self._pods = pods
        self._hash = hash_value
        self._now = now
        self._desired = desired = [*self._fits.values()].count(Fit.RUNS)
        strategy = daemon_set.spec.updateStrategy
        rolling = strategy.rollingUpdate if strategy.type == "RollingUpdate" else None
        rolling = rolling or RollingUpdateDaemonSet()
        self._surges = scaled(rolling.maxSurge, 1, up=True) > 0
        self._max_surge = scaled(rolling.maxSurge, desired, up=True)
        unavailable = scaled(rolling.maxUnavailable, desired, up=True)
        self._max_unavailable = unavailable or (0 if self._max_surge else 1)

    # --- the pods of each node

    def manage(self, is_held: Callable[[str], bool]) -> Plan:
        result = Plan()
        for node, fits in self._fits.items():
            pods = self._pods.get(node, ())
            if fits is Fit.RUNS and not pods:
                result.create.append(node)
            elif fits is Fit.LEAVES:
                result.delete += [pod for pod in pods if not _is_terminating(pod)]
            else:
                self._manage_node(node, pods, result, is_held)
        for node, pods in self._pods.items():
            if node not in self._fits:
                # They can never be scheduled. Those that were are left to the pod collection.
                result.delete += [
                    pod for pod in pods if not pod.spec.nodeName and not _is_terminating(pod)
                ]
        return result

    def _manage_node(
        self, node: str, pods: Sequence[Pod], result: Plan, is_held: Callable[[str], bool]
    ) -> None:
        running: list[Pod] = []
        for pod in pods:
            if _is_terminating(pod):
                continue
            if pod.status.phase == "Failed":
                if is_held(node):
                    result.held.append(node)
                else:
                    result.failed.append(pod)
                    result.delete.append(pod)
            elif pod.status.phase == "Succeeded":
                result.succeeded.append(pod)
                result.delete.append(pod)
            else:
                running.append(pod)
        if not self._surges:
            result.delete += running[1:]
        elif running:
            result.delete += self._excess(running)
        elif self._fits[node] is Fit.RUNS and node not in result.held:
            # A set with surge does not wait for the end of the old pod.
            result.create.append(node)

    def _excess(self, running: Sequence[Pod]) -> list[Pod]:
        """Return all but the oldest pod of the current template and the oldest of another one; of
        these two, the other one as well if it is not needed any more."""
        new = [pod for pod in running if pod.metadata.labels.get(REVISION_LABEL) == self._hash]
        old = [pod for pod in running if pod not in new]
        excess = [*new[1:], *old[1:]]
        if new and old and (not is_ready(old[0]) or self._is_available(new[0])):
            excess.append(old[0])
        return excess

    # --- rolling updates

    def update(self) -> Plan:
        groups = {node: self._pods.get(node, ()) for node in self._update_nodes()}
        pairs = {node: self._new_and_old(pods) for node, pods in groups.items()}
        return self._update_with_surge(pairs) if self._max_surge else self._update_in_place(pairs)

    def _update_nodes(self) -> list[str]:
        return sorted({*self._pods, *(name for name, fits in self._fits.items() if _runs(fits))})

    def _new_and_old(self, pods: Sequence[Pod]) -> tuple[Pod | None, Pod | None] | None:
        """Return the pod of the current template and the one of another; None if there are more,
        which `manage` deletes."""
        left = [pod for pod in pods if not _is_terminating(pod)]
        new = [pod for pod in left if is_updated(self._set, pod, self._hash)]
        old = [pod for pod in left if pod not in new]
        if len(new) > 1 or len(old) > 1:
            return None
        return (new[0] if new else None), (old[0] if old else None)

    def _update_in_place(self, pairs: Mapping[str, tuple[Pod | None, Pod | None] | None]) -> Plan:
        unavailable = 0
        broken: list[Pod] = []
        candidates: list[Pod] = []
        for pair in pairs.values():
            if pair is None or (pair[0] is None) == (pair[1] is None):
                unavailable += 1
                continue
            new, old = pair
            if new is not None:
                unavailable += not self._is_available(new)
            elif old is not None and self._is_available(old):
                candidates.append(old)
            elif old is not None:
                broken.append(old)
                unavailable += 1
        allowed = max(0, self._max_unavailable - unavailable)
        return Plan(delete=[*broken, *candidates[:allowed]])

    def _update_with_surge(self, pairs: Mapping[str, tuple[Pod | None, Pod | None] | None]) -> Plan:
        result = Plan()
        surge = available = 0
        candidates: list[str] = []
        misplaced: list[Pod] = []
        for node, pair in pairs.items():
            if pair is None:
                surge += 1
                continue
            new, old = pair
            counted = old or new
            available += counted is not None and self._is_available(counted)
            if old is None:
                continue
            if new is not None:
                if self._is_available(new):
                    result.delete.append(old)
                else:
                    surge += 1
            elif not _runs(self._fits.get(node)):
                (misplaced if self._is_available(old) else result.delete).append(old)
            elif self._is_available(old):
                candidates.append(node)
            else:
                result.create.append(node)
        # A pod whose node does not fit any more serves until enough others do.
        result.delete += misplaced[: max(0, available - self._desired)]
        result.create += candidates[: max(0, self._max_surge - surge)]
        return result

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self._set.spec.minReadySeconds or 0, self._now)


def daemon_status(
    daemon_set: DaemonSet,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    hash_value: str,
    now: datetime,
) -> DaemonSetStatus:
    """Count nodes by the oldest pod on them. Collisions and conditions stay as they are."""
    groups = by_node(pods)
    desired = scheduled = misscheduled = ready = available = updated = 0
    for node in nodes:
        group = groups.get(node.metadata.name, ())
        if fit(daemon_set, node) is not Fit.RUNS:
            misscheduled += bool(group)
            continue
        desired += 1
        if not group:
            continue
        oldest = group[0]
        scheduled += 1
        ready += is_ready(oldest)
        available += is_available(oldest, daemon_set.spec.minReadySeconds or 0, now)
        updated += is_updated(daemon_set, oldest, hash_value)
    return structs.replace(
        daemon_set.status,
        currentNumberScheduled=scheduled,
        desiredNumberScheduled=desired,
        numberAvailable=available or None,
        numberMisscheduled=misscheduled,
        numberReady=ready,
        numberUnavailable=desired - available or None,
        observedGeneration=daemon_set.metadata.generation,
        updatedNumberScheduled=updated or None,
    )


def _runs(fits: Fit | None) -> bool:
    return fits is Fit.RUNS


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is not None


def _where(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name} on node {node_of(pod)}"


def _age(pod: Pod) -> tuple[bool, str, str]:
    """Sort scheduled pods first, then old ones."""
    meta = pod.metadata
    return not pod.spec.nodeName, meta.creationTimestamp or "", meta.name


class FailedPods:
    """The back-off of deletions of failed pods: a kubelet that rejects a pod would reject the next
    one as well. It is from 1 s to 15 min, doubled by each failure until there was none for twice
    the maximum."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._delays: dict[str, tuple[float, float]] = {}
        """The time of the last deletion, and the delay after it."""

    def seconds_left(self, key: str) -> float:
        last, delay = self._delays.get(key, (0.0, 0.0))
        return max(0.0, last + delay - self._monotonic())

    def count(self, key: str) -> None:
        """Begin a delay, after a pod was deleted."""
        now = self._monotonic()
        self._delays = {
            name: (last, delay)
            for name, (last, delay) in self._delays.items()
            if now - last <= 2 * _MAX_DELAY
        }
        _, delay = self._delays.get(key, (0.0, 0.0))
        self._delays[key] = (now, min(2 * delay, _MAX_DELAY) or _FIRST_DELAY)


class DaemonSetController:
    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock
        self._pods = PodControl(writer, events, _COMPONENT)
        self._revisions = RevisionControl(cache, writer)
        self._failed = FailedPods(clock.monotonic)
        self._nodes: dict[str, tuple[Mapping[str, str], tuple[Taint, ...]]] = {}
        """The labels and taints of the nodes; other changes of a node do not matter."""

    @property
    def name(self) -> str:
        return _COMPONENT

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            DaemonSet: own_key,
            Pod: claimant_keys(self._cache, DaemonSet, lambda item: item.spec.selector),
            Node: self._sets_of_node,
            ControllerRevision: controller_key(DaemonSet),
        }

    def _sets_of_node(self, node: Node) -> Iterable[Key]:
        name = node.metadata.name
        current = self._cache.get(Node, "", name)
        facts = None if current is None else (current.metadata.labels, current.spec.taints)
        if facts == self._nodes.get(name):
            return
        if facts is None:
            del self._nodes[name]
        else:
            self._nodes[name] = facts
        for daemon_set in self._cache.list(DaemonSet):
            yield from own_key(daemon_set)

    async def sync(self, key: Key) -> float | None:
        daemon_set = self._cache.get(DaemonSet, *key)
        if daemon_set is None or daemon_set.metadata.deletionTimestamp is not None:
            return None
        if daemon_set.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._events.record(_COMPONENT, daemon_set, "Warning", "SelectingAll", message)
            return None
        current, old, collisions = await self._history(daemon_set)
        pods = await self._claimed_pods(daemon_set)
        hash_value = current.metadata.labels.get(REVISION_LABEL, current.metadata.name)
        nodes, now = self._cache.list(Node), self._clock.now()
        generation = daemon_set.status.observedGeneration
        back_off = f"{daemon_set.metadata.uid}/{generation}"

        def seconds_left(node: str) -> float:
            return self._failed.seconds_left(f"{back_off}/{node}")

        decided = plan(
            daemon_set, nodes, pods, hash_value, now, lambda node: seconds_left(node) > 0
        )
        if decided.create and not await is_current(self._writer, daemon_set):
            return None
        for pod in decided.failed:
            self._failed.count(f"{back_off}/{node_of(pod)}")
        try:
            await self._carry_out(daemon_set, decided, hash_value)
            await self._clean_up(daemon_set, old, pods)
        except PodtuiError:
            await self._report(daemon_set, hash_value, collisions)
            raise
        await self._report(daemon_set, hash_value, collisions)
        seconds = [seconds_left(node) for node in decided.held]
        seconds += [
            wait
            for pod in pods
            if (wait := seconds_to_available(pod, daemon_set.spec.minReadySeconds or 0, now))
        ]
        return min(seconds, default=None)

    async def _claimed_pods(self, daemon_set: DaemonSet) -> list[Pod]:
        candidates = self._cache.claimable(Pod, daemon_set)
        claimed = claim(daemon_set, daemon_set.spec.selector, candidates)
        return await apply_claim(self._writer, Pod, daemon_set, claimed)

    async def _carry_out(self, daemon_set: DaemonSet, decided: Plan, hash_value: str) -> None:
        for pod in decided.failed:
            message = f"Found failed daemon pod {_where(pod)}, will try to kill it"
            self._events.record(_COMPONENT, daemon_set, "Warning", "FailedDaemonPod", message)
        for pod in decided.succeeded:
            message = f"Found succeeded daemon pod {_where(pod)}, will try to delete it"
            self._events.record(_COMPONENT, daemon_set, "Normal", "SucceededDaemonPod", message)
        for node in decided.create:
            await self._pods.create(new_pod(daemon_set, node, hash_value), daemon_set)
        for pod in decided.delete:
            await self._pods.delete(pod, daemon_set)

    async def _report(self, daemon_set: DaemonSet, hash_value: str, collisions: int | None) -> None:
        """Write the status if it has changed, with the pods that were created and deleted now."""
        status = daemon_status(
            daemon_set,
            self._cache.list(Node),
            self._cache.owned(Pod, daemon_set.metadata.uid),
            hash_value,
            self._clock.now(),
        )
        status = structs.replace(status, collisionCount=collisions)
        if status != daemon_set.status:
            changed = structs.replace(daemon_set, status=status)
            await self._writer.update(DaemonSet, changed, subresource="status")

    # --- history

    async def _history(
        self, daemon_set: DaemonSet
    ) -> tuple[ControllerRevision, list[ControllerRevision], int | None]:
        """Return the current revision, the old ones in order, and the count of collisions. Create,
        renumber or merge current revisions first, where that is needed."""
        history = await self._revisions.claimed(daemon_set)
        equal = equal_revisions(history, daemon_set.spec.template)
        old = [revision for revision in history if revision not in equal]
        number, collisions = next_number(old), daemon_set.status.collisionCount
        if not equal:
            current, collisions = await self._revisions.create(
                daemon_set, number, collisions, REVISION_LABEL
            )
            return current, old, collisions
        current, duplicates = equal[-1], equal[:-1]
        if duplicates:
            value = current.metadata.labels.get(REVISION_LABEL)
            merged = {revision.metadata.labels.get(REVISION_LABEL) for revision in duplicates}
            for pod in self._cache.owned(Pod, daemon_set.metadata.uid):
                if pod.metadata.labels.get(REVISION_LABEL) in merged:
                    patch = {"metadata": {"labels": {REVISION_LABEL: value}}}
                    await self._writer.patch(Pod, pod, patch)
            await self._revisions.delete(duplicates)
        if current.revision < number:
            current = await self._revisions.renumber(current, number)
        return current, old, collisions

    async def _clean_up(
        self, daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Iterable[Pod]
    ) -> None:
        """Delete the oldest revisions without pods, if there are more than the limit."""
        limit = daemon_set.spec.revisionHistoryLimit
        excess = len(old) - (10 if limit is None else limit)
        live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
        unused = [item for item in old if item.metadata.labels.get(REVISION_LABEL) not in live]
        await self._revisions.delete(unused[: max(0, excess)])
