"""The kinds of the core group, beside those of pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.v1 import (
    LimitRange,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
)
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

LIMIT_RANGES: Final = Strategy(struct=LimitRange)
VOLUMES: Final = Strategy(
    struct=PersistentVolume,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
VOLUME_STATUS: Final = replace(VOLUMES, prepare_update=with_old_spec)
VOLUME_CLAIMS: Final = Strategy(
    struct=PersistentVolumeClaim,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
VOLUME_CLAIM_STATUS: Final = replace(VOLUME_CLAIMS, prepare_update=with_old_spec)
RESOURCE_QUOTAS: Final = Strategy(
    struct=ResourceQuota,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
RESOURCE_QUOTA_STATUS: Final = replace(RESOURCE_QUOTAS, prepare_update=with_old_spec)
