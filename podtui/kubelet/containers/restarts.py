"""Restarts on request: the container instances to stop so that new ones start."""

from __future__ import annotations

from collections.abc import Iterable

from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, Pod
from podtui.errors import RestartRefused
from podtui.kubelet.base.types import ObservedPod
from podtui.runtime.protocol import ContainerState

ALWAYS = "Always"


class Restarts:
    """Engine ids of the containers to restart on request, by pod UID.

    An id is forgotten once its container is no longer the newest of its name, so that two requests
    cause only one restart.
    """

    def __init__(self) -> None:
        self._asked: dict[str, frozenset[str]] = {}

    def ask(self, uid: str, ids: Iterable[str]) -> None:
        self._asked[uid] = self._asked.get(uid, frozenset()) | frozenset(ids)

    def of(self, observed: ObservedPod) -> frozenset[str]:
        """Return the ids of the restart requests that are still pending."""
        asked = self._asked.get(observed.uid)
        if asked is None:
            return frozenset()
        newest = {one.name: one.id for one in reversed(observed.containers)}
        left = asked & frozenset(newest.values())
        if left:
            self._asked[observed.uid] = left
        else:
            del self._asked[observed.uid]
        return left

    def forget(self, uid: str) -> None:
        """Drop the requests for a pod that is gone or starts over."""
        self._asked.pop(uid, None)


def comes_back(pod: Pod, container: Container) -> bool:
    """Return True if a container always runs again, however it ends."""
    if is_sidecar(container):
        return True
    own = container.restartPolicy or pod.spec.restartPolicy
    return own == ALWAYS and container in pod.spec.containers


def restarts_in_place(pod: Pod) -> bool:
    """Return True if stopping its containers restarts the pod; otherwise, it has to start over."""
    return all(comes_back(pod, container) for container in pod.spec.containers)


def to_restart(pod: Pod, observed: ObservedPod | None, name: str = "") -> tuple[str, ...]:
    """Return the ids of the containers to stop, to restart the pod or its container ``name``.

    Containers that do not run are omitted: they only have to start. Raises `LookupError` for an
    unknown container and `RestartRefused` for one that would not run again.
    """
    every = (*pod.spec.initContainers, *pod.spec.containers)
    wanted = [one for one in every if one.name == name] if name else list(every)
    if not wanted:
        raise LookupError(f'container "{name}" not found in pod "{pod.metadata.name}"')
    if name and not comes_back(pod, wanted[0]):
        raise RestartRefused(
            f'container "{name}" would not come back once it has ended: restart the pod instead'
        )
    newest = [observed.newest(one.name) if observed else None for one in wanted]
    return tuple(
        one.id
        for one, spec in zip(newest, wanted, strict=True)
        if one is not None and one.state is ContainerState.RUNNING and comes_back(pod, spec)
    )
