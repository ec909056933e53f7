"""What pods ask of a node and what containers get of it (reference §5.1, 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from podtui.api.names import CONFIG_SOURCE
from podtui.api.pods import is_sidecar
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.kubelet.qos import BEST_EFFORT, GUARANTEED, qos_class
from podtui.kubelet.types import NodeResources
from podtui.runtime.protocol import Resources

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
CPU_PERIOD: Final = 100_000
MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
MIN_QUOTA: Final = 1000
_GUARANTEED_SCORE: Final = -997
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
    """cpu in thousandths of a core, everything else in units or bytes."""
    return amount.milli_value() if name == "cpu" else amount.value()


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


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")


def request_amounts(pod: Pod) -> Amounts:
    """The pod's request by resource, overhead included (reference §5.1)."""
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    total = _aggregate(pod, {one.name: _parsed(one.resources.requests) for one in everyone})
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.requests)
        total |= {name: amount for name, amount in own.items() if _is_pod_level(name)}
    return _plus(total, _parsed(pod.spec.overhead))


def limit_amounts(pod: Pod) -> Amounts:
    """The pod's limits by the same formula; overhead counts only where there is a limit."""
    everyone = (*pod.spec.initContainers, *pod.spec.containers)
    total = _aggregate(pod, {one.name: _parsed(one.resources.limits) for one in everyone})
    if pod.spec.resources is not None:
        own = _parsed(pod.spec.resources.limits)
        total |= {name: amount for name, amount in own.items() if _is_pod_level(name)}
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


def container_status_resources(container: Container) -> ResourceRequirements:
    """What a container's status says that it has, in canonical quantities."""
    return ResourceRequirements(
        limits=_texts(_parsed(container.resources.limits)),
        requests=_texts(_parsed(container.resources.requests)),
    )


# --- cgroup values


def cpu_shares(milli: int) -> int:
    """cgroup v1 shares of a request in thousandths of a core."""
    if milli == 0:
        return MIN_SHARES
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def cpu_quota(milli: int, period: int = CPU_PERIOD) -> int:
    """Microseconds per period of a limit; 0 for none."""
    return max(milli * period // 1000, MIN_QUOTA) if milli else 0


def effective_limit(pod: Pod, container: Container, name: str) -> int | None:
    """The container's limit, else the pod's own; None where neither has one."""
    text = container.resources.limits.get(name)
    if text is None and pod.spec.resources is not None and _is_pod_level(name):
        text = pod.spec.resources.limits.get(name)
    return None if text is None else in_unit(name, parse_quantity(text))


def container_resources(
    pod: Pod, container: Container, node: NodeResources, *, lower_oom: bool = True
) -> Resources:
    """cgroup values of one container (reference §13.1).

    Without ``lower_oom`` the engine may not go below the score it has itself, and 0 is the least.
    """
    cpu_limit = effective_limit(pod, container, "cpu") or 0
    request = container.resources.requests.get("cpu")
    cpu = cpu_limit if request is None else in_unit("cpu", parse_quantity(request))
    score = oom_score_adj(pod, container, node.capacity.get("memory", 0))
    quota = cpu_quota(cpu_limit)
    return Resources(
        cpu_shares=cpu_shares(cpu),
        cpu_quota=quota,
        cpu_period=CPU_PERIOD if quota else 0,
        memory=effective_limit(pod, container, "memory") or 0,
        oom_score_adj=score if lower_oom else max(score, 0),
    )


def _memory_request(container: Container) -> int:
    text = container.resources.requests.get("memory")
    return 0 if text is None else parse_quantity(text).value()


def _total_memory(containers: Iterable[Container]) -> int:
    return sum(_memory_request(container) for container in containers)


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """How readily the kernel kills the container: -997 last, 1000 first (reference §13.3)."""
    if is_critical(pod) and pod.spec.priorityClassName == "system-node-critical":
        return _GUARANTEED_SCORE
    qos = qos_class(pod)
    if qos == GUARANTEED:
        return _GUARANTEED_SCORE
    if qos == BEST_EFFORT or memory_capacity <= 0:
        return 1000
    rest = 0
    if pod.spec.resources is not None and "memory" in pod.spec.resources.requests:
        everyone = (*pod.spec.initContainers, *pod.spec.containers)
        asked = parse_quantity(pod.spec.resources.requests["memory"]).value()
        rest = max(asked - _total_memory(everyone), 0) // len(everyone)

    def score(memory: int) -> int:
        return 1000 - 1000 * (memory + rest) // memory_capacity

    result = score(_memory_request(container))
    if is_sidecar(container):
        result = min(result, score(min(_memory_request(one) for one in pod.spec.containers)))
    return min(max(result, 1000 + _GUARANTEED_SCORE), 999)
