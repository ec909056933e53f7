"""The node's books: what there is of each resource, what is promised, what is used, and by whom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import Node, Pod
from podtui.tui.format import cores, size
from podtui.tui.pod_status import is_rejected
from podtui.tui.rows import pod_key, pod_label
from podtui.tui.sanitize import clean
from podtui.tui.usage import Usage, amount, is_active, limited, requested
from podtui.tui.why import REJECTED

RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
TITLES: Final = {"cpu": "cpu", "memory": "memory", "pods": "pods", "ephemeral-storage": "storage"}
_LACKING: Final = re.compile(r"\(res: ([^,]+), q: ([0-9]+)\)")
_SHORT: Final = re.compile(r"resource: ([^,]+), requested: (\d+), used: (\d+), capacity: (\d+)")


@dataclass(frozen=True, slots=True)
class Share:
    key: str
    name: str
    requested: int
    used: int | None


@dataclass(frozen=True, slots=True)
class Gauge:
    """One resource, in milli cores, bytes or pods. ``used`` is None where nobody measures it."""

    resource: str
    capacity: int
    allocatable: int
    requested: int
    limits: int
    used: int | None
    shares: tuple[Share, ...]

    @property
    def reserved(self) -> int:
        return max(0, self.capacity - self.allocatable)

    def text(self, count: int) -> str:
        return in_unit(self.resource, count)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that the node refused. ``missing`` says what it would take; ``fits`` whether there is
    room for it now."""

    key: str
    name: str
    reason: str
    missing: str
    fits: bool


def in_unit(resource: str, count: int) -> str:
    if resource == "cpu":
        return cores(count)
    return str(count) if resource == "pods" else size(count)


def gauges(
    node: Node,
    pods: Iterable[Pod],
    usage: Mapping[tuple[str, str], Usage],
    node_use: Usage | None,
) -> tuple[Gauge, ...]:
    """One gauge for each of `RESOURCES` that the node has; shares largest first."""
    active = [pod for pod in pods if is_active(pod)]
    found: list[Gauge] = []
    for resource in RESOURCES:
        if resource not in node.status.capacity:
            continue
        shares = [_share(pod, resource, usage) for pod in active]
        shares.sort(key=lambda s: (-s.requested, s.name))
        used = None
        if node_use is not None and resource in ("cpu", "memory"):
            used = node_use.cpu if resource == "cpu" else node_use.memory
        capacity = amount(resource, node.status.capacity[resource])
        found.append(
            Gauge(
                resource,
                capacity,
                amount(resource, node.status.allocatable.get(resource, str(capacity)))
                if resource in node.status.allocatable
                else capacity,
                sum(share.requested for share in shares),
                0 if resource == "pods" else sum(limited(pod, resource) for pod in active),
                used,
                tuple(shares),
            )
        )
    return tuple(found)


def _share(pod: Pod, resource: str, usage: Mapping[tuple[str, str], Usage]) -> Share:
    use = usage.get((pod.metadata.namespace, pod.metadata.name))
    used = None
    if use is not None and resource in ("cpu", "memory"):
        used = use.cpu if resource == "cpu" else use.memory
    return Share(pod_key(pod), pod_label(pod), requested(pod, resource), used)


def rejections(pods: Iterable[Pod], found: Iterable[Gauge]) -> tuple[Rejection, ...]:
    """Every refused pod, by name."""
    by_resource = {gauge.resource: gauge for gauge in found}
    result: list[Rejection] = []
    for pod in pods:
        if not is_rejected(pod):
            continue
        message = clean(pod.status.message.removeprefix(REJECTED))
        lacking = [name for name, _ in _LACKING.findall(message)]
        lacking += [match[0] for match in _SHORT.findall(message)]
        words: list[str] = []
        fits = bool(lacking)
        for resource in lacking:
            gauge = by_resource.get(resource)
            if gauge is None:
                fits = False
                words.append(f"lacks {resource}")
                continue
            need, free = requested(pod, resource), gauge.allocatable - gauge.requested
            fits &= need <= free
            words.append(
                f"{TITLES[resource]}: asks {gauge.text(need)}, {gauge.text(max(0, free))} free"
            )
        result.append(
            Rejection(
                pod_key(pod), pod_label(pod), clean(pod.status.reason),
                "; ".join(words) or message, fits,
            )
        )  # fmt: skip
    return tuple(sorted(result, key=lambda r: r.name))
