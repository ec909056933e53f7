"""The kinds of the group scheduling.k8s.io."""

from __future__ import annotations

from datetime import datetime

from podtui.api.scheduling import PriorityClass
from podtui.api.times import since
from podtui.manifest.strategies import scheduling
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn


def _priority_class(item: PriorityClass, now: datetime) -> list[Cell]:
    meta = item.metadata
    age = since(meta.creationTimestamp, now)
    return [meta.name, item.value, bool(item.globalDefault), age, item.preemptionPolicy]


PRIORITY_CLASSES = Resource(
    api_version="scheduling.k8s.io/v1",
    plural="priorityclasses",
    singular="priorityclass",
    kind="PriorityClass",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("Value", "Priority of the pods of this class.", type="integer"),
            TableColumn(
                "Global-Default", "Whether pods without a class have this one.", type="boolean"
            ),
            AGE,
            TableColumn("PreemptionPolicy", "Whether the pods may preempt others."),
        ),
        _priority_class,
    ),
    short_names=("pc",),
    record="priorityclasses",
    strategy=scheduling.PRIORITY_CLASSES,
)
