"""The allocation of a node, or of all nodes: capacity, requests and usage of each resource."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from msgspec import Struct

from podtui.api.cluster import cluster_problems
from podtui.api.health import unready_words
from podtui.api.names import WOULD_FIT
from podtui.api.v1 import Node, NodeCondition, NodeStatus, ObjectMeta, Pod
from podtui.text.terminal_text import plural
from podtui.tui.model.model import Model, pod_key
from podtui.tui.model.usage import Usage, amount, is_active, limited, requested
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pod_status import REJECTED, is_rejected
from podtui.tui.widgets.format import cores, size
from podtui.tui.widgets.sanitize import clean

RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
"""The resources of every node."""
TITLES: Final = {"cpu": "cpu", "memory": "memory", "pods": "pods", "ephemeral-storage": "storage"}
_IN_BYTES: Final = ("memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_LACKING: Final = re.compile(r"\(res: ([^,]+), q: ([0-9]+)\)")
_OUT_OF: Final = re.compile(r"resource: ([^,]+), requested: (\d+), used: (\d+), capacity: (\d+)")


class Share(Struct, frozen=True):
    """One pod's request of a resource, in the unit of the resource.

    ``pod`` is its namespace and name.
    """

    key: str
    name: str
    pod: tuple[str, str]
    requested: int


class ResourceShares(Struct, frozen=True):
    """The shares of one resource, largest first; ``totals[i]`` is the sum of the first ``i + 1``
    requests, ``limits`` the sum of all limits."""

    shares: tuple[Share, ...] = ()
    totals: tuple[int, ...] = ()
    limits: int = 0


class Shares:
    """Caches the sorted shares until a pod is added or removed or its requests or limits change."""

    def __init__(self) -> None:
        self._asks: dict[str, PodRequests] = {}
        self._columns: dict[str, ResourceShares] = {}

    def keep(self, asks: Iterable[PodRequests]) -> None:
        """Set the current pods, including inactive ones; drop the cache if anything changed."""
        before = self._asks
        fresh = {ask.key: ask for ask in asks}
        same = len(fresh) == len(before)
        for key, ask in fresh.items():
            previous = before.get(key)
            if previous is not ask and (previous is None or not _have_same_shares(previous, ask)):
                same = False
                break
        self._asks = fresh
        if not same:
            self._columns.clear()

    def of(self, resource: str) -> ResourceShares:
        """Return the shares of the active pods."""
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = self._sorted(resource)
        return column

    def _sorted(self, resource: str) -> ResourceShares:
        active = [ask for ask in self._asks.values() if ask.active]
        shares = [
            Share(ask.key, ask.label, ask.name, ask.requests.get(resource, 0)) for ask in active
        ]
        shares.sort(key=lambda share: (-share.requested, share.name))
        return ResourceShares(
            tuple(shares),
            tuple(accumulate(share.requested for share in shares)),
            sum(ask.limits.get(resource, 0) for ask in active),
        )


def _have_same_shares(ask: PodRequests, other: PodRequests) -> bool:
    """Return True if the requests of a pod result in the same shares as before."""
    return (
        ask.active is other.active
        and ask.label == other.label
        and ask.requests == other.requests
        and ask.limits == other.limits
    )


class PodRequests(Struct, frozen=True):
    """The requests and limits of one pod by resource; computed once for each change of the pod."""

    key: str
    label: str
    name: tuple[str, str]
    active: bool
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    refused: tuple[str, str] | None
    """(reason, message) if the node rejected the pod."""
    would_fit: bool = False
    """True if the agent reports that the node would admit the pod now."""


def requests_of(pod: Pod) -> PodRequests:
    refused = None
    if is_rejected(pod):
        message = clean(pod.status.message.removeprefix(REJECTED))
        refused = (clean(pod.status.reason), message)
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    named = {name for c in containers for name in (*c.resources.requests, *c.resources.limits)}
    resources = {*RESOURCES, *named}
    return PodRequests(
        pod_key(pod),
        pod_label(pod),
        (pod.metadata.namespace, pod.metadata.name),
        is_active(pod),
        {resource: requested(pod, resource) for resource in resources},
        {resource: limited(pod, resource) for resource in resources if resource != "pods"},
        refused,
        pod.metadata.annotations.get(WOULD_FIT) == "true",
    )


class Gauge(Struct, frozen=True):
    """One resource, in millicores, bytes or pieces. ``used`` is None if it is not measured."""

    resource: str
    capacity: int
    allocatable: int
    requested: int
    limits: int
    used: int | None
    shares: tuple[Share, ...]
    """Largest first."""
    totals: tuple[int, ...]
    """The cumulative requests: each share plus all before it."""
    usage: Mapping[tuple[str, str], Usage]
    """By namespace and name of the pod."""

    def used_by(self, share: Share) -> int | None:
        """Return the usage of one pod, or None."""
        return _used(self.usage.get(share.pod), self.resource)

    @property
    def reserved(self) -> int:
        return max(0, self.capacity - self.allocatable)

    def text(self, count: int) -> str:
        return in_unit(self.resource, count)


class RejectedPod(Struct, frozen=True):
    """A pod that the node rejected.

    ``missing`` describes the lacking resources; ``fits`` is True if it would be admitted now.
    """

    key: str
    name: str
    reason: str
    missing: str
    fits: bool


def in_unit(resource: str, count: int) -> str:
    if resource == "cpu":
        return cores(count)
    in_bytes = resource in _IN_BYTES or resource.startswith(_HUGE_PAGES)
    return size(count) if in_bytes else str(count)


def title_of(resource: str) -> str:
    """Return a short name: ``gpu`` for ``example.com/gpu``."""
    return TITLES.get(resource) or clean(resource.rpartition("/")[2])


def node_resources(node: Node) -> list[str]:
    """List the resources to show: `RESOURCES`, and the extended resources and huge pages that the
    node has."""
    capacity = node.status.capacity
    others = (
        name
        for name in sorted(capacity)
        if ("/" in name or name.startswith(_HUGE_PAGES)) and amount(name, capacity[name])
    )
    return [*(name for name in RESOURCES if name in capacity), *others]


def gauges(
    node: Node,
    asks: Iterable[PodRequests],
    usage: Mapping[tuple[str, str], Usage],
    node_use: Usage | None,
    shares: Shares | None = None,
) -> tuple[Gauge, ...]:
    """Return one gauge for each of `node_resources`.

    ``shares`` is the cache from the previous call.
    """
    if shares is None:
        shares = Shares()
    shares.keep(asks)
    result: list[Gauge] = []
    for resource in node_resources(node):
        capacity = amount(resource, node.status.capacity[resource])
        allocatable = node.status.allocatable.get(resource)
        column = shares.of(resource)
        result.append(
            Gauge(
                resource,
                capacity,
                capacity if allocatable is None else amount(resource, allocatable),
                column.totals[-1] if column.totals else 0,
                column.limits,
                _used(node_use, resource),
                column.shares,
                column.totals,
                usage,
            )
        )
    return tuple(result)


def _used(use: Usage | None, resource: str) -> int | None:
    if use is None or resource not in ("cpu", "memory"):
        return None
    return use.cpu if resource == "cpu" else use.memory


def rejections(asks: Iterable[PodRequests], resources: Iterable[Gauge]) -> tuple[RejectedPod, ...]:
    """Return all rejected pods, sorted by name."""
    by_resource = {gauge.resource: gauge for gauge in resources}
    result = [_rejection(ask, by_resource) for ask in asks if ask.refused is not None]
    return tuple(sorted(result, key=lambda r: r.name))


def _rejection(ask: PodRequests, by_resource: Mapping[str, Gauge]) -> RejectedPod:
    reason, message = ask.refused or ("", "")
    lacking = [name for name, _ in _LACKING.findall(message)]
    lacking += [match[0] for match in _OUT_OF.findall(message)]
    shortages: list[str] = []
    fits = bool(lacking)
    for resource in lacking:
        gauge = by_resource.get(resource)
        if gauge is None:
            fits = False
            shortages.append(f"lacks {resource}")
            continue
        need, free = ask.requests.get(resource, 0), gauge.allocatable - gauge.requested
        fits &= need <= free
        shortages.append(
            f"{title_of(resource)}: requests {gauge.text(need)}, {gauge.text(max(0, free))} free"
        )
    return RejectedPod(
        ask.key, ask.label, reason, "; ".join(shortages) or message, fits or ask.would_fit
    )


def whole_node(nodes: Mapping[str, Node]) -> Node | None:
    """Combine all nodes into one with the sum of their resources; None if there are none."""
    if not nodes:
        return None
    if len(nodes) == 1:
        return next(iter(nodes.values()))
    ready = sum(is_ready(node) for node in nodes.values())
    message = f"{ready} of {len(nodes)} nodes are ready"
    return Node(
        metadata=ObjectMeta(name=plural(len(nodes), "node")),
        status=NodeStatus(
            capacity=_sums([node.status.capacity for node in nodes.values()]),
            allocatable=_sums(
                [{**node.status.capacity, **node.status.allocatable} for node in nodes.values()]
            ),
            conditions=(
                NodeCondition(type="Ready", status=str(ready == len(nodes)), message=message),
            ),
        ),
    )


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _sums(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    sums: dict[str, int] = {}
    for quantities in amounts:
        for name, text in quantities.items():
            sums[name] = sums.get(name, 0) + amount(name, text)
    return {name: f"{total}m" if name == "cpu" else str(total) for name, total in sums.items()}


class NodeAllocation(Struct, frozen=True):
    """A node, the requests of its pods, and its usage."""

    node: Node
    asks: tuple[PodRequests, ...]
    use: Usage | None


def allocation_of(
    model: Model, asks: Mapping[str, PodRequests], pod: Pod | None
) -> NodeAllocation | None:
    """Return the allocation of the node of ``pod``, else of all nodes; None if there are none."""
    if not model.server.capabilities.several_nodes:
        node = model.node
        return None if node is None else NodeAllocation(node, tuple(asks.values()), model.node_use)
    home = model.home_of(pod)
    if home is None:
        whole = whole_node(model.nodes)
        return (
            None if whole is None else NodeAllocation(whole, tuple(asks.values()), whole_use(model))
        )
    name = home.metadata.name
    there = tuple(
        ask
        for key, ask in asks.items()
        if key in model.pods and model.pods[key].spec.nodeName == name
    )
    return NodeAllocation(home, there, model.use_of(home))


def whole_use(model: Model) -> Usage | None:
    """Return the total usage of all nodes; None if the usage of any node is unknown."""
    uses = [model.node_uses.get(name) for name in model.nodes]
    measured = [use for use in uses if use is not None]
    if not measured or len(measured) < len(uses):
        return None
    return Usage(sum(use.cpu for use in measured), sum(use.memory for use in measured))


def node_state(node: Node) -> tuple[bool, str]:
    """Return (ready, text): ``Ready``, with what is wrong nevertheless, or the reason why the node
    is not ready."""
    pressures = [
        c.type for c in node.status.conditions if c.type.endswith("Pressure") and c.status == "True"
    ]
    pressures += [c.type for c in cluster_problems(node)[:1]]
    for condition in node.status.conditions:
        if condition.type == "Ready":
            if condition.status == "True":
                return not pressures, clean(" ".join(["Ready", *pressures]))
            return False, clean(f"NotReady: {unready_words(condition)}")
    return False, "NotReady"
