"""Ephemeral containers: debuggers that join a running pod through the API (kubelet.md §6.2).

They are stored in the record of the pod's UID, not in its manifest. An API server refuses them for
the mirror pods of static pods; see the list of departures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs

from podtui.api.v1 import EphemeralContainer, Pod
from podtui.errors import InvalidUpdate
from podtui.kubelet.types import ConfigError
from podtui.manifest.validation.errors import FieldError
from podtui.manifest.validation.pod_update import (
    refused_for_static_pods,
    validate_static_ephemeral_update,
)


class Ephemerals:
    """Added ephemeral containers by pod UID. ``strict`` allows none.

    ``recorded`` returns a pod's record from before this kubelet started, so that its ephemeral
    containers survive a restart of the kubelet.
    """

    def __init__(self, recorded: Callable[[str], Pod | None], *, strict: bool) -> None:
        self._recorded = recorded
        self._strict = strict
        self._known: dict[str, tuple[EphemeralContainer, ...]] = {}

    def onto(self, pod: Pod) -> Pod:
        """Return the manifest's pod with the ephemeral containers added since."""
        uid = pod.metadata.uid
        if uid not in self._known:
            seed = None if self._strict else self._recorded(uid)
            self._known[uid] = () if seed is None else seed.spec.ephemeralContainers
        return with_ephemeral(pod, self._known[uid])

    def change(self, pod: Pod, wanted: tuple[EphemeralContainer, ...]) -> Pod:
        """Replace the pod's ephemeral containers by ``wanted`` and return the changed pod.

        Raises `InvalidUpdate`.
        """
        if self._strict:
            raise _refusal([refused_for_static_pods()])
        changed = with_ephemeral(pod, wanted)
        errors = list(validate_static_ephemeral_update(changed, pod))
        if errors:
            raise _refusal(errors)
        self._known[pod.metadata.uid] = wanted
        return changed

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)


def target_id(pod: Pod, name: str, container_ids: Mapping[str, str]) -> str:
    """Return the engine's id of an ephemeral container's target, whose processes it sees.

    The id is empty for a container without a target. Raises `ConfigError` if the target was never
    created.
    """
    container = next(
        (container for container in pod.spec.ephemeralContainers if container.name == name), None
    )
    if container is None or not container.targetContainerName:
        return ""
    target = container_ids.get(container.targetContainerName)
    if target is None:
        raise ConfigError(f"unable to find target container {container.targetContainerName}")
    return target


def with_ephemeral(pod: Pod, containers: tuple[EphemeralContainer, ...]) -> Pod:
    """Return the pod with exactly these ephemeral containers; the same object if it has them."""
    if pod.spec.ephemeralContainers == containers:
        return pod
    return structs.replace(pod, spec=structs.replace(pod.spec, ephemeralContainers=containers))


def _refusal(errors: list[FieldError]) -> InvalidUpdate:
    return InvalidUpdate([(error.type, error.path, error.raw_body()) for error in errors])
