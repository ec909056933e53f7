"""Growing pauses between tries of the same thing (reference §6.6, 6.7).

State without a clock: every call says what time it is, in seconds that never go back. The time of
an exit that a wall clock stamped is brought to that scale by its age: ``monotonic - (now - exit)``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, Pod
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.go_duration import go_duration

INITIAL: Final = 10.0
MAXIMUM: Final = 300.0
REDUCED_INITIAL: Final = 1.0
REDUCED_MAXIMUM: Final = 60.0
RESET_AFTER: Final = 600.0
ROUNDING: Final = 0.001


@dataclass(slots=True)
class _Entry:
    delay: float
    updated: float


class Backoff:
    """Back-offs by key: the first try is free, then ``initial``, doubled up to ``maximum``.

    A key that was quiet for more than ``reset_after`` seconds starts over.
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
        """The pause in force; 0 for a key that never backed off."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else entry.delay

    def remaining(self, key: Hashable, now: float, since: float | None = None) -> float:
        """Seconds until the next try is due; 0 when it is.

        The pause counts from ``since`` (when the container exited), or from the last `next` where
        that is None (when the pull failed).
        """
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        event = now if since is None else since
        if event - entry.updated > self._reset_after:
            return 0.0
        start = entry.updated if since is None else since
        left = start + entry.delay - now
        # Sums of floats end beside the moment that was waited for; a stamp may be of the future.
        return 0.0 if left < ROUNDING else min(left, entry.delay)

    def next(self, key: Hashable, now: float, since: float | None = None) -> float:
        """Note a try (``since``: for the sake of which exit) and return the pause after it."""
        entry = self._entries.get(key)
        event = now if since is None else since
        if entry is None or event - entry.updated > self._reset_after:
            entry = self._entries[key] = _Entry(self._initial, now)
        else:
            entry.delay = min(entry.delay * 2, self._maximum)
            entry.updated = now
        return entry.delay

    def forget(self, key: Hashable) -> None:
        """Start over with this key."""
        self._entries.pop(key, None)

    def discard(self, wanted: Callable[[Hashable], bool]) -> None:
        """Start over with every key of which ``wanted`` says so."""
        for key in [key for key in self._entries if wanted(key)]:
            del self._entries[key]

    def collect(self, now: float) -> None:
        """Drop the keys that would start over anyway."""
        self.discard(lambda key: now - self._entries[key].updated > self._reset_after)


def crash_limits(config: KubeletConfig) -> tuple[float, float]:
    """The first and the longest pause of a crash loop, as settings and feature gates have them. A
    ``maxContainerRestartPeriod`` of 300 s counts as not set."""
    initial, maximum = INITIAL, MAXIMUM
    if config.gate("ReduceDefaultCrashLoopBackOffDecay"):
        initial, maximum = REDUCED_INITIAL, REDUCED_MAXIMUM
    period = config.max_container_restart_period
    if period != MAXIMUM and config.gate("KubeletCrashLoopBackOffMax", default=True):
        maximum = period
    return min(initial, maximum), maximum


CrashKey = tuple[str, str, str, str, str, str]


def crash_key(pod: Pod, container: Container) -> CrashKey:
    """What a crash-loop back-off is kept for: another image or other resources start over."""
    resources = container.resources
    parts = (sorted(resources.requests.items()), sorted(resources.limits.items()))
    meta = pod.metadata
    return meta.name, meta.namespace, meta.uid, container.name, container.image, repr(parts)


def image_key(pod: Pod, image: str) -> str:
    """What a pull's back-off is kept for."""
    return f"{pod.metadata.uid}_{image}"


def crash_message(pod: Pod, container: Container, delay: float) -> str:
    """The message of a container that waits in ``CrashLoopBackOff``."""
    return (
        f"back-off {go_duration(delay)} restarting failed"
        f" container={container.name} pod={pod_ref(pod)}"
    )


def crash_event(pod: Pod, container: Container) -> str:
    """The text of the ``BackOff`` event that goes with it."""
    return f"Back-off restarting failed container {container.name} in pod {pod_ref(pod)}"
