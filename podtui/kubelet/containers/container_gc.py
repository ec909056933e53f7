"""Select the dead containers and sandboxes to remove (kubelet.md §6.3, 14.5, 14.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import Pod
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import ContainerState, SandboxState

KEPT: Final = 1
"""Dead instances kept per container, for ``lastState`` and previous logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """Ids to remove, containers first.

    ``pods`` holds the UIDs of pods that are gone afterwards: their volumes can be removed, too.
    """

    containers: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


def dead_init_containers(pod: Pod, observed: ObservedPod) -> tuple[str, ...]:
    """Return the ids of the dead init container instances that a sync pass removes; the newest of
    each container stays."""
    alive = (ContainerState.RUNNING, ContainerState.CREATED)
    dead_ids: list[str] = []
    for container in pod.spec.initContainers:
        dead = [
            instance.id
            for instance in observed.containers
            if instance.name == container.name and instance.state not in alive
        ]
        dead_ids += dead[KEPT:]
    return tuple(dead_ids)


def _dead_containers(observed: ObservedPod, keep: int) -> tuple[str, ...]:
    seen: Counter[str] = Counter()
    excess: list[str] = []
    for container in observed.containers:
        if container.state is ContainerState.RUNNING:
            continue
        # The next sync pass still needs a created instance that never ran.
        newest = observed.newest(container.name)
        if keep and container.state is ContainerState.CREATED and container is newest:
            continue
        seen[container.name] += 1
        if seen[container.name] > keep:
            excess.append(container.id)
    return tuple(excess)


def garbage(pods: Iterable[ObservedPod], *, live: Collection[str]) -> Garbage:
    """Select the objects that container garbage collection removes.

    ``live`` holds the UIDs of pods that are configured or still terminating: one dead instance per
    container and the newest sandbox stay. Of other pods, everything dead is removed.
    """
    containers: list[str] = []
    sandboxes: list[str] = []
    emptied: list[str] = []
    for observed in pods:
        gone = observed.uid not in live
        dead = _dead_containers(observed, 0 if gone else KEPT)
        containers += dead
        occupied = {
            container.sandbox_id for container in observed.containers if container.id not in dead
        }
        removed = [
            sandbox.id
            for index, sandbox in enumerate(observed.sandboxes)
            if sandbox.state is SandboxState.NOT_READY
            and sandbox.id not in occupied
            and (index > 0 or gone)
        ]
        sandboxes += removed
        if gone and len(removed) == len(observed.sandboxes) and not occupied:
            emptied.append(observed.uid)
    return Garbage(containers=tuple(containers), sandboxes=tuple(sandboxes), pods=tuple(emptied))
