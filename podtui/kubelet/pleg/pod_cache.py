"""Cache of the last observation of every pod; only PLEG writes it.

Freshness is a counter, not a time: every list that PLEG begins takes the next number, and a pod's
entry is as fresh as the list that it came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from podtui.kubelet.types import ObservedPod


class PodCache:
    def __init__(self) -> None:
        self._pods: dict[str, ObservedPod] = {}
        self._orders: dict[str, int] = {}
        self._floor = 0
        self._order = 0

    @property
    def order(self) -> int:
        """The number of the list that was begun last."""
        return self._order

    def begin(self) -> int:
        """Return the number of a list that begins now."""
        self._order += 1
        return self._order

    def seen(self, uid: str) -> int:
        """Return the number of the newest list that confirmed the pod's entry."""
        return max(self._orders.get(uid, 0), self._floor)

    def get(self, uid: str) -> ObservedPod | None:
        return self._pods.get(uid)

    def set(self, uid: str, observed: ObservedPod | None, order: int) -> bool:
        """Store an observation; return True if it differs from the previous one."""
        before = self._pods.get(uid)
        if observed is None or not (observed.sandboxes or observed.containers):
            self._pods.pop(uid, None)
            changed = before is not None
        else:
            self._pods[uid] = observed
            changed = before != observed
        self.touch(uid, order)
        return changed

    def touch(self, uid: str, order: int) -> None:
        if order > self.seen(uid):
            self._orders[uid] = order

    def touch_all(self, order: int) -> None:
        """Record that every entry is as fresh as list ``order``."""
        self._floor = max(self._floor, order)
        if len(self._orders) > len(self._pods):
            self._orders = {uid: o for uid, o in self._orders.items() if o > self._floor}

    def __iter__(self) -> Iterator[ObservedPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
