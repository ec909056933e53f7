"""Quotas and limits of namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from uuid import uuid4

from msgspec import structs

from podtui.api.v1 import LimitRange, ResourceQuota, ResourceQuotaStatus
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import (
    Strategy,
    no_warnings,
    with_meta,
    with_old_spec,
)
from podtui.manifest.validation.quotas import (
    limit_range_update,
    quota_status_update,
    quota_update,
    quota_warnings,
    validate_limit_range,
    validate_quota,
)


def _limit_defaults(tree: Tree) -> None:
    limits: list[Tree] = tree.setdefault("spec", {}).setdefault("limits", [])
    for item in limits:
        if item.setdefault("type", "") == "Container":
            default: Tree = {**item.get("max", {}), **item.get("default", {})}
            request: Tree = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
            if default:
                item["default"] = dict(sorted(default.items()))
            if request:
                item["defaultRequest"] = dict(sorted(request.items()))


def _prepare_limits(item: LimitRange) -> LimitRange:
    return item if item.metadata.name else with_meta(item, name=str(uuid4()))


def _prepare_quota(item: ResourceQuota) -> ResourceQuota:
    return structs.replace(item, status=ResourceQuotaStatus())


def _with_old_status(new: ResourceQuota, old: ResourceQuota) -> ResourceQuota:
    return structs.replace(new, status=old.status)


def _quota_warnings(new: ResourceQuota, old: ResourceQuota | None) -> Iterable[str]:
    return quota_warnings(new) if old is None else ()


LIMIT_RANGES: Final = Strategy(
    struct=LimitRange,
    defaults=_limit_defaults,
    prepare_create=_prepare_limits,
    validate_create=validate_limit_range,
    validate_update=limit_range_update,
    create_on_update=True,
)
RESOURCE_QUOTAS: Final = Strategy(
    struct=ResourceQuota,
    prepare_create=_prepare_quota,
    prepare_update=_with_old_status,
    validate_create=validate_quota,
    validate_update=quota_update,
    warnings=_quota_warnings,
    returns_deleted=True,
)
RESOURCE_QUOTA_STATUS: Final = replace(
    RESOURCE_QUOTAS,
    prepare_update=with_old_spec,
    validate_update=quota_status_update,
    warnings=no_warnings,
)
