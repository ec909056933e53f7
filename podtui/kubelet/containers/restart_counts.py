"""Restart counts, which never decrease while a pod lives (reference §6.5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import structs

from podtui.api.v1 import ContainerStatus, PodStatus
from podtui.kubelet.base.types import ObservedPod


@dataclass(slots=True)
class _Counts:
    """By container name: the newest instance's count, and the highest count ever shown.

    The latter is one ahead if a status counts an instance that vanished.
    """

    instances: dict[str, int] = field(default_factory=dict[str, int])
    shown: dict[str, int] = field(default_factory=dict[str, int])


class RestartCounts:
    """Restart counts by pod UID.

    They are remembered here, and learnt from the records of an earlier run; a kubelet reads them
    from the names of log files.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Counts] = {}

    def observe(self, observed: ObservedPod) -> None:
        counts = self._pods.setdefault(observed.uid, _Counts())
        for container in observed.containers:
            known = counts.instances.get(container.name, -1)
            counts.instances[container.name] = max(known, container.restart_count)

    def show(self, uid: str, status: PodStatus, *, seed: PodStatus | None) -> PodStatus:
        """Return the status with no count lower than one shown before.

        ``seed`` is the last status of an earlier run.
        """
        counts = self._pods.setdefault(uid, _Counts())
        if seed is not None and not counts.shown:
            self._learn(counts, seed)

        def raised(every: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
            found: list[ContainerStatus] = []
            for one in every:
                known = (counts.instances.get(one.name, 0), counts.shown.get(one.name, 0))
                highest = max(one.restartCount, *known)
                counts.shown[one.name] = highest
                same = highest == one.restartCount
                found.append(one if same else structs.replace(one, restartCount=highest))
            return tuple(found)

        return structs.replace(
            status,
            initContainerStatuses=raised(status.initContainerStatuses),
            containerStatuses=raised(status.containerStatuses),
        )

    def _learn(self, counts: _Counts, seed: PodStatus) -> None:
        for one in (*seed.initContainerStatuses, *seed.containerStatuses):
            counts.shown[one.name] = one.restartCount
            if one.containerID:
                known = counts.instances.get(one.name, -1)
                counts.instances[one.name] = max(known, one.restartCount)

    def next(self, uid: str, container: str) -> int:
        """Return the restart count of the container's next instance."""
        counts = self._pods.get(uid, _Counts())
        instance = counts.instances.get(container, -1)
        return max(instance + 1, counts.shown.get(container, 0))

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
