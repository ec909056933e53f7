"""PodDisruptionBudgets: how many of the selected pods may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from podtui.api.apps import Deployment, ReplicaSet, StatefulSet
from podtui.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from podtui.api.selectors import labels_match
from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import (
    Condition,
    LabelSelector,
    OwnerReference,
    Pod,
    ReplicationController,
)
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.amounts import scaled
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents, EventType
from podtui.controllers.loop import Keys, own_key
from podtui.controllers.pods import is_ready

NAME: Final = "disruption-controller"
_EVENT_SOURCE: Final = "controllermanager"
_DELETION_SECONDS: Final = 120
"""An eviction that was allowed must have deleted its pod by then."""


class ScaleError(ValueError):
    """Raised if the number of expected pods cannot be told."""


Scale = tuple[str, int]
"""UID and wanted pods of a controller."""


class Expected(NamedTuple):
    """``unmanaged`` are pods without a controller, which do not count."""

    pods: int
    healthy: int
    unmanaged: bool = False


def expected_pods(
    budget: PodDisruptionBudget,
    pods: Sequence[Pod],
    scale_of: Callable[[OwnerReference, str], Scale | None],
) -> Expected:
    """Return how many pods there should be, and how many of them healthy. ``scale_of`` returns the
    scale of a pod's controller. Raises `ScaleError`."""
    most, least = budget.spec.maxUnavailable, budget.spec.minAvailable
    if most is None and (least is None or isinstance(least, int)):
        return Expected(0, 0) if least is None else Expected(len(pods), least)
    scales: dict[str, int] = {}
    unmanaged = False
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            unmanaged = True
            continue
        if owner.uid not in scales:
            scale = scale_of(owner, pod.metadata.namespace)
            if scale is None:
                raise ScaleError(f'found no controllers for pod "{pod.metadata.name}"')
            scales[scale[0]] = scale[1]
    total = sum(scales.values())
    if most is not None:
        return Expected(total, max(0, total - scaled(most, total, up=True)), unmanaged)
    return Expected(total, scaled(least, total, up=True), unmanaged)


def disrupted_pods(
    budget: PodDisruptionBudget, pods: Iterable[Pod], now: datetime
) -> tuple[dict[str, str], list[Pod], float | None]:
    """Return the pods that were evicted and are not deleted yet, those that should have been
    deleted, and the seconds until the next of them should be."""
    pending: dict[str, str] = {}
    late: list[Pod] = []
    seconds: list[float] = []
    for pod in pods:
        name = pod.metadata.name
        evicted = parse_time(budget.status.disruptedPods.get(name))
        if evicted is None or pod.metadata.deletionTimestamp is not None:
            continue
        left = (evicted + timedelta(seconds=_DELETION_SECONDS) - now).total_seconds()
        if left < 0:
            late.append(pod)
        else:
            pending[name] = budget.status.disruptedPods[name]
            seconds.append(left)
    return pending, late, min(seconds, default=None)


def budget_status(
    budget: PodDisruptionBudget,
    pods: Iterable[Pod],
    expected: Expected,
    disrupted: Mapping[str, str],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    healthy = sum(
        pod.metadata.deletionTimestamp is None
        and pod.metadata.name not in disrupted
        and is_ready(pod)
        for pod in pods
    )
    allowed = max(0, healthy - expected.healthy) if expected.pods > 0 else 0
    generation = budget.metadata.generation
    reason = "SufficientPods" if allowed else "InsufficientPods"
    condition = Condition(
        type="DisruptionAllowed",
        status="True" if allowed else "False",
        reason=reason,
        message="",
        observedGeneration=generation,
        lastTransitionTime=rfc3339(now),
    )
    return PodDisruptionBudgetStatus(
        currentHealthy=healthy,
        desiredHealthy=expected.healthy,
        expectedPods=expected.pods,
        disruptionsAllowed=allowed,
        disruptedPods=dict(disrupted),
        observedGeneration=generation,
        conditions=_with_condition(budget.status.conditions, condition),
    )


def failed_status(
    budget: PodDisruptionBudget, why: str, now: datetime
) -> PodDisruptionBudgetStatus:
    """Return a status that allows no eviction, because it is not known whether one is safe."""
    status = budget.status
    condition = Condition(
        type="DisruptionAllowed",
        status="False",
        reason="SyncFailed",
        message=why,
        observedGeneration=status.observedGeneration,
        lastTransitionTime=rfc3339(now),
    )
    conditions = _with_condition(status.conditions, condition)
    return structs.replace(status, disruptionsAllowed=0, conditions=conditions)


def _with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Replace the condition of a type; its time changes with its status only."""
    for index, old in enumerate(conditions):
        if old.type == new.type:
            if old.status == new.status:
                new = structs.replace(new, lastTransitionTime=old.lastTransitionTime)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)


class DisruptionController:
    name = NAME

    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            PodDisruptionBudget: own_key,
            Pod: self._budgets_of,
            **dict.fromkeys(
                (ReplicaSet, Deployment, StatefulSet, ReplicationController), self._all_budgets
            ),
        }

    def _budgets_of(self, pod: Pod) -> Iterable[Key]:
        for budget in self._cache.list(PodDisruptionBudget, pod.metadata.namespace):
            if labels_match(budget.spec.selector, pod.metadata.labels):
                yield (budget.metadata.namespace, budget.metadata.name)

    def _all_budgets(self, item: Deployment) -> Iterable[Key]:
        """The scale of any controller in the namespace may be that of the selected pods."""
        for budget in self._cache.list(PodDisruptionBudget, item.metadata.namespace):
            yield (budget.metadata.namespace, budget.metadata.name)

    async def sync(self, key: Key) -> float | None:
        budget = self._cache.get(PodDisruptionBudget, *key)
        if budget is None:
            return None
        now = self._clock.now()
        pods = [
            pod
            for pod in self._cache.list(Pod, key[0])
            if labels_match(budget.spec.selector, pod.metadata.labels)
        ]
        if not pods:
            self._record(budget, "Normal", "NoPods", "No matching pods found")
        again: float | None = None
        try:
            expected = expected_pods(budget, pods, self._scale_of)
        except ScaleError as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._record(budget, "Warning", "CalculateExpectedPodCountFailed", message)
            status = failed_status(budget, str(error), now)
        else:
            if expected.unmanaged:
                self._record(budget, "Warning", "UnmanagedPods", _unmanaged(budget))
            disrupted, late, again = disrupted_pods(budget, pods, now)
            for pod in late:
                message = f"Pod was expected by PDB {key[0]}/{key[0]} to be deleted but it wasn't"
                self._events.record(_EVENT_SOURCE, pod, "Warning", "NotDeleted", message)
            status = budget_status(budget, pods, expected, disrupted, now)
        if status != budget.status:
            item = structs.replace(budget, status=status)
            await self._writer.update(PodDisruptionBudget, item, subresource="status")
        return again

    def _scale_of(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """Return the scale of a controller; a ReplicaSet of a Deployment has that of the
        Deployment. Raises `ScaleError` for a kind without a scale."""
        match owner.kind:
            case "ReplicaSet":
                item = self._cache.get(ReplicaSet, namespace, owner.name)
                above = controller_of(item)
                if above is not None and above.kind == "Deployment":
                    return self._scale_of(above, namespace)
            case "Deployment":
                item = self._cache.get(Deployment, namespace, owner.name)
            case "StatefulSet":
                item = self._cache.get(StatefulSet, namespace, owner.name)
            case "ReplicationController":
                item = self._cache.get(ReplicationController, namespace, owner.name)
            case _:
                group = owner.apiVersion.rpartition("/")[0]
                resource = f"{owner.kind.lower()}s{'.' if group else ''}{group}"
                raise ScaleError(f"{resource} does not implement the scale subresource")
        if item is None or item.metadata.uid != owner.uid:
            return None
        replicas = item.spec.replicas
        return owner.uid, 1 if replicas is None else replicas

    def _record(
        self, budget: PodDisruptionBudget, event_type: EventType, reason: str, message: str
    ) -> None:
        self._events.record(_EVENT_SOURCE, budget, event_type, reason, message)


def _go_selector(budget: PodDisruptionBudget) -> str:
    """Return the selector as Go prints it: ``&LabelSelector{MatchLabels:map[string]string{app:
    web,},MatchExpressions:[]LabelSelectorRequirement{},}``."""
    selector = budget.spec.selector or LabelSelector()
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.matchLabels.items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{item.key},Operator:{item.operator},Values:[{' '.join(item.values)}],"
        "},"
        for item in selector.matchExpressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _unmanaged(budget: PodDisruptionBudget) -> str:
    return (
        "Pods selected by this PodDisruptionBudget (selector:"
        f" {_go_selector(budget)}) were found to be unmanaged. As a result,"
        " the status of the PDB cannot be calculated correctly, which may result in undefined"
        ' behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to'
        " an integer value."
    )
