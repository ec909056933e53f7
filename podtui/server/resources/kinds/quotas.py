"""Quotas and limits of namespaces."""

from __future__ import annotations

from datetime import datetime

from podtui.api.times import since
from podtui.api.v1 import LimitRange, ResourceQuota
from podtui.manifest.strategies import quotas
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn


def _limit_range(item: LimitRange, now: datetime) -> list[Cell]:
    return [item.metadata.name, item.metadata.creationTimestamp or ""]


def _quota(item: ResourceQuota, now: datetime) -> list[Cell]:
    used, hard = item.status.used, item.status.hard
    columns: tuple[list[str], list[str]] = ([], [])
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        columns[name.startswith("limits.")].append(text)
    return [
        item.metadata.name,
        *map(", ".join, columns),
        since(item.metadata.creationTimestamp, now),
    ]


LIMIT_RANGES = Resource(
    api_version="v1",
    plural="limitranges",
    singular="limitrange",
    kind="LimitRange",
    namespaced=True,
    columns=Columns(
        (NAME, TableColumn("Created At", "Time at which the object was created.", type="date")),
        _limit_range,
    ),
    short_names=("limits",),
    record="limitranges",
    strategy=quotas.LIMIT_RANGES,
)
RESOURCE_QUOTAS = Resource(
    api_version="v1",
    plural="resourcequotas",
    singular="resourcequota",
    kind="ResourceQuota",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Request", "Used and allowed amounts of all resources but limits."),
            TableColumn("Limit", "Used and allowed amounts of the limits of containers."),
            AGE,
        ),
        _quota,
    ),
    short_names=("quota",),
    subresources={"status": ("get", "patch", "update")},
    record="resourcequotas",
    strategy=quotas.RESOURCE_QUOTAS,
    updates={"status": quotas.RESOURCE_QUOTA_STATUS},
)
