"""Resource requests and limits of pods, and their QoS classes (kubelet.md §5.1, 7.4, 13.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from podtui.api.names import CONFIG_SOURCE
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Quantity, bounded, canonical, parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
_POD_LEVEL: Final = ("cpu", "memory")
Amounts = dict[str, Quantity]
RequestsOf = Callable[[Pod], Mapping[str, int]]
"""A function like `pod_requests`."""
GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_COUNTED: Final = ("cpu", "memory")


def is_static(pod: Pod) -> bool:
    """Return True if the pod comes from a file, not from an API server (kubelet.md §0.1)."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, "api") != "api"


def is_critical(pod: Pod) -> bool:
    """Return True for static pods, and for others with a system-critical priority."""
    return is_static(pod) or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def in_unit(name: str, amount: Quantity) -> int:
    """Convert cpu to millicores, everything else to units or bytes, bounded to 64 bits."""
    return bounded(amount.milli_value() if name == "cpu" else amount.value())


def amounts(texts: Mapping[str, str]) -> dict[str, int]:
    """Convert a resource list of the API to integers. Raises ValueError for an invalid quantity."""
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
    """Return the peak demand: either that of all long-running containers, or that of one init
    container with the sidecars before it."""
    total: Amounts = {}
    for container in pod.spec.containers:
        total = _plus(total, parts[container.name])
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.initContainers:
        requests = parts[container.name]
        if is_sidecar(container):
            total = _plus(total, requests)
            sidecars = _plus(sidecars, requests)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _plus(requests, sidecars))
    return _larger(total, peak)


def is_pod_level(name: str) -> bool:
    """Return True if the ``spec.resources`` of a pod may set the resource."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


def container_requests(
    pod: Pod, *, in_use: bool = False, missing: Mapping[str, Quantity] | None = None
) -> Amounts:
    """Return the combined requests of the containers, without the pod-level requests.

    See `request_amounts`. ``missing`` replaces requests that a container does not have.
    """
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    parts = {container.name: _parsed(container.resources.requests) for container in containers}
    if in_use:
        parts |= _parts_in_use(pod, parts)
    if missing:
        parts = {name: {**missing, **amounts} for name, amounts in parts.items()}
    return _aggregate(pod, parts)


def request_amounts(
    pod: Pod,
    *,
    in_use: bool = False,
    missing: Mapping[str, Quantity] | None = None,
    pod_level: bool = True,
) -> Amounts:
    """Return the pod's requests by resource, overhead included (kubelet.md §5.1).

    ``in_use`` counts what a running pod holds: during a resize the larger of the old and the new
    requests, as reported in its status.
    """
    total = container_requests(pod, in_use=in_use, missing=missing)
    resources = pod.spec.resources
    if resources is not None and pod_level:
        pod_requests = _parsed(resources.requests)
        reported = pod.status.resources
        if in_use and reported is not None:
            held = _effective_requests(
                pod, pod_requests, reported.requests, pod.status.allocatedResources
            )
            pod_requests = {name: held.get(name, Quantity(0)) for name in pod_requests}
        total |= {name: amount for name, amount in pod_requests.items() if is_pod_level(name)}
    return _plus(total, _parsed(pod.spec.overhead))


def _parts_in_use(pod: Pod, parts: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the requests of the long-running containers whose status reports resources."""
    running = {
        container.name
        for container in (*filter(is_sidecar, pod.spec.initContainers), *pod.spec.containers)
    }
    return {
        status.name: _effective_requests(
            pod, parts[status.name], status.resources.requests, status.allocatedResources
        )
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
        if status.name in running and status.resources is not None
    }


def _effective_requests(
    pod: Pod, wanted: Amounts, actual: Mapping[str, str], allocated: Mapping[str, str]
) -> Amounts:
    """Return the largest of the three; an infeasible resize is not counted."""
    held = _larger(_parsed(actual), _parsed(allocated))
    pending = next(
        (condition for condition in pod.status.conditions if condition.type == "PodResizePending"),
        None,
    )
    infeasible = pending is not None and pending.reason == "Infeasible"
    return held if infeasible else _larger(wanted, held)


def freed_requests(pod: Pod) -> dict[str, int]:
    """Return the requests that preempting the pod frees (`GetResourceRequest` of the kubelet).

    Unlike `pod_requests`, only pod-level resources count if the pod has any, and overhead is added
    only to a request that is not zero.
    """
    total = container_requests(pod)
    resources = pod.spec.resources
    if resources is not None and any(map(is_pod_level, (*resources.requests, *resources.limits))):
        requests = _parsed(resources.requests)
        total = {name: amount for name, amount in requests.items() if is_pod_level(name)}
    overhead = _parsed(pod.spec.overhead)
    total = _plus(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return {name: in_unit(name, amount) for name, amount in total.items()}


def limit_amounts(pod: Pod) -> Amounts:
    """Return the pod's limits by the same formula; overhead is added only to existing limits."""
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    total = _aggregate(
        pod, {container.name: _parsed(container.resources.limits) for container in containers}
    )
    if pod.spec.resources is not None:
        pod_limits = _parsed(pod.spec.resources.limits)
        total |= {name: amount for name, amount in pod_limits.items() if is_pod_level(name)}
    overhead = _parsed(pod.spec.overhead)
    return _plus(total, {name: amount for name, amount in overhead.items() if name in total})


def pod_requests(pod: Pod) -> dict[str, int]:
    """Return `request_amounts` as integers: cpu in millicores, the rest in units or bytes."""
    return {name: in_unit(name, amount) for name, amount in request_amounts(pod).items()}


def pod_limits(pod: Pod) -> dict[str, int]:
    """Return `limit_amounts` as integers."""
    return {name: in_unit(name, amount) for name, amount in limit_amounts(pod).items()}


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def pod_resources(pod: Pod) -> ResourceRequirements:
    """Return the ``status.resources`` of the whole pod, in canonical quantities."""
    return ResourceRequirements(
        limits=_texts(limit_amounts(pod)), requests=_texts(request_amounts(pod))
    )


def effective_limit(pod: Pod, container: Container, name: str) -> int | None:
    """Return the container's limit, else the pod's own; None if neither is set. Zero is unset."""
    texts = [container.resources.limits.get(name)]
    if pod.spec.resources is not None and is_pod_level(name):
        texts.append(pod.spec.resources.limits.get(name))
    amounts_found = (in_unit(name, parse_quantity(text)) for text in texts if text is not None)
    return next((amount for amount in amounts_found if amount), None)


def canonical_resources(resources: ResourceRequirements) -> ResourceRequirements:
    """Return the same amounts in the API's canonical form."""

    def texts(amounts: Mapping[str, str]) -> dict[str, str]:
        return {name: canonical(text) for name, text in sorted(amounts.items())}

    return ResourceRequirements(limits=texts(resources.limits), requests=texts(resources.requests))


# --- QoS classes


def _positive(amounts: dict[str, str]) -> dict[str, Quantity]:
    counted = ((name, parse_quantity(amounts[name])) for name in _COUNTED if name in amounts)
    return {name: amount for name, amount in counted if amount.nano > 0}


def _sum(into: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        into[name] = into[name] + amount if name in into else amount


def _class(resources: Iterable[ResourceRequirements]) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for each in resources:
        container_limits = _positive(each.limits)
        _sum(requests, _positive(each.requests))
        _sum(limits, container_limits)
        guaranteed = guaranteed and len(container_limits) == len(_COUNTED)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE


def compute_qos_class(pod: Pod) -> str:
    """Compute the QoS class from the spec, ignoring the status."""
    spec = pod.spec
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        return _class((spec.resources,))
    return _class(container.resources for container in (*spec.initContainers, *spec.containers))


def qos_class(pod: Pod) -> str:
    """Return the QoS class from the status or, if not set there, from the spec."""
    return pod.status.qosClass or compute_qos_class(pod)
