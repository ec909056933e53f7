"""The admission plugin LimitRanger: default requests and limits of containers, and the bounds of
containers, pods and claims.

Each LimitRange of the namespace counts, ordered by name. The first one that is broken names all of
its broken bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from podtui.api.pod_resources import limit_amounts, request_amounts
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import (
    Container,
    LimitRange,
    LimitRangeItem,
    PersistentVolumeClaim,
    Pod,
    ResourceRequirements,
)
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.status import forbidden
from podtui.store.protocol import Records

ANNOTATION: Final = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, Quantity]


async def limit_ranges(namespace: str, records: Records) -> list[LimitRange]:
    listing = await records.list("limitranges", namespace)
    return [item for item in listing.items if isinstance(item, LimitRange)]


# --- defaults


def with_default_resources(pod: Pod, ranges: Iterable[LimitRange]) -> Pod:
    """Return the pod with the default requests and limits of its containers, and an annotation
    that names them."""
    for each in ranges:
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for item in each.spec.limits:
            if item.type == "Container":
                requests |= item.defaultRequest
                limits |= item.default
        pod = _with_defaults(pod, requests, limits)
    return pod


def _with_defaults(pod: Pod, requests: Mapping[str, str], limits: Mapping[str, str]) -> Pod:
    changes: list[str] = []

    def filled(container: Container, title: str) -> Container:
        resources = container.resources
        for missing, kind in (
            (requests.keys() - resources.requests.keys(), "request"),
            (limits.keys() - resources.limits.keys(), "limit"),
        ):
            if missing:
                changes.append(f"{', '.join(sorted(missing))} {kind} for {title} {container.name}")
        new = structs.replace(
            resources,
            requests=dict(sorted({**requests, **resources.requests}.items())),
            limits=dict(sorted({**limits, **resources.limits}.items())),
        )
        return structs.replace(container, resources=new)

    spec = structs.replace(
        pod.spec,
        containers=tuple(filled(each, "container") for each in pod.spec.containers),
        initContainers=tuple(filled(each, "init container") for each in pod.spec.initContainers),
    )
    if not changes:
        return pod
    text = f"LimitRanger plugin set: {'; '.join(changes)}"
    annotations = {**pod.metadata.annotations, ANNOTATION: text}
    return with_meta(structs.replace(pod, spec=spec), annotations=annotations)


# --- bounds


def refuse_outside(item: Pod | PersistentVolumeClaim, ranges: Iterable[LimitRange]) -> None:
    """Refuse an object that is outside the bounds. Raises `StatusError` 403."""
    problems: Callable[[LimitRangeItem], Iterator[str]]
    if isinstance(item, Pod):
        plural, problems = "pods", _pod_problems(item)
    else:
        plural, problems = "persistentvolumeclaims", _claim_problems(item)
    for each in ranges:
        broken = list(dict.fromkeys(text for limit in each.spec.limits for text in problems(limit)))
        if broken:
            why = broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]"
            raise forbidden(plural, item.metadata.name, why)


def _pod_problems(pod: Pod) -> Callable[[LimitRangeItem], Iterator[str]]:
    # The overhead does not count.
    bare = structs.replace(pod, spec=structs.replace(pod.spec, overhead={}))

    def problems(limit: LimitRangeItem) -> Iterator[str]:
        if limit.type == "Container":
            for container in (*pod.spec.containers, *pod.spec.initContainers):
                resources = container.resources
                yield from _problems(limit, *_amounts(resources))
        elif limit.type == "Pod":
            yield from _problems(limit, request_amounts(bare), limit_amounts(bare))

    return problems


def _claim_problems(claim: PersistentVolumeClaim) -> Callable[[LimitRangeItem], Iterator[str]]:
    resources = claim.spec.resources
    requests = {} if resources is None else _parsed(resources.requests)

    def problems(limit: LimitRangeItem) -> Iterator[str]:
        if limit.type != "PersistentVolumeClaim":
            return
        for name, least in sorted(_parsed(limit.min).items()):
            yield from _below(limit.type, name, least, requests, {})
        for name, most in sorted(_parsed(limit.max).items()):
            head = f"maximum {name} usage per {limit.type} is {most}"
            if name not in requests:
                yield f"{head}.  No request is specified"
            elif requests[name] > most:
                yield f"{head}, but request is {requests[name]}"

    return problems


def _parsed(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def _amounts(resources: ResourceRequirements) -> tuple[Amounts, Amounts]:
    return _parsed(resources.requests), _parsed(resources.limits)


def _problems(limit: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield the bounds that requests and limits break, in the words of the API server."""
    for name, least in sorted(_parsed(limit.min).items()):
        yield from _below(limit.type, name, least, requests, limits)
    for name, most in sorted(_parsed(limit.max).items()):
        head = f"maximum {name} usage per {limit.type} is {most}"
        if name not in limits:
            yield f"{head}.  No limit is specified"
        elif limits[name] > most:
            yield f"{head}, but limit is {limits[name]}"
        elif name in requests and requests[name] > most:
            yield f"{head}, but request is {requests[name]}"
    for name, ratio in sorted(_parsed(limit.maxLimitRequestRatio).items()):
        head = f"{name} max limit to request ratio per {limit.type} is {ratio}"
        if not requests.get(name):
            yield f"{head}, but no request is specified or request is 0"
        elif not limits.get(name):
            yield f"{head}, but no limit is specified or limit is 0"
        else:
            actual = limits[name].fraction() / requests[name].fraction()
            if actual > ratio.fraction():
                yield f"{head}, but provided ratio is {float(actual):f}"


def _below(
    kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    head = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{head}.  No request is specified"
    elif requests[name] < least:
        yield f"{head}, but request is {requests[name]}"
    elif name in limits and limits[name] < least:
        yield f"{head}, but limit is {limits[name]}"
