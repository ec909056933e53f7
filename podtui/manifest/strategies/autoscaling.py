"""Horizontal pod autoscalers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
from msgspec import structs

from podtui.api.autoscaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, with_old_spec
from podtui.manifest.validation.autoscalers import autoscaler_status, validate_autoscaler
from podtui.manifest.validation.errors import Errors

API_VERSION: Final = "autoscaling/v2"
_CPU_PERCENT: Final = 80
_PERIOD: Final = 15


def to_wire(item: HorizontalPodAutoscaler) -> Tree:
    """Return the JSON form: the metrics in the status are written even if there are none."""
    tree: Tree = msgspec.to_builtins(item)
    tree["status"] = {"currentMetrics": None} | tree["status"]
    return tree | {"apiVersion": API_VERSION, "kind": "HorizontalPodAutoscaler"}


def _defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, defaults in (("scaleUp", _scale_up()), ("scaleDown", _scale_down())):
            behavior[direction] = defaults | behavior.get(direction, {})


def _scale_up() -> Tree:
    pods = {"type": "Pods", "value": 4, "periodSeconds": _PERIOD}
    return _scale_down() | {
        "stabilizationWindowSeconds": 0,
        "policies": [pods, *_scale_down()["policies"]],
    }


def _scale_down() -> Tree:
    percent = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
    return {"selectPolicy": "Max", "policies": [percent]}


def _prepare_create(item: HorizontalPodAutoscaler) -> HorizontalPodAutoscaler:
    return structs.replace(item, status=HorizontalPodAutoscalerStatus())


def _prepare_update(
    new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler
) -> HorizontalPodAutoscaler:
    return structs.replace(new, status=old.status)


def _status_errors(new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler) -> Errors:
    yield from autoscaler_status(new)


AUTOSCALERS: Final = Strategy(
    struct=HorizontalPodAutoscaler,
    defaults=_defaults,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=validate_autoscaler,
    validate_update=validate_autoscaler,
)
AUTOSCALER_STATUS: Final = replace(
    AUTOSCALERS, prepare_update=with_old_spec, validate_update=_status_errors
)
