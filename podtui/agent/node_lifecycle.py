"""Taint nodes by their conditions, as the node lifecycle controller of a cluster does.

The scheduler reads the taints: no new pod goes to a node that is cordoned, not ready or short of a
resource. Pods that run are left alone: no taint with the effect NoExecute is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import structs

from podtui.api.times import rfc3339
from podtui.api.v1 import Node, Taint
from podtui.clock import Clock
from podtui.errors import NotFound, StoreGone
from podtui.store.protocol import Records, WatchType

_PREFIX: Final = "node.kubernetes.io/"
_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): f"{_PREFIX}not-ready",
    ("Ready", "Unknown"): f"{_PREFIX}unreachable",
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
UNSCHEDULABLE: Final = f"{_PREFIX}unschedulable"
_CONDITION_TAINTS: Final = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_EFFECT: Final = "NoSchedule"


class NodeLifecycle:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def run(self) -> None:
        """Follow the nodes, forever."""
        while True:
            listing = await self._records.list("nodes")
            for item in listing.items:
                await self._check(item.metadata.name)
            try:
                async for change in self._records.watch("nodes", since=listing.resource_version):
                    if change.object is not None and change.type is not WatchType.DELETED:
                        await self._check(change.object.metadata.name)
            except StoreGone:
                continue

    async def _check(self, name: str) -> None:
        try:
            await self._records.update("nodes", "", name, self._tainted)
        except NotFound:
            return

    def _tainted(self, node: Node) -> Node:
        taints = condition_taints(node, rfc3339(self._clock.now()))
        if taints == node.spec.taints:
            return node
        return structs.replace(node, spec=structs.replace(node.spec, taints=taints))


def condition_taints(node: Node, now: str) -> tuple[Taint, ...]:
    """Return the node's taints: those of its conditions, and unchanged those that others set."""
    wanted = dict.fromkeys(_wanted(node))
    taints = node.spec.taints
    kept = [taint for taint in taints if not _is_condition_taint(taint) or taint.key in wanted]
    kept_keys = {taint.key for taint in kept if _is_condition_taint(taint)}
    new = [Taint(key=key, effect=_EFFECT, timeAdded=now) for key in wanted if key not in kept_keys]
    return (*kept, *new)


def _is_condition_taint(taint: Taint) -> bool:
    return taint.key in _CONDITION_TAINTS and taint.effect == _EFFECT


def _wanted(node: Node) -> Iterator[str]:
    for condition in node.status.conditions:
        key = _BY_CONDITION.get((condition.type, condition.status))
        if key is not None:
            yield key
    if node.spec.unschedulable:
        yield UNSCHEDULABLE
