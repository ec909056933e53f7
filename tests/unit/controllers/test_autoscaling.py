"""HorizontalPodAutoscalers: replicas of metrics, limits, and the controller on a store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from controller_store import ControllerStore, RecordedEvents
from examples import examples
from fixed_clock import FixedClock
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.api.apps import Deployment, DeploymentSpec, ReplicaSet, StatefulSet
from podtui.api.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PodsMetricSource,
    ResourceMetricSource,
)
from podtui.api.local import ContainerMetrics, PodMetrics
from podtui.api.objects import Object
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    Container,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ReplicationController,
    ResourceRequirements,
)
from podtui.client.cache import Cache
from podtui.controllers.autoscaling import (
    Autoscaler,
    Change,
    History,
    Range,
    Recommendation,
    limit,
    rate_limit,
)
from podtui.controllers.events import ControllerEvents
from podtui.errors import ApiError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ("ns", "h")


class Store(ControllerStore):
    """Also scales, and has the use of pods."""

    metrics: tuple[PodMetrics, ...] = ()

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return self.metrics

    async def scale(self, kind: type[Any], item: Object, replicas: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        current = self.cache.get(kind, "ns", item.metadata.name)
        assert current is not None
        self.change(current, spec=structs.replace(current.spec, replicas=replicas))


def cpu(percent: int = 50) -> MetricSpec:
    target = MetricTarget(type="Utilization", averageUtilization=percent)
    return MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))


class World:
    """A Deployment ``d`` with pods that request 100m of CPU."""

    def __init__(self, replicas: int, *uses: int, target: str = "d", **spec: Any) -> None:
        self.cache = Cache()
        self.clock = FixedClock(NOW)
        kinds = (HorizontalPodAutoscaler, Pod, Deployment, ReplicaSet, StatefulSet)
        for kind in (*kinds, ReplicationController):
            self.cache.add_kind(kind)
        self.store = Store(self.cache, self.clock)
        self.events = RecordedEvents()
        events = cast("ControllerEvents", self.events)
        self.controller = Autoscaler(self.cache, self.store, events, self.clock)
        reference = CrossVersionObjectReference(
            apiVersion="apps/v1", kind="Deployment", name=target
        )
        defaults: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 10, "metrics": (cpu(),)}
        self.add_autoscaler("h", reference, defaults | spec)
        selector = LabelSelector(matchLabels={"app": "d"})
        template = PodTemplateSpec(spec=PodSpec(containers=()))
        self.store.add(
            Deployment(
                metadata=ObjectMeta(name="d", namespace="ns"),
                spec=DeploymentSpec(replicas=replicas, selector=selector, template=template),
            )
        )
        self.load(*uses)

    def add_autoscaler(
        self, name: str, reference: CrossVersionObjectReference, spec: dict[str, Any]
    ) -> None:
        item = HorizontalPodAutoscalerSpec(scaleTargetRef=reference, **spec)
        meta = ObjectMeta(name=name, namespace="ns")
        self.store.add(HorizontalPodAutoscaler(metadata=meta, spec=item))

    def load(self, *uses: int, requests: str = "100m") -> None:
        """Let there be pods that use so many thousandths of a core."""
        for item in self.cache.list(Pod):
            self.cache.remove(item)
        started = rfc3339(self.clock.now() - timedelta(hours=1))
        ready = PodCondition(type="Ready", status="True", lastTransitionTime=started)
        resources = ResourceRequirements(requests={"cpu": requests} if requests else {})
        metrics: list[PodMetrics] = []
        for number, use in enumerate(uses):
            name = f"d-{number}"
            meta = ObjectMeta(name=name, namespace="ns", labels={"app": "d"})
            container = Container(name="c", image="i", resources=resources)
            status = PodStatus(phase="Running", startTime=started, conditions=(ready,))
            self.store.add(Pod(metadata=meta, spec=PodSpec(containers=(container,)), status=status))
            usage = ContainerMetrics(name="c", usage={"cpu": f"{use}m"})
            metrics.append(
                PodMetrics(
                    metadata=meta,
                    timestamp=rfc3339(self.clock.now()),
                    window="15s",
                    containers=(usage,),
                )
            )
        self.store.metrics = tuple(metrics)

    def turn(self) -> None:
        """Let one period pass."""
        asyncio.run(self.controller.sync(KEY))
        self.clock.advance(15)
        asyncio.run(self.controller.sync(KEY))

    @property
    def hpa(self) -> HorizontalPodAutoscaler:
        item = self.cache.get(HorizontalPodAutoscaler, *KEY)
        assert item is not None
        return item

    @property
    def replicas(self) -> int | None:
        item = self.cache.get(Deployment, "ns", "d")
        assert item is not None
        return item.spec.replicas

    def conditions(self) -> dict[str, tuple[str, str]]:
        return {c.type: (c.status, c.reason) for c in self.hpa.status.conditions}


def test_more_use_means_more_replicas() -> None:
    world = World(2, 90, 110)
    world.turn()
    assert world.replicas == 4
    status = world.hpa.status
    assert (status.currentReplicas, status.desiredReplicas) == (2, 4)
    assert status.lastScaleTime == "2026-01-01T00:00:15Z"
    current = status.currentMetrics[0].resource
    assert current is not None
    assert (current.current.averageUtilization, current.current.averageValue) == (100, "100m")
    assert world.conditions() == {
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
    }
    name = "cpu resource utilization (percentage of request)"
    assert world.events.texts == [
        f"Normal SuccessfulRescale: New size: 4; reason: {name} above target"
    ]


def test_a_small_difference_changes_nothing() -> None:
    world = World(2, 54, 54)
    world.turn()
    assert (world.replicas, world.hpa.status.lastScaleTime) == (2, None)
    assert world.conditions()["AbleToScale"] == ("True", "ReadyForNewScale")
    rules = HPAScalingRules(tolerance="50m", stabilizationWindowSeconds=0, policies=PODS)
    behavior = HorizontalPodAutoscalerBehavior(scaleUp=rules, scaleDown=rules)
    world = World(2, 54, 54, behavior=behavior)
    world.turn()
    assert world.replicas == 3


def test_less_use_removes_replicas_after_five_minutes() -> None:
    world = World(4, 10, 10, 10, 10)
    world.turn()
    assert world.replicas == 4
    assert world.conditions()["AbleToScale"] == ("True", "ScaleDownStabilized")
    for _ in range(21):
        world.turn()
    assert world.replicas == 1
    assert world.events.texts[-1] == (
        "Normal SuccessfulRescale: New size: 1; reason: All metrics below target"
    )


@pytest.mark.parametrize(
    ("replicas", "after", "reason"),
    [(1, 2, "below Spec.MinReplicas"), (9, 5, "above Spec.MaxReplicas")],
)
def test_the_range_holds_without_metrics(replicas: int, after: int, reason: str) -> None:
    world = World(replicas, minReplicas=2, maxReplicas=5)
    world.turn()
    assert world.replicas == after
    message = f"New size: {after}; reason: Current number of replicas {reason}"
    assert world.events.texts == [f"Normal SuccessfulRescale: {message}"]
    assert "ScalingActive" not in world.conditions()


def test_a_target_without_replicas_is_left_alone() -> None:
    world = World(0, minReplicas=2)
    world.turn()
    assert world.replicas == 0
    assert world.conditions()["ScalingActive"] == ("False", "ScalingDisabled")


def test_the_rate_of_growth_is_limited() -> None:
    world = World(3, 900, 900, 900, maxReplicas=50)
    world.turn()
    assert world.replicas == 6
    assert world.conditions()["ScalingLimited"] == ("True", "ScaleUpLimit")
    world = World(3, 900, 900, 900, maxReplicas=5)
    world.turn()
    assert world.replicas == 5
    assert world.conditions()["ScalingLimited"] == ("True", "TooManyReplicas")


def test_it_waits_for_its_period() -> None:
    world = World(2, 100, 100)
    assert asyncio.run(world.controller.sync(KEY)) == 15
    world.clock.advance(10)
    assert asyncio.run(world.controller.sync(KEY)) == 5
    assert world.replicas == 2


MISSING = "failed to get cpu utilization: missing request for cpu in container c of Pod d-0"
NO_METRICS = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned"
    " from resource metrics API"
)


@pytest.mark.parametrize(("case", "why"), [("requests", MISSING), ("metrics", NO_METRICS)])
def test_use_that_cannot_be_told(case: str, why: str) -> None:
    world = World(2, 100, 100)
    if case == "requests":
        world.load(100, 100, requests="")
    else:
        world.store.metrics = ()
    world.turn()
    assert world.replicas == 2
    assert world.conditions()["ScalingActive"] == ("False", "FailedGetResourceMetric")
    condition = world.hpa.status.conditions[1]
    assert condition.message == f"the HPA was unable to compute the replica count: {why}"
    summary = (
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric"
        f" value: {why}"
    )
    assert world.events.texts == [
        f"Warning FailedGetResourceMetric: {why}",
        f"Warning FailedComputeMetricsReplicas: {summary}",
    ]
    assert [metric.type for metric in world.hpa.status.currentMetrics] == [""]


def test_a_failing_metric_stops_only_the_removal_of_replicas() -> None:
    pods = PodsMetricSource(
        metric=MetricIdentifier(name="hits"),
        target=MetricTarget(type="AverageValue", averageValue="1"),
    )
    custom = MetricSpec(type="Pods", pods=pods)
    world = World(2, 100, 100, metrics=(cpu(), custom))
    world.turn()
    assert world.replicas == 4
    assert world.conditions()["ScalingActive"] == ("True", "ValidMetricFound")
    world = World(2, 10, 10, metrics=(cpu(), custom))
    world.turn()
    assert world.replicas == 2
    assert world.conditions()["ScalingActive"] == ("False", "FailedGetPodsMetric")


def test_an_average_value_needs_no_requests() -> None:
    target = MetricTarget(type="AverageValue", averageValue="50m")
    source = ResourceMetricSource(name="cpu", target=target)
    world = World(2, metrics=(MetricSpec(type="Resource", resource=source),))
    world.load(100, 100, requests="")
    world.turn()
    assert world.replicas == 4


def test_pods_without_metrics_make_the_change_smaller() -> None:
    world = World(4, 100, 100, 100, 100)
    world.store.metrics = world.store.metrics[:2]
    world.turn()
    assert world.replicas == 4  # 100 % of two pods are 50 % of four.


def test_pending_pods_count_as_idle_when_replicas_are_added() -> None:
    world = World(3, 150, 150, 0)
    (pod,) = [item for item in world.cache.list(Pod) if item.metadata.name == "d-2"]
    world.store.change(pod, status=PodStatus(phase="Pending"))
    world.turn()
    assert world.replicas == 6


def test_an_absent_target_is_reported() -> None:
    world = World(2, target="absent")
    world.turn()
    assert world.conditions() == {"AbleToScale": ("False", "FailedGetScale")}
    assert world.events.texts == [
        'Warning FailedGetScale: deployments/scale.apps "absent" not found'
    ]


def test_two_autoscalers_of_the_same_pods_do_nothing() -> None:
    world = World(2, 100, 100)
    world.add_autoscaler(
        "other", world.hpa.spec.scaleTargetRef, {"maxReplicas": 3, "metrics": (cpu(),)}
    )
    world.turn()
    assert world.replicas == 2
    assert world.conditions()["ScalingActive"] == ("False", "AmbiguousSelector")
    text = "pods by selector app=d are controlled by multiple HPAs: [{h ns} {other ns}]"
    assert world.events.texts[0] == f"Warning AmbiguousSelector: {text}"


def test_a_refused_change_is_reported() -> None:
    world = World(2, 100, 100)
    world.store.failures = [ApiError(403, "Forbidden", "no")]
    world.turn()
    assert world.conditions()["AbleToScale"] == ("False", "FailedUpdateScale")
    name = "cpu resource utilization (percentage of request)"
    assert world.events.texts == [
        f"Warning FailedRescale: New size: 4; reason: {name} above target; error: no"
    ]


# --- limits

PODS = (HPAScalingPolicy(type="Pods", value=4, periodSeconds=60),)
BOTH = (*PODS, HPAScalingPolicy(type="Percent", value=50, periodSeconds=60))


def rules(select: str = "Max", window: int = 0) -> HPAScalingRules:
    return HPAScalingRules(policies=BOTH, selectPolicy=select, stabilizationWindowSeconds=window)


@pytest.mark.parametrize(
    ("select", "sign", "replicas"),
    [
        ("Max", 1, 15),
        ("Min", 1, 14),
        ("Disabled", 1, 10),
        ("Max", -1, 5),
        ("Min", -1, 6),
        ("Disabled", -1, 10),
    ],
)
def test_the_policies_of_a_behavior(select: str, sign: int, replicas: int) -> None:
    assert rate_limit(rules(select), 10, History(), NOW, sign=sign) == replicas


def test_changes_of_the_period_count() -> None:
    history = History(
        changes=(
            Change(5, NOW - timedelta(seconds=90)),
            Change(3, NOW - timedelta(seconds=30)),
        )
    )
    assert rate_limit(rules("Min"), 10, history, NOW, sign=1) == 11


@pytest.mark.parametrize(
    ("desired", "replicas", "reason"),
    [
        (9, 7, "ScaleUpStabilized"),
        (1, 5, "ScaleDownStabilized"),
        (6, 6, "ReadyForNewScale"),
    ],
)
def test_recent_recommendations_hold_a_change_back(
    desired: int, replicas: int, reason: str
) -> None:
    recent = NOW - timedelta(seconds=30)
    history = History((Recommendation(7, recent), Recommendation(5, recent)))
    behavior = HorizontalPodAutoscalerBehavior(
        scaleUp=rules(window=60 if desired > 6 else 0),
        scaleDown=rules(window=60 if desired < 6 else 0),
    )
    kept = history if desired != 9 else History(history.recommendations[:1])
    if desired == 1:
        kept = History(history.recommendations[1:])
    result = limit(behavior, Range(6, 1, 20), desired, kept, NOW)
    assert (result.replicas, result.stabilized[0]) == (replicas, reason)


@given(
    st.integers(1, 30),
    st.integers(0, 60),
    st.integers(1, 5),
    st.integers(5, 40),
    st.sampled_from(["Max", "Min", "Disabled", ""]),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 400)), max_size=6),
)
@examples(200)
def test_limits_hold(
    current: int,
    desired: int,
    least: int,
    most: int,
    select: str,
    past: list[tuple[int, int]],
) -> None:
    current = max(least, min(current, most))
    history = History(
        tuple(Recommendation(number, NOW - timedelta(seconds=age)) for number, age in past)
    )
    behavior = None
    if select:
        behavior = HorizontalPodAutoscalerBehavior(scaleUp=rules(select), scaleDown=rules(select))
    result = limit(behavior, Range(current, least, most), desired, history, NOW)
    assert least <= result.replicas <= most
    if select == "Disabled":
        assert result.replicas == current
    if select in ("Max", "Min"):
        assert current - max(4, current // 2 + 1) <= result.replicas
        assert result.replicas <= current + max(4, current // 2 + 1)
