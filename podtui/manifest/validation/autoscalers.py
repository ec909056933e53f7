"""The API server's rules for a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Final

from podtui.api.autoscaling import (
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from podtui.api.quantity import Quantity, parse_quantity
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.resources import container_resource_name

_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The fields of a metric by its type, in the order of the checks."""
_TYPES: Final = tuple(sorted(_SOURCES))
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
_ZERO: Final = Quantity(0)

Source = (
    ObjectMetricSource
    | ExternalMetricSource
    | PodsMetricSource
    | ResourceMetricSource
    | ContainerResourceMetricSource
)


def validate_autoscaler(
    item: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None = None
) -> Errors:
    """``old`` is the object before an update: an API version that does not change may be
    anything."""
    if old is None:
        yield from object_meta(item.metadata, "metadata")
    spec, path = item.spec, "spec"
    fewest, most = spec.minReplicas, spec.maxReplicas
    if fewest is not None and fewest < 1:
        yield invalid(f"{path}.minReplicas", fewest, "must be greater than or equal to 1")
    if most == 0:
        yield required(f"{path}.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid(f"{path}.maxReplicas", most, "must be greater than or equal to 1")
    if fewest is not None and most < fewest:
        why = "must be greater than or equal to `minReplicas`"
        yield invalid(f"{path}.maxReplicas", most, why)
    target, before = spec.scaleTargetRef, old and old.spec.scaleTargetRef
    yield from _reference(
        target,
        f"{path}.scaleTargetRef",
        group_required=target.kind != "ReplicationController",
        any_version=before is not None
        and (target.apiVersion, target.kind) == (before.apiVersion, before.kind),
    )
    for index, metric in enumerate(spec.metrics):
        yield from _metric(metric, f"{path}.metrics[{index}]")
    if fewest == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        why = "must specify at least one Object or External metric to support scaling to zero"
        yield forbidden(f"{path}.metrics", f"{why} replicas")
    if spec.behavior is not None:
        yield from _scaling_rules(spec.behavior.scaleUp, f"{path}.behavior.scaleUp")
        yield from _scaling_rules(spec.behavior.scaleDown, f"{path}.behavior.scaleDown")


def autoscaler_status(item: HorizontalPodAutoscaler) -> Errors:
    for name in ("currentReplicas", "desiredReplicas"):
        yield from formats.nonnegative(getattr(item.status, name), f"status.{name}")


def _reference(
    reference: CrossVersionObjectReference,
    path: str,
    *,
    group_required: bool = False,
    any_version: bool = False,
) -> Errors:
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield required(f"{path}.{name}")
        else:
            yield from invalid_each(f"{path}.{name}", value, formats.path_segment(value))
    version = reference.apiVersion
    if any_version:
        return
    if version.count("/") > 1:
        why = f"unexpected GroupVersion string: {version}"
        yield invalid(f"{path}.apiVersion", version, why)
    elif group_required and not version.rpartition("/")[0]:
        yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _scaling_rules(rules: HPAScalingRules | None, path: str) -> Errors:
    if rules is None:
        return
    window = rules.stabilizationWindowSeconds
    if window is not None and window < 0:
        why = "must be greater than or equal to zero"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, why)
    if window is not None and window > _LONGEST_WINDOW:
        why = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, why)
    if rules.selectPolicy and rules.selectPolicy not in _SELECT_POLICIES:
        yield not_supported(f"{path}.selectPolicy", rules.selectPolicy, _SELECT_POLICIES)
    if not rules.policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies):
        yield from _scaling_policy(policy, f"{path}.policies[{index}]")
    if rules.tolerance and parse_quantity(rules.tolerance) < _ZERO:
        why = "must be greater than or equal to 0"
        yield invalid(f"{path}.tolerance", rules.tolerance, why)


def _scaling_policy(policy: HPAScalingPolicy, path: str) -> Errors:
    if policy.type not in _POLICIES:
        yield not_supported(f"{path}.type", policy.type, _POLICIES)
    if policy.value <= 0:
        yield invalid(f"{path}.value", policy.value, "must be greater than zero")
    if policy.periodSeconds <= 0:
        yield invalid(f"{path}.periodSeconds", policy.periodSeconds, "must be greater than zero")
    if policy.periodSeconds > _LONGEST_PERIOD:
        why = f"must be less than or equal to {_LONGEST_PERIOD}"
        yield invalid(f"{path}.periodSeconds", policy.periodSeconds, why)


def _metric(metric: MetricSpec, path: str) -> Errors:
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric.type not in _TYPES:
        yield not_supported(f"{path}.type", metric.type, _TYPES)
    present = [name for name in _SOURCES.values() if getattr(metric, name) is not None]
    if present:
        yield from _source(getattr(metric, present[0]), f"{path}.{present[0]}")
    expected = _SOURCES.get(metric.type)
    if expected is None:
        yield not_supported(f"{path}.type", metric.type, _TYPES)
    elif expected not in present:
        why = "must populate information for the given metric source"
        yield required(f"{path}.{expected}", why)
    if len(present) != 1:
        for name in present:
            if name != expected:
                yield forbidden(f"{path}.{name}", "must populate the given metric source only")


def _source(source: Source, path: str) -> Errors:
    match source:
        case ObjectMetricSource():
            yield from _reference(source.describedObject, f"{path}.describedObject")
        case ResourceMetricSource() | ContainerResourceMetricSource():
            yield from _resource(source, path)
        case _:
            pass
    if isinstance(source, ObjectMetricSource | ExternalMetricSource | PodsMetricSource):
        yield from _identifier(source.metric, f"{path}.metric")
    here, target = f"{path}.target", source.target
    yield from _target(target, here)
    value, average = target.value, target.averageValue
    match source:
        case ObjectMetricSource():
            if not value and not average:
                why = "must set either a target value or averageValue"
                yield required(f"{here}.averageValue", why)
        case ExternalMetricSource():
            if not value and not average:
                why = "must set either a target value for metric or a per-pod target"
                yield required(f"{here}.averageValue", why)
            if value and average:
                why = "may not set both a target value for metric and a per-pod target"
                yield forbidden(f"{here}.value", why)
        case PodsMetricSource():
            if not average:
                why = "must specify a positive target averageValue"
                yield required(f"{here}.averageValue", why)
        case _:
            if target.averageUtilization is None and not average:
                why = "must set either a target raw value or a target utilization"
                yield required(f"{here}.averageUtilization", why)
            if target.averageUtilization is not None and average:
                why = "may not set both a target raw value and a target utilization"
                yield forbidden(f"{here}.averageValue", why)


def _resource(source: ResourceMetricSource | ContainerResourceMetricSource, path: str) -> Errors:
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    if isinstance(source, ResourceMetricSource):
        return
    if source.name:
        yield from container_resource_name(source.name, f"{path}.name")
    if not source.container:
        yield required(f"{path}.container", "must specify a container")
    else:
        problems = formats.dns_label(source.container)
        yield from invalid_each(f"{path}.container", source.container, problems)


def _identifier(metric: MetricIdentifier, path: str) -> Errors:
    if not metric.name:
        yield required(f"{path}.name", "must specify a metric name")
    else:
        yield from invalid_each(f"{path}.name", metric.name, formats.path_segment(metric.name))


def _target(target: MetricTarget, path: str) -> Errors:
    if not target.type:
        yield required(f"{path}.type", "must specify a metric target type")
    if target.type not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{path}.type", GoText(target.type), why)
    for name, value in (("value", target.value), ("averageValue", target.averageValue)):
        if value and parse_quantity(value) <= _ZERO:
            yield invalid(f"{path}.{name}", value, "must be positive")
    utilization = target.averageUtilization
    if utilization is not None and utilization < 1:
        yield invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")
