"""Cgroup values of a container: CPU, memory, processes, OOM score (kubelet.md §13.1-13.3).

There is no cgroup for the pod: a Docker engine creates one per container and none around them.
The values that a kubelet sets on the pod's cgroup are set on each container instead:
``podPidsLimit``, and the pod's own limits for containers that have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podtui.api.pod_resources import (
    BEST_EFFORT,
    GUARANTEED,
    container_requests,
    effective_limit,
    in_unit,
    is_critical,
    qos_class,
)
from podtui.api.pods import is_sidecar
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.resource_managers.resource_managers import Placement
from podtui.kubelet.types import NodeResources
from podtui.runtime.protocol import Resources

CPU_PERIOD: Final = 100_000
MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
MIN_QUOTA: Final = 1000
NODE_CRITICAL: Final = "system-node-critical"
_GUARANTEED_SCORE: Final = -997
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupRules:
    """Converts resource amounts to cgroup values on this node. ``period`` is in microseconds.

    Without ``lower_oom``, the engine cannot go below its own OOM score; the minimum is then 0.
    """

    quota: bool = True
    period: int = CPU_PERIOD
    pids: int = 0
    lower_oom: bool = True


def cgroup_rules(config: KubeletConfig, *, lower_oom: bool = True) -> CgroupRules:
    """Return the rules of ``cpuCFSQuota``, ``cpuCFSQuotaPeriod`` and ``podPidsLimit``."""
    return CgroupRules(
        quota=config.cpu_cfs_quota,
        period=round(config.cpu_cfs_quota_period * _MICROSECONDS),
        pids=max(config.pod_pids_limit, 0),
        lower_oom=lower_oom,
    )


def cpu_shares(milli: int) -> int:
    """Convert a request in millicores to cgroup v1 shares."""
    if milli == 0:
        return MIN_SHARES
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def shares_as_milli(shares: int) -> int:
    """Convert shares to the matching request in millicores, rounded up."""
    return -(-shares * 1000 // 1024)


def cpu_quota(milli: int, period: int = CPU_PERIOD) -> int:
    """Convert a limit in millicores to microseconds per period; 0 means no limit."""
    return max(milli * period // 1000, MIN_QUOTA) if milli else 0


def quota_as_milli(quota: int, period: int) -> int:
    """Convert a quota to the matching limit in millicores; 0 means no limit."""
    return quota * 1000 // period if quota > 0 and period > 0 else 0


def container_resources(
    pod: Pod,
    container: Container,
    node: NodeResources,
    rules: CgroupRules | None = None,
    placement: Placement | None = None,
) -> Resources:
    """Return the cgroup values of one container (kubelet.md §13.1, 13.7).

    A container with exclusive CPUs has no CPU quota.
    """
    rules, placement = rules or CgroupRules(), placement or Placement()
    cpu_limit = effective_limit(pod, container, "cpu") or 0
    request = container.resources.requests.get("cpu")
    cpu = cpu_limit if request is None else in_unit("cpu", parse_quantity(request))
    score = oom_score_adj(pod, container, node.capacity.get("memory", 0))
    limited = rules.quota and not placement.exclusive
    quota = cpu_quota(cpu_limit, rules.period) if limited else 0
    return Resources(
        cpu_shares=cpu_shares(cpu),
        cpu_quota=quota,
        cpu_period=rules.period if quota else 0,
        memory=effective_limit(pod, container, "memory") or 0,
        oom_score_adj=score if rules.lower_oom else max(score, 0),
        pids=rules.pids,
        cpuset_cpus=placement.cpus,
        cpuset_mems=placement.mems,
    )


def _memory_request(container: Container) -> int:
    text = container.resources.requests.get("memory")
    return 0 if text is None else parse_quantity(text).value()


def _unallocated(pod: Pod) -> int:
    """Return each container's share of the memory that the pod requests beyond its containers."""
    resources = pod.spec.resources
    requested = (
        0 if resources is None else parse_quantity(resources.requests.get("memory", "0")).value()
    )
    if not requested:
        return 0
    taken = container_requests(pod).get("memory")
    left = requested - (taken.value() if taken is not None else 0)
    return left // (len(pod.spec.containers) + len(pod.spec.initContainers))


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the OOM score adjustment: -997 is killed last, 1000 first (kubelet.md §13.3)."""
    if is_critical(pod) and pod.spec.priorityClassName == NODE_CRITICAL:
        return _GUARANTEED_SCORE
    qos = qos_class(pod)
    if qos == GUARANTEED:
        return _GUARANTEED_SCORE
    if qos == BEST_EFFORT or memory_capacity <= 0:
        return 1000
    rest = _unallocated(pod)

    def score(memory: int) -> int:
        return 1000 - 1000 * (memory + rest) // memory_capacity

    result = score(_memory_request(container))
    if is_sidecar(container):
        result = min(
            result, score(min(_memory_request(regular) for regular in pod.spec.containers))
        )
    return min(max(result, 1000 + _GUARANTEED_SCORE), 999)
