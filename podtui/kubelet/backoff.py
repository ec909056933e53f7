"""Exponential back-off between retries, and rate limits (kubelet.md §6.6, 6.7).

There is no clock here: every call passes the current time in monotonic seconds. To convert the
wall-clock time of an exit to this scale, use its age: ``monotonic - (now - exit)``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, Pod
from podtui.kubelet.config import KubeletConfig
from podtui.text.go_format import go_duration

INITIAL: Final = 10.0
MAXIMUM: Final = 300.0
REDUCED_INITIAL: Final = 1.0
REDUCED_MAXIMUM: Final = 60.0
RESET_AFTER: Final = 600.0
ROUNDING: Final = 0.001
CrashKey = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class _Entry:
    delay: float
    updated: float


class Backoff:
    """Back-offs by key: the first try is free, then ``initial``, doubled up to ``maximum``.

    A key without an event for more than ``reset_after`` seconds starts over.
    """

    def __init__(
        self,
        initial: float = INITIAL,
        maximum: float = MAXIMUM,
        reset_after: float = RESET_AFTER,
    ) -> None:
        self._maximum = maximum
        self._initial = min(initial, maximum)
        self._reset_after = reset_after
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def delay(self, key: Hashable) -> float:
        """Return the current pause; 0 for a key that never backed off."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else entry.delay

    def remaining(self, key: Hashable, now: float, since: float | None = None) -> float:
        """Return the seconds until the next try is due, 0 if it is due now.

        The pause counts from ``since`` (the exit of a container) or, if that is None, from the last
        `next` (a failed pull).
        """
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        event = now if since is None else since
        if event - entry.updated > self._reset_after:
            return 0.0
        start = entry.updated if since is None else since
        left = start + entry.delay - now
        # Rounded sums of floats may miss the due time; a timestamp may lie in the future.
        return 0.0 if left < ROUNDING else min(left, entry.delay)

    def next(self, key: Hashable, now: float, since: float | None = None) -> float:
        """Record a try and return the pause after it; ``since`` is the exit that caused the try."""
        entry = self._entries.get(key)
        event = now if since is None else since
        if entry is None or event - entry.updated > self._reset_after:
            entry = self._entries[key] = _Entry(self._initial, now)
        else:
            entry.delay = min(entry.delay * 2, self._maximum)
            entry.updated = now
        return entry.delay

    def forget(self, key: Hashable) -> None:
        """Reset the back-off of this key."""
        self._entries.pop(key, None)

    def discard(self, wanted: Callable[[Hashable], bool]) -> None:
        """Reset every key for which ``wanted`` returns True."""
        for key in [key for key in self._entries if wanted(key)]:
            del self._entries[key]

    def collect(self, now: float) -> None:
        """Drop the expired keys; they would start over anyway."""
        self.discard(lambda key: now - self._entries[key].updated > self._reset_after)


def crash_limits(config: KubeletConfig) -> tuple[float, float]:
    """Return the first and the longest pause of a crash loop, from settings and feature gates.

    A ``maxContainerRestartPeriod`` of 300 s counts as unset.
    """
    initial, maximum = INITIAL, MAXIMUM
    if config.gate("ReduceDefaultCrashLoopBackOffDecay"):
        initial, maximum = REDUCED_INITIAL, REDUCED_MAXIMUM
    period = config.max_container_restart_period
    if period != MAXIMUM and config.gate("KubeletCrashLoopBackOffMax", default=True):
        maximum = period
    return min(initial, maximum), maximum


def crash_key(pod: Pod, container: Container) -> CrashKey:
    """Return the key of a crash-loop back-off: a new image or new resources change the key."""
    resources = container.resources
    parts = (sorted(resources.requests.items()), sorted(resources.limits.items()))
    meta = pod.metadata
    return meta.name, meta.namespace, meta.uid, container.name, container.image, repr(parts)


def image_key(pod: Pod, image: str) -> str:
    """Return the key of an image pull's back-off."""
    return f"{pod.metadata.uid}_{image}"


def crash_message(pod: Pod, container: Container, delay: float) -> str:
    """Return the message of a container that waits in ``CrashLoopBackOff``."""
    return (
        f"back-off {go_duration(delay)} restarting failed"
        f" container={container.name} pod={pod_ref(pod)}"
    )


def crash_event(pod: Pod, container: Container) -> str:
    """Return the text of the ``BackOff`` event for such a container."""
    return f"Back-off restarting failed container {container.name} in pod {pod_ref(pod)}"


# --- rate limits
