"""A cache of the pods' requests, sorted by size and summed up, valid until requests change.

Hundreds of pods may change each second while their requests stay the same; sorting a thousand of
them for each frame would noticeably delay keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from podtui.tui.views.node.gauges import Ask


class Share(Struct, frozen=True):
    """One pod's request of a resource, in the unit of the resource.

    ``pod`` is its namespace and name.
    """

    key: str
    name: str
    pod: tuple[str, str]
    requested: int


class Column(Struct, frozen=True):
    """The shares of one resource, largest first; ``totals[i]`` is the sum of the first ``i + 1``
    requests, ``limits`` the sum of all limits."""

    shares: tuple[Share, ...] = ()
    totals: tuple[int, ...] = ()
    limits: int = 0


class Shares:
    """Caches the sorted shares until a pod is added or removed or its requests or limits change."""

    def __init__(self) -> None:
        self.sorts = 0
        """Number of times that shares were sorted; tests check it instead of the time."""
        self._asks: dict[str, Ask] = {}
        self._columns: dict[str, Column] = {}

    def keep(self, asks: Iterable[Ask]) -> None:
        """Set the current pods, including inactive ones; drop the cache if anything changed."""
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
        """Return the shares of the active pods."""
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
    """Return True if two asks result in the same shares."""
    return (
        one.active is other.active
        and one.label == other.label
        and one.requests == other.requests
        and one.limits == other.limits
    )
