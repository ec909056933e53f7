"""HorizontalPodAutoscalers: the replicas of a workload follow the use of its pods.

Every 15 seconds, the largest number of replicas that a metric asks for is taken. It is then brought
within limits: no recommendation of the last minutes may be lower (when replicas are removed) or
higher (when they are added), then the rates of the behavior, then the least and most replicas.

The metrics are those of ``metrics.k8s.io``. There are no custom and external metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from msgspec import structs

from podtui.api.apps import Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import (
    ContainerResourceMetricStatus,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ResourceMetricStatus,
)
from podtui.api.cron import CronError, parse_duration
from podtui.api.local import PodMetrics
from podtui.api.quantity import Format, Quantity, milli_value
from podtui.api.selectors import labels_match, selector_text
from podtui.api.times import rfc3339
from podtui.api.v1 import LabelSelector, Pod, ReplicationController
from podtui.client.cache import Cache, Key, Kind, T
from podtui.clock import Clock
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents, EventType
from podtui.controllers.loop import Keys, own_key
from podtui.controllers.replica_counts import (
    MetricError,
    Proposal,
    Tolerance,
    by_average,
    by_utilization,
    samples,
)
from podtui.errors import PodtuiError

COMPONENT: Final = "horizontal-pod-autoscaler"
PERIOD_SECONDS: Final = 15.0
STABILIZATION_SECONDS: Final = 300
_WINDOW: Final = timedelta(seconds=30)
_MAX: Final = 2**31 - 1
_KINDS: Final = {
    ("apps", "Deployment"): (Deployment, "deployments/scale.apps"),
    ("apps", "ReplicaSet"): (ReplicaSet, "replicasets/scale.apps"),
    ("apps", "StatefulSet"): (StatefulSet, "statefulsets/scale.apps"),
    ("", "ReplicationController"): (
        ReplicationController,
        "replicationcontrollers/scale.autoscaling",
    ),
}
Target = Deployment | ReplicaSet | StatefulSet | ReplicationController
Note = tuple[EventType, str, str]
"""Type, reason and message of an event."""


class Scaler(Writer, Protocol):
    """Also reads metrics and scales."""

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        """Return the current use of all pods; empty while there is none."""
        ...

    async def scale(self, kind: type[T], item: T, replicas: int) -> None: ...


# --- conditions


def with_condition(
    conditions: tuple[HorizontalPodAutoscalerCondition, ...],
    name: str,
    reason: str,
    message: str,
    now: datetime,
    *,
    status: str = "True",
) -> tuple[HorizontalPodAutoscalerCondition, ...]:
    """Set a condition; its time changes with its status only."""
    new = HorizontalPodAutoscalerCondition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        lastTransitionTime=rfc3339(now),
    )
    for index, old in enumerate(conditions):
        if old.type == name:
            if old.status == status:
                new = structs.replace(new, lastTransitionTime=old.lastTransitionTime)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)


# --- limits


class Recommendation(NamedTuple):
    replicas: int
    time: datetime


class Change(NamedTuple):
    """A change of replicas; negative if some were removed."""

    replicas: int
    time: datetime


@dataclass(frozen=True, slots=True)
class History:
    """The recommendations for one target, and its changes. Lost when the agent restarts."""

    recommendations: tuple[Recommendation, ...] = ()
    changes: tuple[Change, ...] = ()

    def since(self, seconds: float, now: datetime) -> History:
        """Return the history without what is older."""
        start = now - timedelta(seconds=seconds)
        return History(
            tuple(item for item in self.recommendations if item.time >= start),
            tuple(item for item in self.changes if item.time >= start),
        )


@dataclass(frozen=True, slots=True)
class Limited:
    """A number of replicas after the limits, and the reasons and messages of the conditions
    AbleToScale and ScalingLimited."""

    replicas: int
    stabilized: tuple[str, str]
    limited: tuple[str, str]
    is_limited: bool


_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_HIGHER: Final = "recent recommendations were higher than current one"
_DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    f"{_HIGHER}, applying the highest recent recommendation",
)
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
_TOO_FEW: Final = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
)
_TOO_FAST_UP: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_TOO_FAST_DOWN: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)


@dataclass(frozen=True, slots=True)
class Range:
    """The current, least and most replicas."""

    current: int
    least: int
    most: int


def limit(
    behavior: HorizontalPodAutoscalerBehavior | None,
    bounds: Range,
    desired: int,
    history: History,
    now: datetime,
) -> Limited:
    """Bring the recommended replicas within the limits."""
    if behavior is None or behavior.scaleUp is None or behavior.scaleDown is None:
        stable = _highest(desired, history, STABILIZATION_SECONDS, now)
        replicas, why = _limit_plainly(bounds, stable)
    else:
        stable = _stabilize(behavior.scaleUp, behavior.scaleDown, bounds, desired, history, now)
        rules = behavior.scaleUp if stable > bounds.current else behavior.scaleDown
        replicas, why = _limit_rate(rules, bounds, stable, history, now)
    reason = _READY
    if stable != desired:
        plain = behavior is None
        goes_up = not plain and desired >= bounds.current
        reason = _UP_STABILIZED if goes_up else _DOWN_STABILIZED
    return Limited(replicas, reason, why, is_limited=replicas != stable)


def _highest(desired: int, history: History, seconds: int, now: datetime) -> int:
    recent = history.since(seconds, now).recommendations
    return max([desired, *(item.replicas for item in recent)])


def _limit_plainly(bounds: Range, desired: int) -> tuple[int, tuple[str, str]]:
    fastest = max(2 * bounds.current, 4)
    most, why = (fastest, _TOO_FAST_UP) if bounds.most > fastest else (bounds.most, _TOO_MANY)
    if desired < bounds.least:
        return bounds.least, _TOO_FEW
    return (most, why) if desired > most else (desired, _WITHIN)


def _stabilize(
    up: HPAScalingRules,
    down: HPAScalingRules,
    bounds: Range,
    desired: int,
    history: History,
    now: datetime,
) -> int:
    """Return the current replicas, moved as little as the recent recommendations allow."""
    window = down.stabilizationWindowSeconds
    down_seconds = STABILIZATION_SECONDS if window is None else window
    recent = history.recommendations
    up_start = now - timedelta(seconds=up.stabilizationWindowSeconds or 0)
    down_start = now - timedelta(seconds=down_seconds)
    lowest = min([desired, *(item.replicas for item in recent if item.time > up_start)])
    highest = max([desired, *(item.replicas for item in recent if item.time > down_start)])
    return min(max(bounds.current, lowest), highest)


def _limit_rate(
    rules: HPAScalingRules, bounds: Range, desired: int, history: History, now: datetime
) -> tuple[int, tuple[str, str]]:
    current = bounds.current
    if desired > current:
        fastest = max(current, rate_limit(rules, current, history, now, sign=1))
        most, why = (fastest, _TOO_FAST_UP) if bounds.most > fastest else (bounds.most, _TOO_MANY)
        return (most, why) if desired > most else (desired, _WITHIN)
    if desired < current:
        fastest = min(current, rate_limit(rules, current, history, now, sign=-1))
        least, why = (
            (fastest, _TOO_FAST_DOWN) if bounds.least < fastest else (bounds.least, _TOO_FEW)
        )
        return (least, why) if desired < least else (desired, _WITHIN)
    return desired, _WITHIN


def rate_limit(
    rules: HPAScalingRules, current: int, history: History, now: datetime, *, sign: int
) -> int:
    """Return the most (``sign`` 1) or least (-1) replicas that the rates allow now."""
    if rules.selectPolicy == "Disabled":
        return current
    proposals = [_proposed(policy, current, history, now, sign) for policy in rules.policies]
    if not proposals:
        return current
    widest = (rules.selectPolicy != "Min") == (sign > 0)
    return max(proposals) if widest else min(proposals)


def _proposed(
    policy: HPAScalingPolicy, current: int, history: History, now: datetime, sign: int
) -> int:
    start = now - timedelta(seconds=policy.periodSeconds)
    before = current - sum(item.replicas for item in history.changes if item.time > start)
    if policy.type == "Pods":
        return before + sign * policy.value
    scaled = before * (100 + sign * policy.value)
    return -(-scaled // 100) if sign > 0 else math.trunc(scaled / 100)


# --- metrics


@dataclass(frozen=True, slots=True)
class Load:
    """The pods of a target, and the use of all pods of its namespace."""

    pods: Sequence[Pod]
    metrics: Sequence[PodMetrics]
    current: int
    tolerance: Tolerance
    now: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a metric gives no number. ``reason`` and ``message`` are those of an event; ``error`` is
    its part of the summary."""

    reason: str
    message: str
    error: str

    @property
    def note(self) -> Note:
        return ("Warning", self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Measured:
    replicas: int
    name: str
    status: MetricStatus


def measure(spec: MetricSpec, load: Load, namespace: str) -> Measured | Failure:
    """Return the replicas that one metric asks for."""
    match spec.type:
        case "Resource" if spec.resource is not None:
            name, target = spec.resource.name, spec.resource.target
            try:
                proposal = _resource(name, "", target, load)
            except MetricError as error:
                text = f"failed to get {name} resource metric value: {error}"
                return Failure("FailedGetResourceMetric", str(error), text)
            status = MetricStatus(
                type="Resource",
                resource=ResourceMetricStatus(name=name, current=_value(name, proposal)),
            )
            return Measured(proposal.replicas, _title(name, "", proposal), status)
        case "ContainerResource" if spec.containerResource is not None:
            source = spec.containerResource
            try:
                proposal = _resource(source.name, source.container, source.target, load)
            except MetricError as error:
                text = f"failed to get {source.container} container metric value: {error}"
                return Failure("FailedGetContainerResourceMetric", str(error), text)
            status = MetricStatus(
                type="ContainerResource",
                containerResource=ContainerResourceMetricStatus(
                    name=source.name,
                    container=source.container,
                    current=_value(source.name, proposal),
                ),
            )
            return Measured(proposal.replicas, _title(source.name, " container", proposal), status)
        case _:
            return _without_api(spec, namespace)


def _resource(name: str, container: str, target: MetricTarget, load: Load) -> Proposal:
    what = "usage" if target.averageValue else "utilization"
    try:
        window = _window(load.metrics)
        used = samples(load.metrics, name, container, window)
        names = {pod.metadata.name for pod in load.pods}
        used = {pod: sample for pod, sample in used.items() if pod in names}
        if not any(item.metadata.name in names for item in load.metrics):
            raise MetricError(
                f"unable to get metrics for resource {name}:"
                " no metrics returned from resource metrics API"
            )
        if target.averageValue:
            average = milli_value(target.averageValue)
            return by_average(
                load.current, average, load.pods, used, name, load.tolerance, load.now
            )
        return by_utilization(
            load.current,
            target.averageUtilization or 0,
            load.pods,
            used,
            name,
            container,
            load.tolerance,
            load.now,
        )
    except MetricError as error:
        raise MetricError(f"failed to get {name} {what}: {error}") from error


def _window(metrics: Sequence[PodMetrics]) -> timedelta:
    """Return the time over which the use was measured."""
    try:
        return timedelta(seconds=float(parse_duration(metrics[0].window)))
    except (IndexError, CronError):
        return _WINDOW


def _title(resource: str, container: str, proposal: Proposal) -> str:
    if proposal.percent is None:
        return f"{resource} resource"
    return f"{resource}{container} resource utilization (percentage of request)"


def _value(resource: str, proposal: Proposal) -> MetricValueStatus:
    form = Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI
    average = proposal.average
    quantity = Quantity.of_milli(average)
    if average % 1000 == 0:
        quantity = Quantity.of(average // 1000, form)
    return MetricValueStatus(averageUtilization=proposal.percent, averageValue=str(quantity))


def _without_api(spec: MetricSpec, namespace: str) -> Failure:
    """Return the failure of a metric whose API is not served."""
    custom = (
        "unable to fetch metrics from custom metrics API:"
        " no custom metrics API (custom.metrics.k8s.io) registered"
    )
    if spec.pods is not None:
        message = f"unable to get metric {spec.pods.metric.name}: {custom}"
        text = f"failed to get pods metric value: {message}"
        return Failure("FailedGetPodsMetric", message, text)
    if spec.object is not None:
        about = spec.object.describedObject
        where = f"on {about.kind} {namespace}/{about.name}"
        message = f"unable to get metric {spec.object.metric.name}: {where} {custom}"
        text = f"failed to get object metric value: {message}"
        return Failure("FailedGetObjectMetric", message, text)
    name = spec.external.metric.name if spec.external is not None else ""
    message = (
        f"unable to get external metric {namespace}/{name}: unable to fetch metrics from external"
        f" metrics API: the server could not find the requested resource"
        f" (get {name}.external.metrics.k8s.io)"
    )
    text = f"failed to get {name} external metric value: {message}"
    return Failure("FailedGetExternalMetric", message, text)


# --- decisions


@dataclass(frozen=True, slots=True)
class Decision:
    """``replicas`` is the wanted number; with ``rescale`` the target gets it, for ``reason``."""

    status: HorizontalPodAutoscalerStatus
    replicas: int
    rescale: bool = False
    reason: str = ""
    notes: tuple[Note, ...] = ()
    history: History = field(default_factory=History)


@dataclass(frozen=True, slots=True)
class Situation:
    """An autoscaler, the pods of its target, and why they cannot be counted, if so: reason of the
    condition, its message and the event."""

    hpa: HorizontalPodAutoscaler
    load: Load
    history: History
    problem: tuple[str, str, Note] | None = None


def decide(situation: Situation) -> Decision:
    hpa, load, now = situation.hpa, situation.load, situation.load.now
    spec, current = hpa.spec, load.current
    least = 1 if spec.minReplicas is None else spec.minReplicas
    status = _set(
        hpa.status,
        "AbleToScale",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
        now,
    )
    status = structs.replace(status, currentReplicas=current, currentMetrics=())
    history = situation.history
    if not history.recommendations:
        history = replace(history, recommendations=(Recommendation(current, now),))
    if current == 0:
        message = "scaling is disabled since the replica count of the target is zero"
        status = _set(
            status, "ScalingActive", "ScalingDisabled", message, now, condition_status="False"
        )
        return Decision(structs.replace(status, desiredReplicas=0), 0, history=history)
    if current > spec.maxReplicas:
        reason = "Current number of replicas above Spec.MaxReplicas"
        return Decision(status, spec.maxReplicas, True, reason, history=history)
    if current < least:
        reason = "Current number of replicas below Spec.MinReplicas"
        return Decision(status, least, True, reason, history=history)
    return _decide_by_metrics(situation, status, history, Range(current, least, spec.maxReplicas))


def _decide_by_metrics(
    situation: Situation, status: HorizontalPodAutoscalerStatus, history: History, bounds: Range
) -> Decision:
    hpa, load, now = situation.hpa, situation.load, situation.load.now
    if situation.problem is not None:
        reason, message, note = situation.problem
        status = _set(status, "ScalingActive", reason, message, now, condition_status="False")
        summary: Note = ("Warning", "FailedComputeMetricsReplicas", note[2])
        return Decision(status, load.current, notes=(note, summary), history=history)
    results = [measure(spec, load, hpa.metadata.namespace) for spec in hpa.spec.metrics]
    measured = [item for item in results if isinstance(item, Measured)]
    failures = [item for item in results if isinstance(item, Failure)]
    statuses = tuple(
        item.status if isinstance(item, Measured) else MetricStatus(type="") for item in results
    )
    status = structs.replace(status, currentMetrics=statuses)
    notes = [item.note for item in failures]
    best = max(measured, key=lambda item: item.replicas, default=None)
    if best is None or (failures and best.replicas < load.current):
        first = failures[0]
        message = f"the HPA was unable to compute the replica count: {first.message}"
        status = _set(status, "ScalingActive", first.reason, message, now, condition_status="False")
        counts = f"{len(failures)} invalid out of {len(results)}"
        text = f"invalid metrics ({counts}), first error is: {first.error}"
        notes.append(("Warning", "FailedComputeMetricsReplicas", text))
        return Decision(status, load.current, notes=tuple(notes), history=history)
    message = f"the HPA was able to successfully calculate a replica count from {best.name}"
    status = _set(status, "ScalingActive", "ValidMetricFound", message, now)
    reason = ""
    if best.replicas > load.current:
        reason = f"{best.name} above target"
    elif best.replicas < load.current:
        reason = "All metrics below target"
    result = limit(hpa.spec.behavior, bounds, best.replicas, history, now)
    status = _set(status, "AbleToScale", *result.stabilized, now)
    status = _set(
        status,
        "ScalingLimited",
        *result.limited,
        now,
        condition_status="True" if result.is_limited else "False",
    )
    status = structs.replace(status, desiredReplicas=result.replicas)
    history = replace(
        history,
        recommendations=(*history.recommendations, Recommendation(best.replicas, now)),
    )
    rescale = result.replicas != load.current
    return Decision(status, result.replicas, rescale, reason, tuple(notes), history)


def rescaled(decision: Decision, current: int, now: datetime) -> Decision:
    """Return the decision after the target was scaled."""
    message = f"the HPA controller was able to update the target scale to {decision.replicas}"
    status = _set(decision.status, "AbleToScale", "SucceededRescale", message, now)
    status = structs.replace(status, desiredReplicas=decision.replicas, lastScaleTime=rfc3339(now))
    note: Note = (
        "Normal",
        "SuccessfulRescale",
        f"New size: {decision.replicas}; reason: {decision.reason}",
    )
    changes = (*decision.history.changes, Change(decision.replicas - current, now))
    return replace(
        decision,
        status=status,
        notes=(*decision.notes, note),
        history=replace(decision.history, changes=changes),
    )


def not_rescaled(decision: Decision, before: int, why: str, now: datetime) -> Decision:
    """Return the decision after the target could not be scaled; ``before`` was desired before."""
    message = f"the HPA controller was unable to update the target scale: {why}"
    status = _set(
        decision.status, "AbleToScale", "FailedUpdateScale", message, now, condition_status="False"
    )
    note: Note = (
        "Warning",
        "FailedRescale",
        f"New size: {decision.replicas}; reason: {decision.reason}; error: {why}",
    )
    return replace(
        decision,
        status=structs.replace(status, desiredReplicas=before),
        notes=(*decision.notes, note),
    )


def unknown_scale(
    hpa: HorizontalPodAutoscaler, why: str, now: datetime
) -> HorizontalPodAutoscalerStatus:
    message = f"the HPA controller was unable to get the target's current scale: {why}"
    return _set(hpa.status, "AbleToScale", "FailedGetScale", message, now, condition_status="False")


def _set(
    status: HorizontalPodAutoscalerStatus,
    name: str,
    reason: str,
    message: str,
    now: datetime,
    *,
    condition_status: str = "True",
) -> HorizontalPodAutoscalerStatus:
    conditions = with_condition(
        status.conditions, name, reason, message, now, status=condition_status
    )
    return structs.replace(status, conditions=conditions)


# --- the controller


def selector_of(target: Target) -> LabelSelector:
    selector = target.spec.selector
    if isinstance(selector, dict):
        return LabelSelector(matchLabels=selector)
    return selector or LabelSelector()


class Autoscaler:
    name = COMPONENT

    def __init__(
        self, cache: Cache, writer: Scaler, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._histories: dict[Key, History] = {}

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        others: tuple[Kind, ...] = (*(kind for kind, _ in _KINDS.values()), Pod)
        return {HorizontalPodAutoscaler: own_key, **dict.fromkeys(others, _no_keys)}

    async def sync(self, key: Key) -> float | None:
        hpa = self._cache.get(HorizontalPodAutoscaler, *key)
        if hpa is None:
            self._due.pop(key, None)
            self._histories.pop(key, None)
            return None
        # Changes wait for the next turn too, as those of the pods that a change starts.
        now = self._clock.monotonic()
        due = self._due.setdefault(key, now + PERIOD_SECONDS)
        if due > now:
            return due - now
        self._due[key] = now + PERIOD_SECONDS
        await self._sync(hpa, key)
        return PERIOD_SECONDS

    async def _sync(self, hpa: HorizontalPodAutoscaler, key: Key) -> None:
        now = self._clock.now()
        target = self._target(hpa)
        if isinstance(target, str):
            self._record(hpa, [("Warning", "FailedGetScale", target)])
            await self._write(hpa, unknown_scale(hpa, target, now))
            return
        current = 1 if target.spec.replicas is None else target.spec.replicas
        pods = self._pods(target)
        metrics = [
            item for item in await self._writer.pod_metrics() if item.metadata.namespace == key[0]
        ]
        load = Load(pods, metrics, current, Tolerance.of(hpa.spec.behavior), now)
        history = self._histories.get(key, History()).since(_memory(hpa), now)
        problem = self._problem(hpa, target, pods)
        decision = decide(Situation(hpa, load, history, problem))
        if decision.rescale:
            try:
                await self._writer.scale(type(target), target, decision.replicas)
            except PodtuiError as error:
                before = hpa.status.desiredReplicas
                decision = not_rescaled(decision, before, str(error), now)
            else:
                decision = rescaled(decision, current, now)
        self._histories[key] = decision.history
        self._record(hpa, decision.notes)
        await self._write(hpa, decision.status)

    def _target(self, hpa: HorizontalPodAutoscaler) -> Target | str:
        """Return the target, or why there is none."""
        reference = hpa.spec.scaleTargetRef
        group = reference.apiVersion.rpartition("/")[0]
        entry = _KINDS.get((group, reference.kind))
        if entry is None:
            return f'no matches for kind "{reference.kind}" in group "{group}"'
        kind, resource = entry
        target = self._cache.get(kind, hpa.metadata.namespace, reference.name)
        return f'{resource} "{reference.name}" not found' if target is None else target

    def _pods(self, target: Target) -> list[Pod]:
        selector = selector_of(target)
        pods = self._cache.list(Pod, target.metadata.namespace)
        return [pod for pod in pods if labels_match(selector, pod.metadata.labels)]

    def _problem(
        self, hpa: HorizontalPodAutoscaler, target: Target, pods: Sequence[Pod]
    ) -> tuple[str, str, Note] | None:
        selector = selector_of(target)
        if not selector.matchLabels and not selector.matchExpressions:
            message = "the HPA target's scale is missing a selector"
            note: Note = ("Warning", "SelectorRequired", "selector is required")
            return "InvalidSelector", message, note
        namespace = hpa.metadata.namespace
        names: list[str] = []
        for other in self._cache.list(HorizontalPodAutoscaler, namespace):
            its_target = self._target(other)
            if isinstance(its_target, str):
                continue
            its_selector = selector_of(its_target)
            if any(labels_match(its_selector, pod.metadata.labels) for pod in pods):
                names.append(other.metadata.name)
        if len(names) < 2:
            return None
        keys = " ".join(f"{{{name} {namespace}}}" for name in sorted(names))
        text = (
            f"pods by selector {selector_text(selector)} are controlled by multiple HPAs: [{keys}]"
        )
        return "AmbiguousSelector", text, ("Warning", "AmbiguousSelector", text)

    async def _write(
        self, hpa: HorizontalPodAutoscaler, status: HorizontalPodAutoscalerStatus
    ) -> None:
        if status == hpa.status:
            return
        item = structs.replace(hpa, status=status)
        try:
            await self._writer.update(HorizontalPodAutoscaler, item, subresource="status")
        except PodtuiError as error:
            self._record(hpa, [("Warning", "FailedUpdateStatus", str(error))])
            raise

    def _record(self, hpa: HorizontalPodAutoscaler, notes: Iterable[Note]) -> None:
        for event_type, reason, message in notes:
            self._events.record(COMPONENT, hpa, event_type, reason, message)


def _no_keys(item: object) -> Iterable[Key]:
    return ()


def _memory(hpa: HorizontalPodAutoscaler) -> float:
    """Return for how many seconds recommendations and changes matter."""
    behavior, seconds = hpa.spec.behavior, [STABILIZATION_SECONDS]
    for rules in (behavior.scaleUp, behavior.scaleDown) if behavior is not None else ():
        if rules is not None:
            seconds.append(rules.stabilizationWindowSeconds or 0)
            seconds += [policy.periodSeconds for policy in rules.policies]
    return float(max(seconds))
