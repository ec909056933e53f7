"""Select the node to show: the node of the chosen pod, or the sum of all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from podtui.api.v1 import Node, NodeCondition, NodeStatus, ObjectMeta, Pod
from podtui.tui.model.model import Model
from podtui.tui.model.usage import Usage, amount
from podtui.tui.widgets.format import plural

if TYPE_CHECKING:
    from podtui.tui.views.node.gauges import PodRequests

from typing import TYPE_CHECKING

from podtui.api.health import unready_words
from podtui.tui.widgets.sanitize import clean

if TYPE_CHECKING:
    from podtui.tui.views.node.gauges import PodRequests


SUMMED: Final = ("cpu", "memory", "pods", "ephemeral-storage")


def whole_node(nodes: Mapping[str, Node]) -> Node | None:
    """Combine all nodes into one with the sum of their resources; None if there are none."""
    if not nodes:
        return None
    if len(nodes) == 1:
        return next(iter(nodes.values()))
    ready = sum(is_ready(node) for node in nodes.values())
    words = f"{ready} of {len(nodes)} nodes are ready"
    return Node(
        metadata=ObjectMeta(name=plural(len(nodes), "node")),
        status=NodeStatus(
            capacity=_sums([node.status.capacity for node in nodes.values()]),
            allocatable=_sums(
                [{**node.status.capacity, **node.status.allocatable} for node in nodes.values()]
            ),
            conditions=(
                NodeCondition(type="Ready", status=str(ready == len(nodes)), message=words),
            ),
        ),
    )


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _sums(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    sums: dict[str, int] = {}
    for one in amounts:
        for name in SUMMED:
            if name in one:
                sums[name] = sums.get(name, 0) + amount(name, one[name])
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
    known = [use for use in uses if use is not None]
    if not known or len(known) < len(uses):
        return None
    return Usage(sum(use.cpu for use in known), sum(use.memory for use in known))


def node_state(node: Node) -> tuple[bool, str]:
    """Return (ready, text): ``Ready``, or the reason why the node is not ready."""
    pressures = [
        c.type for c in node.status.conditions if c.type.endswith("Pressure") and c.status == "True"
    ]
    for condition in node.status.conditions:
        if condition.type == "Ready":
            if condition.status == "True":
                return not pressures, clean(" ".join(["Ready", *pressures]))
            return False, clean(f"NotReady: {unready_words(condition)}")
    return False, "NotReady"
