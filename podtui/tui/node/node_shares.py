"""What each pod asks of the node, largest first and added up, kept while pods ask for the same.

Hundreds of pods change each second and what they ask for does not: sorting a thousand of them for
each drawing would be felt at the keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from podtui.tui.node.node_gauges import Ask


class Share(Struct, frozen=True):
    """One pod's part of a resource, in the unit of the resource. ``pod`` is its namespace and
    name."""

    key: str
    name: str
    pod: tuple[str, str]
    requested: int


class Column(Struct, frozen=True):
    """The shares of one resource, largest first; ``totals[i]`` is what the first ``i + 1`` request
    together, ``limits`` what all of them may use."""

    shares: tuple[Share, ...] = ()
    totals: tuple[int, ...] = ()
    limits: int = 0


class Shares:
    """Asked for the same pods again and again, looks only at those that are others."""

    def __init__(self) -> None:
        self.sorts = 0
        """How often a resource's shares were sorted; what tests count instead of time."""
        self._asks: dict[str, Ask] = {}
        self._columns: dict[str, Column] = {}

    def keep(self, asks: Iterable[Ask]) -> None:
        """These are the pods now, those that the node does not count among them."""
        before = self._asks
        fresh = {ask.key: ask for ask in asks}
        same = len(fresh) == len(before)
        for key, ask in fresh.items():
            known = before.get(key)
            if known is not ask and (known is None or not _alike(known, ask)):
                same = False
                break
        self._asks = fresh
        if not same:
            self._columns.clear()

    def of(self, resource: str) -> Column:
        """The shares of those that the node counts."""
        found = self._columns.get(resource)
        if found is None:
            found = self._columns[resource] = self._sorted(resource)
        return found

    def _sorted(self, resource: str) -> Column:
        self.sorts += 1
        active = [ask for ask in self._asks.values() if ask.active]
        shares = [Share(ask.key, ask.label, ask.name, ask.requests[resource]) for ask in active]
        shares.sort(key=lambda share: (-share.requested, share.name))
        return Column(
            tuple(shares),
            tuple(accumulate(share.requested for share in shares)),
            sum(ask.limits.get(resource, 0) for ask in active),
        )


def _alike(one: Ask, other: Ask) -> bool:
    """Whether two have the same share of everything."""
    return (
        one.active is other.active
        and one.label == other.label
        and one.requests == other.requests
        and one.limits == other.limits
    )
