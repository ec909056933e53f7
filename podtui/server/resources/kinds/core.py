"""Quotas and limits of namespaces."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import core

LIMIT_RANGES = Resource(
    api_version="v1",
    plural="limitranges",
    singular="limitrange",
    kind="LimitRange",
    namespaced=True,
    short_names=("limits",),
    record="limitranges",
    strategy=core.LIMIT_RANGES,
)
RESOURCE_QUOTAS = Resource(
    api_version="v1",
    plural="resourcequotas",
    singular="resourcequota",
    kind="ResourceQuota",
    namespaced=True,
    short_names=("quota",),
    subresources={"status": ("get", "patch", "update")},
    record="resourcequotas",
    strategy=core.RESOURCE_QUOTAS,
    updates={"status": core.RESOURCE_QUOTA_STATUS},
)
