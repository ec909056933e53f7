"""Decide by heartbeats and leases whether the kubelet of a node still answers, and which NoExecute
taint its node gets, as the node lifecycle controller of a cluster does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import structs

from podtui.api.times import parse_time, rfc3339
from podtui.api.v1 import Lease, Node, NodeCondition, Pod, Taint

GRACE_SECONDS: Final = 50.0
"""Without a heartbeat or a renewed lease for this time, the state of a node is unknown."""
STARTUP_GRACE_SECONDS: Final = 60.0
"""The same for a node whose kubelet has never posted a status, since its creation."""
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
"""A node with this label does not count when nodes that are not ready are compared with others."""
_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_NO_EXECUTE: Final = "NoExecute"
_DISRUPTED_SHARE: Final = 0.55


@dataclass(frozen=True, slots=True)
class Contact:
    """The last sign of life of a node: the heartbeat of its Ready condition, None without that
    condition, the time at which its lease was renewed, and when the last change of these was
    seen, in seconds of the monotonic clock."""

    heartbeat: str | None
    renewed: str
    seen: float


def ready_condition(node: Node) -> NodeCondition | None:
    return next((item for item in node.status.conditions if item.type == "Ready"), None)


def is_ready(node: Node) -> bool:
    ready = ready_condition(node)
    return ready is not None and ready.status == "True"


def contact(
    node: Node, lease: Lease | None, before: Contact | None, now: datetime, monotonic: float
) -> Contact:
    """Return the last contact. The times that a kubelet writes are only compared with each other:
    its clock may differ."""
    ready = ready_condition(node)
    heartbeat = None if ready is None else ready.lastHeartbeatTime or ""
    renewed = "" if lease is None else lease.spec.renewTime or ""
    if before is None:
        created = parse_time(node.metadata.creationTimestamp)
        age = 0.0 if created is None else max(0.0, (now - created).total_seconds())
        return Contact(heartbeat, renewed, monotonic if renewed or ready else monotonic - age)
    if heartbeat != before.heartbeat or renewed > before.renewed:
        return Contact(heartbeat, renewed, monotonic)
    return before


def is_lost(last: Contact, monotonic: float) -> bool:
    grace = STARTUP_GRACE_SECONDS if last.heartbeat is None else GRACE_SECONDS
    return monotonic - last.seen > grace


def with_unknown_conditions(node: Node, now: datetime) -> Node:
    """Return a node without contact: nothing that its kubelet has reported is certain."""
    conditions = list(node.status.conditions)
    types = [condition.type for condition in conditions]
    for kind in _KUBELET_CONDITIONS:
        if kind not in types:
            conditions.append(
                NodeCondition(
                    type=kind,
                    status="Unknown",
                    reason="NodeStatusNeverUpdated",
                    message="Kubelet never posted node status.",
                    lastHeartbeatTime=node.metadata.creationTimestamp,
                    lastTransitionTime=rfc3339(now),
                )
            )
            continue
        index = types.index(kind)
        if conditions[index].status != "Unknown":
            conditions[index] = structs.replace(
                conditions[index],
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=rfc3339(now),
            )
    status = structs.replace(node.status, conditions=tuple(conditions))
    return structs.replace(node, status=status)


def no_execute_key(node: Node) -> str:
    """Return the key of the NoExecute taint for a node's Ready condition, or ``""``."""
    ready = ready_condition(node)
    statuses = {"False": NOT_READY, "Unknown": UNREACHABLE}
    return "" if ready is None else statuses.get(ready.status, "")


def evicts(nodes: Iterable[Node]) -> bool | None:
    """Return whether nodes that are not ready get NoExecute taints.

    If no node is ready, the fault is likely elsewhere: False, and the taints are removed. If more
    than two and most nodes are not ready: None, and the taints stay as they are."""
    counted = [node for node in nodes if EXCLUDED not in node.metadata.labels]
    failed = sum(not is_ready(node) for node in counted)
    if counted and failed == len(counted):
        return False
    if failed > 2 and failed / len(counted) >= _DISRUPTED_SHARE:
        return None
    return True


def execution_taints(node: Node, evict: bool | None, now: datetime) -> tuple[Taint, ...]:
    """Return the node's taints with the NoExecute taint for its Ready condition.

    ``evict`` is the result of `evicts`."""
    key = no_execute_key(node)
    taints = node.spec.taints
    ours = [taint for taint in taints if _is_ours(taint)]
    if evict is None and key and not ours:
        return taints
    wanted = key if evict is not False else ""
    if [taint.key for taint in ours] == ([wanted] if wanted else []):
        return taints
    others = tuple(taint for taint in taints if not _is_ours(taint))
    if not wanted:
        return others
    return (*others, Taint(key=wanted, effect=_NO_EXECUTE, timeAdded=rfc3339(now)))


def _is_ours(taint: Taint) -> bool:
    return taint.effect == _NO_EXECUTE and taint.key in (NOT_READY, UNREACHABLE)


def marked_not_ready(pod: Pod, now: datetime) -> Pod:
    """Return the pod with ``Ready`` false; the same pod if it is not ready."""
    if not any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions):
        return pod
    conditions = tuple(
        structs.replace(item, status="False", lastTransitionTime=rfc3339(now))
        if item.type == "Ready"
        else item
        for item in pod.status.conditions
    )
    return structs.replace(pod, status=structs.replace(pod.status, conditions=conditions))
