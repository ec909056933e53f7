"""``autoscaling/v1``: another form of the autoscalers of ``autoscaling/v2``.

Only the utilization of CPU has fields. What else ``autoscaling/v2`` has is in annotations, in the
forms of the metrics of ``v1``, as in an API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.manifest.strategies.autoscaling import to_wire
from podtui.server.encoding.decoding import DecodeError, Tree

API_VERSION: Final = "autoscaling/v1"
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT_METRICS: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_ANNOTATIONS: Final = (_METRICS, _CURRENT_METRICS, _CONDITIONS, _BEHAVIOR)
Path = tuple[str, ...]
Names = Mapping[str, Mapping[str, Path]]
_METRIC: Final = {"metricName": ("metric", "name"), "selector": ("metric", "selector")}
_EXTERNAL: Final = {"metricName": ("metric", "name"), "metricSelector": ("metric", "selector")}
_RESOURCE: Final = {
    "name": ("name",),
    "targetAverageUtilization": ("target", "averageUtilization"),
    "targetAverageValue": ("target", "averageValue"),
}
_SPEC: Final[Names] = {
    "resource": _RESOURCE,
    "containerResource": {**_RESOURCE, "container": ("container",)},
    "pods": {**_METRIC, "targetAverageValue": ("target", "averageValue")},
    "object": {
        **_METRIC,
        "target": ("describedObject",),
        "targetValue": ("target", "value"),
        "averageValue": ("target", "averageValue"),
    },
    "external": {
        **_EXTERNAL,
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
    },
}
_CURRENT_RESOURCE: Final = {
    "name": ("name",),
    "currentAverageUtilization": ("current", "averageUtilization"),
    "currentAverageValue": ("current", "averageValue"),
}
_STATUS: Final[Names] = {
    "resource": _CURRENT_RESOURCE,
    "containerResource": {**_CURRENT_RESOURCE, "container": ("container",)},
    "pods": {**_METRIC, "currentAverageValue": ("current", "averageValue")},
    "object": {
        **_METRIC,
        "target": ("describedObject",),
        "currentValue": ("current", "value"),
        "averageValue": ("current", "averageValue"),
    },
    "external": {
        **_EXTERNAL,
        "currentValue": ("current", "value"),
        "currentAverageValue": ("current", "averageValue"),
    },
}
"""The fields of metrics in ``v1``, and where they are in ``v2``."""


def to_v1(item: HorizontalPodAutoscaler) -> Tree:
    """Return the JSON form of ``autoscaling/v1``."""
    tree = to_wire(item)
    spec, status = dict(tree["spec"]), dict(tree["status"])
    metrics: list[Tree] = spec.pop("metrics", [])
    behavior = spec.pop("behavior", None)
    others = [metric for metric in metrics if _cpu_utilization(metric) is None]
    utilization = next(filter(_is_set, map(_cpu_utilization, metrics)), None)
    if utilization is not None:
        spec["targetCPUUtilizationPercentage"] = utilization
    current: list[Tree] = status.pop("currentMetrics", None) or []
    conditions: list[Tree] = status.pop("conditions", [])
    used = next(filter(_is_set, map(_current_utilization, current)), None)
    if used is not None:
        status["currentCPUUtilizationPercentage"] = used
    status = {"currentReplicas": 0, "desiredReplicas": 0} | status
    kept: dict[str, Any] = {
        _METRICS: [_to_v1_metric(metric, _SPEC) for metric in others],
        _CURRENT_METRICS: [_to_v1_metric(metric, _STATUS) for metric in current],
        _CONDITIONS: conditions,
        _BEHAVIOR: behavior,
    }
    meta = dict(tree["metadata"])
    annotations = _without_ours(meta) | {
        name: msgspec.json.encode(value).decode() for name, value in kept.items() if value
    }
    if annotations:
        meta["annotations"] = annotations
    return {
        **tree,
        "apiVersion": API_VERSION,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


def from_v1(tree: Tree) -> Tree:
    """Return a document of ``autoscaling/v1`` in the form of ``autoscaling/v2``. Raises
    `DecodeError`."""
    meta = _tree(tree.get("metadata"))
    annotations = _tree(meta.get("annotations"))
    converted = dict(tree)
    for name, convert in (("spec", _spec), ("status", _status)):
        if isinstance(part := tree.get(name), dict):
            converted[name] = convert({**cast("Tree", part)}, annotations)
    if annotations:
        converted["metadata"] = {**meta, "annotations": _without_ours(meta)}
    return converted


def _spec(spec: Tree, annotations: Mapping[str, Any]) -> Tree:
    for name in ("metrics", "behavior"):
        if name in spec:
            raise DecodeError(f'strict decoding error: unknown field "spec.{name}"')
    metrics = [_from_v1_metric(metric, _SPEC) for metric in _trees(annotations.get(_METRICS))]
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    behavior = _parsed(annotations.get(_BEHAVIOR))
    if isinstance(behavior, dict) and behavior:
        spec["behavior"] = behavior
    return spec


def _status(status: Tree, annotations: Mapping[str, Any]) -> Tree:
    status.pop("currentCPUUtilizationPercentage", None)
    current = _trees(annotations.get(_CURRENT_METRICS))
    if current:
        status["currentMetrics"] = [_from_v1_metric(metric, _STATUS) for metric in current]
    conditions = _trees(annotations.get(_CONDITIONS))
    if conditions:
        status["conditions"] = conditions
    return status


def _cpu_utilization(metric: Tree) -> int | None:
    return _utilization(metric, "target")


def _current_utilization(metric: Tree) -> int | None:
    return _utilization(metric, "current")


def _utilization(metric: Tree, part: str) -> int | None:
    resource = metric.get("resource")
    if metric["type"] != "Resource" or resource is None or resource["name"] != "cpu":
        return None
    return resource[part].get("averageUtilization")


def _is_set(value: int | None) -> bool:
    return value is not None


def _to_v1_metric(metric: Tree, names: Names) -> Tree:
    converted: Tree = {"type": metric["type"]}
    for source, fields in names.items():
        if source in metric:
            values = {name: _at(metric[source], path) for name, path in fields.items()}
            converted[source] = {name: value for name, value in values.items() if value is not None}
    return converted


def _at(tree: Tree, path: Path) -> Any:
    value: Any = tree
    for name in path:
        value = _tree(value).get(name)
    return value


def _from_v1_metric(metric: Tree, names: Names) -> Tree:
    converted: Tree = {"type": metric.get("type", "")}
    for source, fields in names.items():
        values = metric.get(source)
        if not isinstance(values, dict):
            continue
        part: Tree = {}
        for name, path in fields.items():
            if name in values:
                inner = part
                for step in path[:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = values[name]
        if names is _SPEC:
            part["target"] = _target(part.get("target", {}))
        else:
            part.setdefault("current", {})
        converted[source] = part
    return converted


def _target(target: Tree) -> Tree:
    """Return the target with its type, which ``v1`` does not have."""
    if "averageUtilization" in target:
        return {"type": "Utilization", **target}
    if "averageValue" in target:
        return {"type": "AverageValue", "averageValue": target["averageValue"]}
    return {"type": "Value", **target}


def _parsed(text: object) -> Any:
    """Parse an annotation. Invalid ones are ignored, as by an API server."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None


def _trees(text: object) -> Sequence[Tree]:
    items = _parsed(text)
    listed = cast("list[Any]", items) if isinstance(items, list) else []
    return [cast("Tree", item) for item in listed if isinstance(item, dict)]


def _tree(value: object) -> Tree:
    """Return the mapping; an empty one if the value is none."""
    return cast("Tree", value) if isinstance(value, dict) else {}


def _without_ours(meta: Tree) -> dict[str, Any]:
    annotations: dict[str, Any] = meta.get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _ANNOTATIONS}
