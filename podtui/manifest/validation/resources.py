"""Rules for resources: names, amounts, requests and limits, claims, pod-level totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from podtui.api.names import CONFIG_MIRROR
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import (
    ObjectMeta,
    PodResourceClaim,
    PodSpec,
    ResourceClaim,
    ResourceRequirements,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_found,
    not_supported,
    required,
)

HUGE_PAGES: Final = "hugepages-"
_COUNTED: Final = frozenset(
    "pods resourcequotas services replicationcontrollers secrets configmaps"
    " persistentvolumeclaims services.nodeports services.loadbalancers".split()
)
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD: Final = (
    _COUNTED
    | _COMPUTE
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE}
    | {"storage", "requests.storage"}
)
_ZERO: Final = Quantity(0)

NameRule = Callable[[str, str], Errors]
Amounts = dict[str, Quantity]


def quantity(text: str) -> Quantity | None:
    """Return the amount; None if the text is not a quantity."""
    try:
        return parse_quantity(text)
    except ValueError:
        return None


def is_native(name: str) -> bool:
    """Return whether the name belongs to Kubernetes: without a domain, or in ``kubernetes.io/``."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether the name is an extended resource, counted in whole numbers."""
    return (
        not is_native(name)
        and not name.startswith("requests.")
        and not formats.qualified_name(f"requests.{name}")
    )


def may_overcommit(name: str) -> bool:
    return is_native(name) and not name.startswith(HUGE_PAGES)


def resource_name(name: str, path: str) -> Errors:
    problems = formats.qualified_name(name)
    if problems:
        yield from invalid_each(path, name, problems)
    elif "/" not in name and not (
        name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    ):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: str) -> Errors:
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not name.startswith(HUGE_PAGES):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def pod_resource_name(name: str, path: str) -> Errors:
    broken = list(resource_name(name, path))
    yield from broken
    if not broken and name not in ("cpu", "memory") and not name.startswith(HUGE_PAGES):
        yield not_supported(path, name, ("cpu", HUGE_PAGES, "memory"))


def amount(name: str, value: Quantity, path: str) -> Errors:
    """Check that the amount is not negative, and an integer if the resource is counted."""
    if value < _ZERO:
        yield invalid(path, str(value), "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and value.overflowing_milli_value() % 1000:
        yield invalid(path, str(value), "must be an integer")


def _huge_pages(name: str, value: Quantity, path: str) -> Errors:
    if not _is_multiple(value, quantity(name.removeprefix(HUGE_PAGES))):
        yield invalid(path, str(value), f"{value} is not positive integer multiple of {name}")


def _is_multiple(value: Quantity, page: Quantity | None) -> bool:
    if page is None or page <= _ZERO or page.overflowing_milli_value() % 1000:
        return False
    size = page.overflowing_value()
    return size != 0 and value.overflowing_value() % size == 0


def _amounts(entries: Mapping[str, str], rule: NameRule, path: str, amounts: Amounts) -> Errors:
    """Check each entry; valid amounts are added to ``amounts``."""
    for name, text in entries.items():
        here = f"{path}[{name}]"
        yield from rule(name, here)
        value = quantity(text)
        if value is None:
            yield invalid(here, text, "must be a valid resource quantity")
            continue
        amounts[name] = value
        yield from amount(name, value, here)
        if name.startswith(HUGE_PAGES):
            yield from _huge_pages(name, value, here)


def requirements(
    needs: ResourceRequirements,
    path: str,
    claim_names: Iterable[str] = (),
    rule: NameRule = container_resource_name,
) -> Errors:
    limits: Amounts = {}
    requests: Amounts = {}
    yield from _amounts(needs.limits, rule, f"{path}.limits", limits)
    yield from _amounts(needs.requests, rule, f"{path}.requests", requests)
    for name, request in requests.items():
        yield from _request_against_limit(name, request, limits.get(name), needs, path)
    names = {*needs.limits, *needs.requests}
    if any(name.startswith(HUGE_PAGES) for name in names) and names.isdisjoint({"cpu", "memory"}):
        yield forbidden(path, "HugePages require cpu or memory")
    yield from claims(needs.claims, frozenset(claim_names), f"{path}.claims")


def _request_against_limit(
    name: str, request: Quantity, limit: Quantity | None, needs: ResourceRequirements, path: str
) -> Errors:
    shown_as, at = f"{path}.requests", f"{path}.requests[{name}]"
    if limit is None:
        if name not in needs.limits and not may_overcommit(name):
            yield required(
                f"{path}.limits", "Limit must be set for non overcommitable resources", at=at
            )
    elif request != limit and not may_overcommit(name):
        yield invalid(shown_as, str(request), f"must be equal to {name} limit of {limit}", at=at)
    elif request > limit:
        yield invalid(
            shown_as, str(request), f"must be less than or equal to {name} limit of {limit}", at=at
        )


def claims(refs: tuple[ResourceClaim, ...], names: frozenset[str], path: str) -> Errors:
    """Check a container's claims: each must be a claim of the pod, as a whole or one request of it,
    and occur only once."""
    seen: set[str] = set()
    for index, ref in enumerate(refs):
        here = f"{path}[{index}]"
        if not ref.name:
            yield required(here, at=f"{here}.name")
            continue
        if ref.name in seen:
            yield duplicate(here, ref.name)
        else:
            key = ref.name
            if ref.request:
                problems = formats.dns_label(ref.request)
                yield from invalid_each(f"{here}.request", ref.request, problems)
                key = f"{ref.name}/{ref.request}"
            if key in seen:
                yield duplicate(here, key)
            elif not ref.request:
                for other in seen:
                    if other.startswith(f"{ref.name}/"):
                        yield duplicate(here, ref.name)
            seen.add(key)
        if ref.name not in names:
            where = f": {', '.join(sorted(names))}" if names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{where}"
            yield not_found(here, ref.name, sorted(names), detail, at=f"{here}.name")


def pod_claims(entries: tuple[PodResourceClaim, ...], meta: ObjectMeta, path: str) -> Errors:
    """Check the pod's ``resourceClaims``."""
    seen: set[str] = set()
    for index, claim in enumerate(entries):
        here = f"{path}[{index}]"
        if CONFIG_MIRROR in meta.annotations:
            # An empty field path, as the API server writes it.
            yield forbidden("[]", "static pods do not support resource claims", at=here)
            continue
        if not claim.name:
            yield required(f"{here}.name")
        elif claim.name in seen:
            yield duplicate(f"{here}.name", claim.name)
        else:
            yield from invalid_each(f"{here}.name", claim.name, formats.dns_label(claim.name))
            seen.add(claim.name)
        yield from _claim_source(claim, here)


def _claim_source(claim: PodResourceClaim, path: str) -> Errors:
    names = {
        "resourceClaimName": claim.resourceClaimName,
        "resourceClaimTemplateName": claim.resourceClaimTemplateName,
    }
    if all(names.values()):
        yield invalid(
            path,
            claim,
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        )
    if not any(names.values()):
        yield invalid(
            path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
    for field, name in names.items():
        if name:
            yield from invalid_each(f"{path}.{field}", name, formats.dns_subdomain(name))


def pod_resources(spec: PodSpec, claim_names: frozenset[str], path: str) -> Errors:
    """Check the pod's own requests and limits against the sum of its containers."""
    if spec.resources is None:
        return
    if spec.os is not None and spec.os.name == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    if spec.resources.claims:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from requirements(spec.resources, path, claim_names, pod_resource_name)
    yield from _totals(spec, spec.resources, path)


def _totals(spec: PodSpec, pod_resources: ResourceRequirements, path: str) -> Errors:
    requests, limits = _readable(pod_resources.requests), _readable(pod_resources.limits)
    for name, total in aggregate(spec, lambda needs: needs.requests).items():
        if name in requests and total > requests[name]:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            yield invalid(f"{path}.requests[{name}]", str(requests[name]), detail)
    for name, total in aggregate(spec, lambda needs: needs.limits).items():
        if name.startswith(HUGE_PAGES) and name in limits and total > limits[name]:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            yield invalid(f"{path}.limits[{name}]", str(limits[name]), detail)
    for index, container in enumerate(spec.containers):
        for name, limit in _readable(container.resources.limits).items():
            if name in limits and limit > limits[name]:
                yield invalid(
                    f"{path}.containers[{index}][{name}].limits",
                    str(limit),
                    f"must be less than or equal to pod limits of {limits[name]}",
                    at=f"spec.containers[{index}].resources.limits[{name}]",
                )


def _readable(entries: Mapping[str, str]) -> Amounts:
    read = {name: quantity(text) for name, text in entries.items()}
    return {name: value for name, value in read.items() if value is not None}


def _plus(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, _ZERO) + right.get(name, _ZERO) for name in left | right}


def _maximum(left: Amounts, right: Amounts) -> Amounts:
    return {
        name: max(left.get(name, right.get(name, _ZERO)), right.get(name, left.get(name, _ZERO)))
        for name in left | right
    }


def aggregate(spec: PodSpec, pick: Callable[[ResourceRequirements], Mapping[str, str]]) -> Amounts:
    """Return the peak demand of the pod's containers (kubelet.md §13.5).

    Containers and sidecars run in parallel; each plain init container runs only with the sidecars
    that were started before it.
    """
    together: Amounts = {}
    for container in spec.containers:
        together = _plus(together, _readable(pick(container.resources)))
    sidecars: Amounts = {}
    worst: Amounts = {}
    for container in spec.initContainers:
        amounts = _readable(pick(container.resources))
        if is_sidecar(container):
            together, sidecars = _plus(together, amounts), _plus(sidecars, amounts)
            worst = _maximum(worst, sidecars)
        else:
            worst = _maximum(worst, _plus(sidecars, amounts))
    return _maximum(together, worst)


def overhead(entries: Mapping[str, str], path: str) -> Errors:
    """Check a pod's overhead, which the API server validates like the limits of a container."""
    limits = ResourceRequirements(limits=dict(entries))
    for error in requirements(limits, path):
        yield replace(error, at=path + error.path.removeprefix(f"{path}.limits"))
