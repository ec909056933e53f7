"""The pod-level facts that the rules of a container depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podtui.api.v1 import Container, EphemeralContainer, PodSpec, Volume

AnyContainer = Container | EphemeralContainer


@dataclass(frozen=True, slots=True)
class PodContext:
    """Pod-level facts for the rules of its containers.

    ``volumes`` has the valid volumes by name. ``grace_seconds`` and ``os_name`` are None if the pod
    does not set them. ``host_users`` is true unless the pod has a user namespace.
    """

    volumes: Mapping[str, Volume]
    claim_names: frozenset[str]
    restart_policy: str
    host_users: bool
    grace_seconds: int | None
    os_name: str | None


def containers_with_paths(spec: PodSpec) -> Iterator[tuple[str, AnyContainer]]:
    """Yield every container with its field path: init, regular, then ephemeral ones."""
    for index, container in enumerate(spec.initContainers):
        yield f"spec.initContainers[{index}]", container
    for index, container in enumerate(spec.containers):
        yield f"spec.containers[{index}]", container
    for index, container in enumerate(spec.ephemeralContainers):
        yield f"spec.ephemeralContainers[{index}]", container
