"""The kinds of the group scheduling.k8s.io."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import scheduling

PRIORITY_CLASSES = Resource(
    api_version="scheduling.k8s.io/v1",
    plural="priorityclasses",
    singular="priorityclass",
    kind="PriorityClass",
    namespaced=False,
    short_names=("pc",),
    record="priorityclasses",
    strategy=scheduling.PRIORITY_CLASSES,
)
