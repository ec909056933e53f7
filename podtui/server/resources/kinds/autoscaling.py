"""The kinds of the group autoscaling."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import autoscaling

AUTOSCALERS = Resource(
    api_version="autoscaling/v2",
    plural="horizontalpodautoscalers",
    singular="horizontalpodautoscaler",
    kind="HorizontalPodAutoscaler",
    namespaced=True,
    short_names=("hpa",),
    categories=("all",),
    subresources={"status": ("get", "patch", "update")},
    record="horizontalpodautoscalers",
    strategy=autoscaling.AUTOSCALERS,
    updates={"status": autoscaling.AUTOSCALER_STATUS},
)
