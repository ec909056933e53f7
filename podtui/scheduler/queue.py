"""The queue of the pods that wait for a node. Pure: no task, no I/O."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import Final

from podtui.api.v1 import Pod
from podtui.scheduler.filters import Pending
from podtui.scheduler.hints import Change, OwnChange, helps

FIRST_BACKOFF: Final = 1.0
LAST_BACKOFF: Final = 10.0
LONGEST_WAIT: Final = 300.0
"""A refused pod is tried again after this many seconds, even if nothing changed."""
_ALL: Final[Callable[[Pending], bool]] = lambda _: True  # noqa: E731


class QueueState(Enum):
    """The location of a pod. Each pod is in exactly one."""

    ACTIVE = "active"
    """To be tried now: by priority, then the longest waiting first."""
    BACKOFF = "backoff"
    """To be tried after its back-off, or before if no other pod is active."""
    ERROR = "error"
    """To be tried after its back-off: the API failed, not the pod."""
    WAITING = "waiting"
    """Refused: to be tried after a change that may help."""
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class Queued:
    """A pod in the queue. Only the queue changes it."""

    pending: Pending
    since: float
    state: QueueState = QueueState.ACTIVE
    plugins: frozenset[str] = frozenset()
    """The plugins that refused it at the last attempt."""
    refusals: int = 0
    errors: int = 0
    """Errors in a row."""
    ready: float = 0.0
    """The second in which the back-off ends."""
    turn: int = 0
    """Increases with each move: older entries of the heaps are stale."""
    missed: list[Change] = field(default_factory=list[Change])
    """The changes during an attempt."""

    @property
    def uid(self) -> str:
        return self.pending.info.uid


# Heaps cannot be searched. A pod that moves leaves its entry behind, and its `turn` increases:
# `_first` drops entries that do not have the turn of their pod.
_Key = tuple[float, ...]
_Entry = tuple[_Key, int, int, Queued]


def is_gated(pod: Pod) -> bool:
    """Return whether the pod may not be scheduled yet. Resource claims do not exist here, so that a
    pod with some waits forever, as it would for missing ones."""
    return bool(pod.spec.schedulingGates or pod.spec.resourceClaims)


def backoff_seconds(attempts: int) -> float:
    """Return the wait after so many failed attempts: 1, 2, 4, 8, 10 seconds."""
    if attempts < 1:
        return 0.0
    return min(LAST_BACKOFF, FIRST_BACKOFF * 2 ** min(attempts - 1, 10))


class SchedulingQueue:
    """``clock`` returns seconds that never decrease. Back-offs end at full seconds, so that pods
    whose back-offs end in the same second are tried by priority."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, Queued] = {}
        self._heaps: dict[QueueState, list[_Entry]] = {
            state: []
            for state in (
                QueueState.ACTIVE,
                QueueState.BACKOFF,
                QueueState.ERROR,
                QueueState.WAITING,
            )
        }
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._pods)

    def state(self, uid: str) -> QueueState | None:
        """Return where the pod is; None if it is not in the queue."""
        queued = self._pods.get(uid)
        return queued and queued.state

    def add(self, pod: Pod) -> None:
        """Add a pod, or replace it by its new version."""
        queued = self._pods.get(pod.metadata.uid)
        if queued is not None:
            self._update(queued, pod)
            return
        queued = Queued(Pending(pod), self._clock())
        self._pods[queued.uid] = queued
        self._activate(queued)

    def _update(self, queued: Queued, pod: Pod) -> None:
        change = OwnChange(queued.pending.pod, pod)
        queued.pending = Pending(pod)
        match queued.state:
            case QueueState.IN_FLIGHT:
                # The attempt uses the earlier version; `put_back` decides with this change.
                queued.missed.append(change)
            case QueueState.GATED:
                self._activate(queued)
            case QueueState.WAITING:
                self._requeue_if_useful(queued, (change,))
            case _:
                pass

    def delete(self, uid: str) -> None:
        """Remove a pod, wherever it is. Idempotent."""
        gone = self._pods.pop(uid, None)
        if gone is not None:
            # This makes its entry in a heap stale.
            gone.turn += 1

    def pop(self) -> Queued | None:
        """Take the next pod to try; None if there is none now.

        It is in flight until `put_back` or `delete`.
        """
        # The queue has no task: pods whose time has come are moved here. `deadline` says when to
        # call.
        self._release()
        # An idle scheduler does not wait for the end of a back-off: the attempt takes no other
        # pod's turn. After an error it does, because the API would probably fail again.
        queued = self._take(QueueState.ACTIVE) or self._take(QueueState.BACKOFF)
        if queued is not None:
            queued.state = QueueState.IN_FLIGHT
            queued.turn += 1
            queued.missed.clear()
        return queued

    def put_back(self, queued: Queued, plugins: frozenset[str] = frozenset()) -> None:
        """Put a pod back after a failed attempt. ``plugins`` are those that refused it; none means
        that the attempt failed with an error."""
        # The pod was deleted during the attempt, and perhaps added again.
        if self._pods.get(queued.uid) is not queued:
            return
        queued.plugins = plugins
        queued.since = self._clock()
        if plugins:
            queued.refusals += 1
            queued.errors = 0
        else:
            queued.errors += 1
        wait = backoff_seconds(queued.errors or queued.refusals)
        queued.ready = math.floor(queued.since + wait)
        if plugins:
            # A change during the attempt may be the one that helps. Without this, the pod would
            # wait for another change, or for `LONGEST_WAIT`.
            missed, queued.missed = queued.missed, []
            self._put(queued, QueueState.WAITING)
            self._requeue_if_useful(queued, missed)
        else:
            self._retry(queued)

    def move(self, change: Change, only: Callable[[Pending], bool] = _ALL) -> None:
        """Try those refused pods again that the change may help."""
        for queued in list(self._pods.values()):
            if queued.state is QueueState.IN_FLIGHT:
                queued.missed.append(change)
            elif queued.state is QueueState.WAITING and only(queued.pending):
                self._requeue_if_useful(queued, (change,))

    def deadline(self) -> float | None:
        """Return when `pop` may return a pod without any change; None if never."""
        times = [
            # A back-off lasts to the end of its second.
            *(queued.ready + 1 for queued in self._first(QueueState.ERROR)),
            *(queued.since + LONGEST_WAIT for queued in self._first(QueueState.WAITING)),
        ]
        if self._first(QueueState.ACTIVE) or self._first(QueueState.BACKOFF):
            return self._clock()
        return min(times, default=None)

    # --- moves

    def _requeue_if_useful(self, queued: Queued, changes: Iterable[Change]) -> None:
        if any(
            helps(queued.pending, plugin, change) for change in changes for plugin in queued.plugins
        ):
            self._retry(queued)

    def _retry(self, queued: Queued) -> None:
        if is_gated(queued.pending.pod):
            self._put(queued, QueueState.GATED)
        elif not self._backs_off(queued):
            self._put(queued, QueueState.ACTIVE)
        else:
            self._put(queued, QueueState.BACKOFF if queued.plugins else QueueState.ERROR)

    def _activate(self, queued: Queued) -> None:
        self._put(queued, QueueState.GATED if is_gated(queued.pending.pod) else QueueState.ACTIVE)

    def _backs_off(self, queued: Queued) -> bool:
        attempted = queued.refusals or queued.errors
        return bool(attempted) and queued.ready >= math.floor(self._clock())

    def _release(self) -> None:
        """Move the pods that have waited long enough."""
        for state in (QueueState.BACKOFF, QueueState.ERROR):
            while (first := self._first(state)) and not self._backs_off(first[0]):
                self._activate(first[0])
        oldest = self._clock() - LONGEST_WAIT
        while (first := self._first(QueueState.WAITING)) and first[0].since <= oldest:
            self._retry(first[0])

    def _put(self, queued: Queued, state: QueueState) -> None:
        queued.state = state
        queued.turn += 1
        heap = self._heaps.get(state)
        if heap is not None:
            heappush(heap, (_key(queued), next(self._order), queued.turn, queued))

    def _first(self, state: QueueState) -> tuple[Queued, ...]:
        """Return the first pod in a state, if any."""
        heap = self._heaps[state]
        while heap and heap[0][2] != heap[0][3].turn:
            heappop(heap)
        return (heap[0][3],) if heap else ()

    def _take(self, state: QueueState) -> Queued | None:
        first = self._first(state)
        if not first:
            return None
        heappop(self._heaps[state])
        return first[0]


def _key(queued: Queued) -> _Key:
    # Heaps are ascending, so the priority is negated. Equal keys are in the order of `_order`: pods
    # themselves are never compared.
    priority = -queued.pending.info.priority
    match queued.state:
        case QueueState.BACKOFF:
            return (queued.ready, priority, queued.since)
        case QueueState.ERROR:
            return (queued.ready,)
        case QueueState.WAITING:
            return (queued.since,)
        case _:
            return (priority, queued.since)
