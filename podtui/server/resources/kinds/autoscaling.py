"""The kinds of the group autoscaling."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from podtui.api.autoscaling import HorizontalPodAutoscaler, MetricSpec, MetricStatus
from podtui.api.times import since
from podtui.manifest.strategies import autoscaling
from podtui.server.encoding.decoding import Tree
from podtui.server.resources import autoscaling_v1
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Columns,
    TableColumn,
)

_MOST_METRICS = 2


def _autoscaler(item: HorizontalPodAutoscaler, now: datetime) -> list[Cell]:
    spec, target = item.spec, item.spec.scaleTargetRef
    return [
        item.metadata.name,
        f"{target.kind}/{target.name}",
        _metrics(item),
        "<unset>" if spec.minReplicas is None else str(spec.minReplicas),
        spec.maxReplicas,
        item.status.currentReplicas or 0,
        since(item.metadata.creationTimestamp, now),
    ]


def _metrics(item: HorizontalPodAutoscaler) -> str:
    statuses = item.status.currentMetrics
    texts = [
        _metric(spec, statuses[index] if index < len(statuses) else None)
        for index, spec in enumerate(item.spec.metrics)
    ]
    left = len(texts) - _MOST_METRICS
    shown = ", ".join(texts[:_MOST_METRICS])
    return (f"{shown} + {left} more..." if left > 0 else shown) or NONE


def _metric(spec: MetricSpec, status: MetricStatus | None) -> str:
    """Return the current value and the target of a metric."""
    match spec.type:
        case "External" | "Object" | "Pods":
            source = spec.external or spec.object or spec.pods
            measured = status and (status.external or status.object or status.pods)
            named = ""
        case "Resource" | "ContainerResource":
            source = resource = spec.resource or spec.containerResource
            measured = status and (status.resource or status.containerResource)
            named = f"{resource.name}: " if resource is not None else ""
        case _:
            return "<unknown type>"
    if source is None:
        return "<unknown type>"
    target, current = source.target, measured.current if measured else None
    if target.averageValue:
        average = (current and current.averageValue) or UNKNOWN
        mark = " (avg)" if spec.type in ("External", "Object") else ""
        return f"{named}{average}/{target.averageValue}{mark}"
    if not named:
        return f"{(current and current.value) or UNKNOWN}/{target.value}"
    used, wanted = current and current.averageUtilization, target.averageUtilization
    shown = UNKNOWN if used is None else f"{used}%"
    return f"{named}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _autoscalers(
    api_version: str,
    to_wire: Callable[[HorizontalPodAutoscaler], Tree],
    from_wire: Callable[[Tree], Tree] | None = None,
) -> Resource[HorizontalPodAutoscaler]:
    return Resource(
        api_version=api_version,
        plural="horizontalpodautoscalers",
        singular="horizontalpodautoscaler",
        kind="HorizontalPodAutoscaler",
        namespaced=True,
        columns=_COLUMNS,
        short_names=("hpa",),
        categories=("all",),
        subresources={"status": ("get", "patch", "update")},
        record="horizontalpodautoscalers",
        strategy=autoscaling.AUTOSCALERS,
        updates={"status": autoscaling.AUTOSCALER_STATUS},
        to_wire=to_wire,
        from_wire=from_wire,
    )


_COLUMNS = Columns(
    (
        NAME,
        TableColumn("Reference", "Workload that is scaled."),
        TableColumn("Targets", "Current values of the metrics, and their targets."),
        TableColumn("MinPods", "Smallest number of pods."),
        TableColumn("MaxPods", "Largest number of pods."),
        TableColumn("Replicas", "Current number of pods."),
        AGE,
    ),
    _autoscaler,
)
AUTOSCALERS = _autoscalers(autoscaling.API_VERSION, autoscaling.to_wire)
AUTOSCALERS_V1 = _autoscalers(
    autoscaling_v1.API_VERSION, autoscaling_v1.to_v1, autoscaling_v1.from_v1
)
