"""Ephemeral containers: debuggers that join a running pod through the API (reference §6.2).

They live with the pod's UID, in its record, not in its manifest. An API server refuses them for the
mirror pods of static ones; see the list of departures.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from podtui.api.v1 import EphemeralContainer, Pod
from podtui.kubelet.base.config_error import ConfigError


def target_id(pod: Pod, name: str, container_ids: Mapping[str, str]) -> str:
    """The engine's id of the container whose processes an ephemeral one is to see; empty for a
    container without a target. Raises `ConfigError` where the target was never created."""
    own = next((one for one in pod.spec.ephemeralContainers if one.name == name), None)
    if own is None or not own.targetContainerName:
        return ""
    target = container_ids.get(own.targetContainerName)
    if target is None:
        raise ConfigError(f"unable to find target container {own.targetContainerName}")
    return target


def with_ephemeral(pod: Pod, containers: tuple[EphemeralContainer, ...]) -> Pod:
    """The pod with these ephemeral containers and no other; the same object where it has them."""
    if pod.spec.ephemeralContainers == containers:
        return pod
    return structs.replace(pod, spec=structs.replace(pod.spec, ephemeralContainers=containers))
