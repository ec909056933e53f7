"""Quotas and limits of namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.v1 import LimitRange, ResourceQuota
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

LIMIT_RANGES: Final = Strategy(struct=LimitRange)
RESOURCE_QUOTAS: Final = Strategy(
    struct=ResourceQuota,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
RESOURCE_QUOTA_STATUS: Final = replace(RESOURCE_QUOTAS, prepare_update=with_old_spec)
