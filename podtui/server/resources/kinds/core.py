"""The kinds of the core group, beside those of pods."""

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
VOLUMES = Resource(
    api_version="v1",
    plural="persistentvolumes",
    singular="persistentvolume",
    kind="PersistentVolume",
    namespaced=False,
    short_names=("pv",),
    subresources={"status": ("get", "patch", "update")},
    record="persistentvolumes",
    strategy=core.VOLUMES,
    updates={"status": core.VOLUME_STATUS},
)
VOLUME_CLAIMS = Resource(
    api_version="v1",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    kind="PersistentVolumeClaim",
    namespaced=True,
    short_names=("pvc",),
    subresources={"status": ("get", "patch", "update")},
    record="persistentvolumeclaims",
    strategy=core.VOLUME_CLAIMS,
    updates={"status": core.VOLUME_CLAIM_STATUS},
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
