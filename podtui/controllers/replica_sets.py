"""The controllers of ReplicaSets and ReplicationControllers: as many pods as desired.

Both kinds are one implementation: the decisions see a ReplicationController as the ReplicaSet that
has the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, Generic, TypeVar

from msgspec import structs

from podtui.api.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from podtui.api.selectors import labels_match
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    LabelSelector,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.batches import call_at_once, call_in_batches
from podtui.controllers.client import Writer
from podtui.controllers.deletion_order import pods_to_delete
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import Keys, claimant_keys, own_key
from podtui.controllers.pods import (
    PodControl,
    apply_claim,
    claim,
    is_active,
    is_available,
    is_current,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    pod_of_template,
    seconds_to_available,
)
from podtui.errors import ApiError, PodtuiError

_BURST: Final = 500
"""The most pods that one call of ``sync`` creates or deletes."""
_FAILURE: Final = "ReplicaFailure"
_NO_TEMPLATE: Final = PodTemplateSpec(spec=PodSpec(containers=()))
Owner = TypeVar("Owner", ReplicaSet, ReplicationController)


def as_replica_set(owner: ReplicaSet | ReplicationController) -> ReplicaSet:
    """Return the ReplicaSet with the fields of ``owner``."""
    if isinstance(owner, ReplicaSet):
        return owner
    spec, status = owner.spec, owner.status
    return ReplicaSet(
        metadata=owner.metadata,
        spec=ReplicaSetSpec(
            minReadySeconds=spec.minReadySeconds,
            replicas=spec.replicas,
            selector=LabelSelector(matchLabels=spec.selector) if spec.selector else None,
            template=spec.template or _NO_TEMPLATE,
        ),
        status=ReplicaSetStatus(
            availableReplicas=status.availableReplicas,
            conditions=tuple(
                ReplicaSetCondition(**structs.asdict(condition)) for condition in status.conditions
            ),
            fullyLabeledReplicas=status.fullyLabeledReplicas,
            observedGeneration=status.observedGeneration,
            readyReplicas=status.readyReplicas,
            replicas=status.replicas,
        ),
    )


def with_status(owner: Owner, status: ReplicaSetStatus) -> Owner:
    """Return ``owner`` with the status, of which a ReplicationController lacks a field."""
    if isinstance(owner, ReplicaSet):
        return structs.replace(owner, status=status)
    return structs.replace(
        owner,
        status=ReplicationControllerStatus(
            availableReplicas=status.availableReplicas,
            conditions=tuple(
                ReplicationControllerCondition(**structs.asdict(condition))
                for condition in status.conditions
            ),
            fullyLabeledReplicas=status.fullyLabeledReplicas,
            observedGeneration=status.observedGeneration,
            readyReplicas=status.readyReplicas,
            replicas=status.replicas,
        ),
    )


def replica_set_status(
    item: ReplicaSet,
    active: Sequence[Pod],
    terminating: int | None,
    failure: Exception | None,
    now: datetime,
) -> ReplicaSetStatus:
    """Return the status. ``terminating`` is the number of pods that are being deleted, None if the
    kind does not report it; ``failure`` is the failure to create or delete pods."""
    spec = item.spec
    labels = LabelSelector(matchLabels=spec.template.metadata.labels)
    seconds = spec.minReadySeconds or 0
    ready = [pod for pod in active if is_ready(pod)]
    available = sum(is_available(pod, seconds, now) for pod in ready)
    labeled = sum(labels_match(labels, pod.metadata.labels) for pod in active)
    return ReplicaSetStatus(
        replicas=len(active),
        fullyLabeledReplicas=labeled or None,
        readyReplicas=len(ready) or None,
        availableReplicas=available or None,
        terminatingReplicas=terminating,
        observedGeneration=item.metadata.generation,
        conditions=_conditions(item, len(active), failure, now),
    )


def _conditions(
    item: ReplicaSet, active: int, failure: Exception | None, now: datetime
) -> tuple[ReplicaSetCondition, ...]:
    """Add or remove the condition of a failure; a failure that goes on stays as it is."""
    conditions = item.status.conditions
    if failure is None:
        return tuple(condition for condition in conditions if condition.type != _FAILURE)
    if any(condition.type == _FAILURE for condition in conditions):
        return conditions
    desired = item.spec.replicas or 0
    reason = "FailedCreate" if active < desired else "FailedDelete" if active > desired else ""
    return (
        *conditions,
        ReplicaSetCondition(
            type=_FAILURE,
            status="True",
            reason=reason,
            message=str(failure),
            lastTransitionTime=rfc3339(now),
        ),
    )


def seconds_to_check(item: ReplicaSet, active: Iterable[Pod], now: datetime) -> float | None:
    """Return the seconds until the next ready pod becomes available, None if all are."""
    seconds = item.spec.minReadySeconds or 0
    waits = (seconds_to_available(pod, seconds, now) for pod in active)
    return min((wait for wait in waits if wait), default=None)


class ReplicaSetController(Generic[Owner]):
    """``name`` is ``replicaset-controller`` or ``replication-controller``."""

    def __init__(
        self,
        kind: type[Owner],
        name: str,
        cache: Cache,
        writer: Writer,
        events: ControllerEvents,
        clock: Clock,
    ) -> None:
        self._kind = kind
        self.name = name
        self._cache = cache
        self._writer = writer
        self._clock = clock
        self._pods = PodControl(writer, events, name)

        def selector(owner: Owner) -> LabelSelector | None:
            return as_replica_set(owner).spec.selector

        self.kinds: Mapping[Kind, Keys] = {
            kind: own_key,
            Pod: claimant_keys(cache, kind, selector),
        }

    async def sync(self, key: Key) -> float | None:
        owner = self._cache.get(self._kind, *key)
        if owner is None:
            return None
        item = as_replica_set(owner)
        selector = item.spec.selector
        pods = self._cache.claimable(Pod, owner)
        claimed = claim(owner, selector, filter(is_active, pods))
        active = await apply_claim(self._writer, Pod, owner, claimed)
        failure = None
        if owner.metadata.deletionTimestamp is None:
            failure = await self._manage(owner, item, active)
        now = self._clock.now()
        status = replica_set_status(item, active, self._terminating(owner, pods), failure, now)
        if status != item.status:
            changed = with_status(owner, status)
            await self._writer.update(self._kind, changed, subresource="status")
        if failure is not None:
            raise failure
        return seconds_to_check(item, active, now)

    def _terminating(self, owner: Owner, pods: Iterable[Pod]) -> int | None:
        if not isinstance(owner, ReplicaSet):
            return None
        selector = owner.spec.selector
        return sum(
            is_terminating(pod)
            and controller_of(pod) is not None
            and labels_match(selector, pod.metadata.labels)
            for pod in pods
        )

    async def _manage(
        self, owner: Owner, item: ReplicaSet, active: Sequence[Pod]
    ) -> PodtuiError | None:
        """Create or delete pods; return the first failure."""
        surplus = len(active) - (item.spec.replicas or 0)
        if surplus < 0:
            new = pod_of_template(item.spec.template, owner)
            return await call_in_batches(
                min(-surplus, _BURST),
                partial(self._create, new, owner),
                partial(is_current, self._writer, owner),
            )
        if surplus == 0:
            return None
        related = self._related_pods(owner)
        doomed = pods_to_delete(active, related, min(surplus, _BURST), self._clock.now())
        failures = await call_at_once([partial(self._pods.delete, pod, owner) for pod in doomed])
        return failures[0] if failures else None

    async def _create(self, pod: Pod, owner: Owner) -> None:
        try:
            await self._pods.create(pod, owner)
        except ApiError as error:
            # The namespace is being deleted, and this owner with it.
            if not is_namespace_terminating(error):
                raise

    def _related_pods(self, owner: Owner) -> list[Pod]:
        """Return the pods of all objects of this kind that have the same controller."""
        controller = controller_of(owner)
        if controller is None:
            return []
        siblings = self._cache.owned(self._kind, controller.uid)
        return [pod for sibling in siblings for pod in self._cache.owned(Pod, sibling.metadata.uid)]
