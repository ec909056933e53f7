"""What pods ask of a node (reference §5.1, 13.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podtui.api.names import CONFIG_SOURCE
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Quantity, bounded, parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
_POD_LEVEL: Final = ("cpu", "memory")

Amounts = dict[str, Quantity]

RequestsOf = Callable[[Pod], Mapping[str, int]]
"""Answers as `pod_requests` does."""


def is_static(pod: Pod) -> bool:
    """Whether the pod comes from a file rather than from an API server (reference §0.1)."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, "api") != "api"


def is_critical(pod: Pod) -> bool:
    """Static pods always are; others by their priority."""
    return is_static(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def in_unit(name: str, amount: Quantity) -> int:
    """cpu in thousandths of a core, everything else in units or bytes; within 64 bits."""
    return bounded(amount.milli_value() if name == "cpu" else amount.value())


def amounts(texts: Mapping[str, str]) -> dict[str, int]:
    """A resource list of the API as whole numbers. Raises ValueError for no quantity."""
    return {name: in_unit(name, parse_quantity(text)) for name, text in texts.items()}


def _parsed(texts: Mapping[str, str]) -> Amounts:
    return {name: parse_quantity(text) for name, text in texts.items()}


def _plus(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def _larger(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        if name not in total or total[name] < amount:
            total[name] = amount
    return total


def _aggregate(pod: Pod, parts: Mapping[str, Amounts]) -> Amounts:
    """The most that is ever in use at once: all that runs in the end, or one init container beside
    the sidecars that came before it."""
    total: Amounts = {}
    for container in pod.spec.containers:
        total = _plus(total, parts[container.name])
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.initContainers:
        own = parts[container.name]
        if is_sidecar(container):
            total = _plus(total, own)
            sidecars = _plus(sidecars, own)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _plus(own, sidecars))
    return _larger(total, peak)


def is_pod_level(name: str) -> bool:
    """Whether ``spec.resources`` of a pod may name the resource."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


def container_requests(pod: Pod) -> Amounts:
    """What the containers request together, without what the pod itself says."""
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    return _aggregate(pod, {one.name: _parsed(one.resources.requests) for one in everyone})


def request_amounts(pod: Pod) -> Amounts:
    """The pod's request by resource, overhead included (reference §5.1)."""
    total = container_requests(pod)
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.requests)
        total |= {name: amount for name, amount in own.items() if is_pod_level(name)}
    return _plus(total, _parsed(pod.spec.overhead))


def freed_requests(pod: Pod) -> dict[str, int]:
    """Count what preempting the pod frees (`GetResourceRequest` of the kubelet).

    Unlike `pod_requests`, a pod with pod-level resources counts by these alone, and overhead is
    added only to a request that is not zero.
    """
    total = container_requests(pod)
    own = pod.spec.resources
    if own is not None and any(map(is_pod_level, (*own.requests, *own.limits))):
        requests = _parsed(own.requests)
        total = {name: amount for name, amount in requests.items() if is_pod_level(name)}
    overhead = _parsed(pod.spec.overhead)
    total = _plus(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return {name: in_unit(name, amount) for name, amount in total.items()}


def limit_amounts(pod: Pod) -> Amounts:
    """The pod's limits by the same formula; overhead counts only where there is a limit."""
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    total = _aggregate(pod, {one.name: _parsed(one.resources.limits) for one in everyone})
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.limits)
        total |= {name: amount for name, amount in own.items() if is_pod_level(name)}
    overhead = _parsed(pod.spec.overhead)
    return _plus(total, {name: amount for name, amount in overhead.items() if name in total})


def pod_requests(pod: Pod) -> dict[str, int]:
    """`request_amounts` as whole numbers: cpu in milli, the rest in units or bytes."""
    return {name: in_unit(name, amount) for name, amount in request_amounts(pod).items()}


def pod_limits(pod: Pod) -> dict[str, int]:
    """`limit_amounts` as whole numbers."""
    return {name: in_unit(name, amount) for name, amount in limit_amounts(pod).items()}


def _texts(found: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(found.items())}


def pod_resources(pod: Pod) -> ResourceRequirements:
    """What ``status.resources`` says of the whole pod, in canonical quantities."""
    return ResourceRequirements(
        limits=_texts(limit_amounts(pod)), requests=_texts(request_amounts(pod))
    )


def effective_limit(pod: Pod, container: Container, name: str) -> int | None:
    """The container's limit, else the pod's own; None where neither has one. A zero is none."""
    found = [container.resources.limits.get(name)]
    if pod.spec.resources is not None and is_pod_level(name):
        found.append(pod.spec.resources.limits.get(name))
    amounts_found = (in_unit(name, parse_quantity(text)) for text in found if text is not None)
    return next((amount for amount in amounts_found if amount), None)
