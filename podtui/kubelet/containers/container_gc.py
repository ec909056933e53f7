"""Select the dead containers and sandboxes to remove (kubelet.md §6.3, 14.5, 14.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import Pod
from podtui.kubelet.base.types import ObservedPod
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


def trim(observed: ObservedPod, container: str, *, keep: int = KEPT) -> tuple[str, ...]:
    """Return the ids of one container's exited instances, except for the newest ``keep``."""
    dead = [
        one.id
        for one in observed.containers
        if one.name == container and one.state is ContainerState.EXITED
    ]
    return tuple(dead[keep:])


def dead_init_containers(pod: Pod, observed: ObservedPod, *, keep: int = KEPT) -> tuple[str, ...]:
    """Return the ids of the init container instances that a sync pass removes.

    The newest dead one of each container stays, or none (``keep=0``) if the sandbox is new.
    """
    alive = (ContainerState.RUNNING, ContainerState.CREATED)
    found: list[str] = []
    for container in pod.spec.initContainers:
        dead = [
            one.id
            for one in observed.containers
            if one.name == container.name and one.state not in alive
        ]
        found += dead[keep:]
    return tuple(found)


def _dead_containers(observed: ObservedPod, keep: int) -> tuple[str, ...]:
    seen: Counter[str] = Counter()
    found: list[str] = []
    for one in observed.containers:
        if one.state is ContainerState.RUNNING:
            continue
        # The next sync pass still needs a created instance that never ran.
        newest = observed.newest(one.name)
        if keep and one.state is ContainerState.CREATED and one is newest:
            continue
        seen[one.name] += 1
        if seen[one.name] > keep:
            found.append(one.id)
    return tuple(found)


def garbage(
    pods: Iterable[ObservedPod],
    *,
    live: Collection[str],
    deletable: Collection[str] | None = None,
    keep: int = KEPT,
) -> Garbage:
    """Select the objects that container garbage collection removes.

    ``live`` holds the UIDs of pods that are configured or still terminating: one dead instance per
    container and the newest sandbox stay. Of other pods, everything dead is removed if
    ``deletable`` is None or contains their UID. Pass ``deletable=()`` until all sources are ready.
    """
    containers: list[str] = []
    sandboxes: list[str] = []
    emptied: list[str] = []
    for observed in pods:
        gone = observed.uid not in live
        held_back = gone and deletable is not None and observed.uid not in deletable
        dead = _dead_containers(observed, 0 if gone and not held_back else keep)
        containers += dead
        occupied = {one.sandbox_id for one in observed.containers if one.id not in dead}
        removed = [
            sandbox.id
            for index, sandbox in enumerate(observed.sandboxes)
            if sandbox.state is SandboxState.NOT_READY
            and sandbox.id not in occupied
            and (index > 0 or (gone and not held_back))
        ]
        sandboxes += removed
        nothing_left = len(removed) == len(observed.sandboxes) and not occupied
        if gone and not held_back and nothing_left:
            emptied.append(observed.uid)
    return Garbage(containers=tuple(containers), sandboxes=tuple(sandboxes), pods=tuple(emptied))
