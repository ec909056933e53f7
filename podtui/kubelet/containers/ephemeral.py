"""Ephemeral containers: debuggers that join a running pod through the API (reference §6.2).

They are stored in the record of the pod's UID, not in its manifest. An API server refuses them for
the mirror pods of static pods; see the list of departures.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from podtui.api.v1 import EphemeralContainer, Pod
from podtui.kubelet.base.config_error import ConfigError


def target_id(pod: Pod, name: str, container_ids: Mapping[str, str]) -> str:
    """Return the engine's id of an ephemeral container's target, whose processes it sees.

    The id is empty for a container without a target. Raises `ConfigError` if the target was never
    created.
    """
    own = next((one for one in pod.spec.ephemeralContainers if one.name == name), None)
    if own is None or not own.targetContainerName:
        return ""
    target = container_ids.get(own.targetContainerName)
    if target is None:
        raise ConfigError(f"unable to find target container {own.targetContainerName}")
    return target


def with_ephemeral(pod: Pod, containers: tuple[EphemeralContainer, ...]) -> Pod:
    """Return the pod with exactly these ephemeral containers; the same object if it has them."""
    if pod.spec.ephemeralContainers == containers:
        return pod
    return structs.replace(pod, spec=structs.replace(pod.spec, ephemeralContainers=containers))
