"""What the rules of one container need to know of the pod around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podtui.api.v1 import Container, EphemeralContainer, PodSpec, Volume

AnyContainer = Container | EphemeralContainer


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The pod as a container sees it.

    ``volumes`` holds the sound volumes by name; ``grace_seconds`` and ``os_name`` are None where
    the pod leaves them out; ``host_users`` is true unless the pod has a user namespace.
    """

    volumes: Mapping[str, Volume]
    claim_names: frozenset[str]
    restart_policy: str
    host_users: bool
    grace_seconds: int | None
    os_name: str | None


def containers_with_paths(spec: PodSpec) -> Iterator[tuple[str, AnyContainer]]:
    """Every container with its field path: init, regular, then ephemeral ones."""
    for index, container in enumerate(spec.initContainers):
        yield f"spec.initContainers[{index}]", container
    for index, container in enumerate(spec.containers):
        yield f"spec.containers[{index}]", container
    for index, container in enumerate(spec.ephemeralContainers):
        yield f"spec.ephemeralContainers[{index}]", container
