"""The API server's rules for a ResourceQuota and a LimitRange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import (
    LimitRange,
    LimitRangeItem,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ScopedResourceSelectorRequirement,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    required,
)
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.resources import (
    HUGE_PAGES,
    amount,
    container_resource_name,
    may_overcommit,
    resource_name,
)

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_COUNTED: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
_STANDARD: Final = frozenset(
    {
        *_COMPUTE,
        *_COUNTED,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE),
        "requests.storage",
    }
)
_OF_PODS: Final = frozenset(
    {
        "pods",
        "cpu",
        "memory",
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory")),
    }
)
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "BestEffort": frozenset({"pods"}),
    "CrossNamespacePodAffinity": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The scopes, and the standard resources that quotas with them may have."""
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITHOUT_VALUES: Final = _SCOPES.keys() - {"PriorityClass", "VolumeAttributesClass"}
_LIMIT_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_LIMITED: Final = ("cpu", "memory", "storage", "ephemeral-storage")
_ONE: Final = Quantity.of(1)
_IMMUTABLE: Final = "field is immutable"


# --- ResourceQuota


def validate_quota(item: ResourceQuota) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _spec(item.spec, "spec")


def quota_update(new: ResourceQuota, old: ResourceQuota) -> Errors:
    yield from _spec(new.spec, "spec")
    if set(new.spec.scopes) != set(old.spec.scopes):
        yield invalid("spec.scopes", new.spec.scopes, _IMMUTABLE)


def quota_status_update(new: ResourceQuota, old: ResourceQuota) -> Errors:
    status: ResourceQuotaStatus = new.status
    yield from _amounts(status.hard, "status.hard")
    yield from _amounts(status.used, "status.used")


def quota_warnings(item: ResourceQuota) -> Iterable[str]:
    hard = item.spec.hard
    for name in _LIMITED:
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        if request not in hard or limit not in hard:
            continue
        if parse_quantity(hard[request]) > parse_quantity(hard[limit]):
            yield (
                f"ResourceQuota {request} ({hard[request]}) should be less than"
                f" {limit} ({hard[limit]})"
            )


def _spec(spec: ResourceQuotaSpec, path: str) -> Errors:
    yield from _amounts(spec.hard, f"{path}.hard")
    yield from _scopes(spec, f"{path}.scopes")
    if spec.scopeSelector is not None:
        here = f"{path}.scopeSelector.matchExpressions"
        for requirement in spec.scopeSelector.matchExpressions:
            yield from _requirement(requirement, spec, here)
        names = {each.scopeName for each in spec.scopeSelector.matchExpressions}
        yield from _conflicts(names, spec, here)


def _amounts(hard: Mapping[str, str], path: str) -> Errors:
    for name, text in sorted(hard.items()):
        here = f"{path}[{name}]"
        yield from resource_name(name, here)
        if "/" not in name and not _is_standard(name):
            yield invalid(here, name, "must be a standard resource for quota")
        yield from amount(name, parse_quantity(text), here)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def _unsuitable(scope: str, spec: ResourceQuotaSpec) -> list[str]:
    """Return the names of the quota that do not go with a scope."""
    if scope not in _SCOPES:
        return []
    return [name for name in sorted(spec.hard) if _is_standard(name) and name not in _SCOPES[scope]]


def _scopes(spec: ResourceQuotaSpec, path: str) -> Errors:
    for scope in spec.scopes:
        if scope not in _SCOPES:
            yield invalid(path, spec.scopes, "unsupported scope")
        for _ in _unsuitable(scope, spec):
            yield invalid(path, spec.scopes, "unsupported scope applied to resource")
    yield from _conflicts(set(spec.scopes), spec, path)


def _conflicts(scopes: set[str], spec: ResourceQuotaSpec, path: str) -> Errors:
    for pair in _CONFLICTS:
        if pair <= scopes:
            yield invalid(path, spec.scopes, "conflicting scopes")


def _requirement(
    item: ScopedResourceSelectorRequirement, spec: ResourceQuotaSpec, path: str
) -> Errors:
    if item.scopeName not in _SCOPES:
        yield invalid(f"{path}.scopeName", item.scopeName, "unsupported scope")
    for _ in _unsuitable(item.scopeName, spec):
        yield invalid(path, spec.scopeSelector, "unsupported scope applied to resource")
    if item.scopeName in _WITHOUT_VALUES and item.operator != "Exists":
        yield invalid(
            f"{path}.operator",
            item.operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating,"
            " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
            " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        )
    match item.operator:
        case "In" | "NotIn":
            if not item.values:
                why = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope"
                    " selector"
                )
                yield required(f"{path}.values", why)
        case "Exists" | "DoesNotExist":
            if item.values:
                why = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope"
                    " selector"
                )
                yield invalid(f"{path}.values", item.values, why)
        case _:
            yield invalid(f"{path}.operator", item.operator, "not a valid selector operator")


# --- LimitRange


def validate_limit_range(item: LimitRange) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    types: set[str] = set()
    for index, limit in enumerate(item.spec.limits):
        here = f"spec.limits[{index}]"
        yield from _limit_type(limit.type, f"{here}.type")
        if limit.type in types:
            yield duplicate(f"{here}.type", limit.type)
        types.add(limit.type)
        yield from _limit(limit, here)


def limit_range_update(new: LimitRange, old: LimitRange) -> Errors:
    return validate_limit_range(new)


def _limit_type(name: str, path: str) -> Errors:
    problems = formats.qualified_name(name)
    if problems:
        yield from invalid_each(path, name, problems)
    elif "/" not in name and name not in _LIMIT_TYPES:
        yield invalid(path, name, "must be a standard limit type or fully qualified")


def _limit(item: LimitRangeItem, path: str) -> Errors:
    rule = container_resource_name if item.type in ("Container", "Pod") else resource_name
    fields = {
        "max": item.max,
        "min": item.min,
        "default": item.default,
        "defaultRequest": item.defaultRequest,
        "maxLimitRequestRatio": item.maxLimitRequestRatio,
    }
    amounts: dict[str, dict[str, Quantity]] = {}
    for field, entries in fields.items():
        if item.type == "Pod" and field.startswith("default"):
            if entries:
                yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name, text in sorted(entries.items()):
            yield from rule(name, f"{path}.{field}[{name}]")
            amounts.setdefault(name, {})[field] = parse_quantity(text)
        if field == "defaultRequest" and item.type == "PersistentVolumeClaim":
            yield from _storage_bounds(item, path)
    for name, given in sorted(amounts.items()):
        yield from _order(name, given, path)


def _storage_bounds(item: LimitRangeItem, path: str) -> Errors:
    if "storage" not in item.min and "storage" not in item.max:
        why = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", why)


def _order(name: str, given: Mapping[str, Quantity], path: str) -> Errors:
    """Check the amounts of one resource against each other."""
    least, most, ratio = given.get("min"), given.get("max"), given.get("maxLimitRequestRatio")
    default, request = given.get("default"), given.get("defaultRequest")

    def greater(
        field: str, shown: str, low: Quantity | None, high: Quantity | None, text: str
    ) -> Errors:
        """Report ``low`` above ``high``; ``text`` names both, with a bar between."""
        if low is not None and high is not None and low > high:
            first, _, second = text.partition("|")
            why = f"{first} value {low} is greater than {second} value {high}"
            yield invalid(f"{path}.{field}[{name}]", shown, why)

    yield from greater("min", str(least), least, most, "min|max")
    shown = str(request)
    yield from greater("defaultRequest", shown, least, request, "min|default request")
    yield from greater("defaultRequest", shown, request, most, "default request|max")
    yield from greater("defaultRequest", shown, request, default, "default request|default limit")
    yield from greater("default", str(least), least, default, "min|default")
    yield from greater("default", str(most), default, most, "default|max")
    if ratio is not None:
        here = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio < _ONE:
            yield invalid(here, str(ratio), f"ratio {ratio} is less than 1")
        if least is not None and most is not None and least:
            bound = most.fraction() / least.fraction()
            if ratio.fraction() > bound:
                why = f"ratio {ratio} is greater than max/min = {float(bound):f}"
                yield invalid(here, str(ratio), why)
    if not may_overcommit(name) and None not in (default, request) and default != request:
        why = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{path}.defaultRequest[{name}]", str(request), why)
