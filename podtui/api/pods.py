"""Names and walks that every reader of a Pod needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.v1 import Container, ContainerStateTerminated, ContainerStatus, Pod

NEVER_STARTED: Final = "1970-01-01T00:00:00Z"
"""``startedAt`` of a container that failed to start, as a kubelet reports it on containerd."""


def full_name(pod: Pod) -> str:
    """``NAME_NAMESPACE``, which no two running pods of a node share."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def pod_ref(pod: Pod) -> str:
    """``NAME_NAMESPACE(UID)``, as the kubelet's messages spell a pod."""
    return f"{full_name(pod)}({pod.metadata.uid})"


def is_sidecar(container: Container) -> bool:
    """Whether an init container is a restartable one (reference §6.3)."""
    return container.restartPolicy == "Always"


def is_true(pod: Pod, condition: str) -> bool:
    """Whether the pod has the condition, and with status True."""
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)


def run_began(ended: ContainerStateTerminated) -> str | None:
    """When the run began; of a container that failed to start, when that was."""
    return ended.finishedAt if ended.startedAt == NEVER_STARTED else ended.startedAt


def init_containers(pod: Pod) -> tuple[Container, ...]:
    return pod.spec.initContainers


def containers(pod: Pod) -> tuple[Container, ...]:
    return pod.spec.containers


def ephemeral_containers(pod: Pod) -> tuple[Container, ...]:
    """The ephemeral ones, as what they are beside their target: containers."""
    names = Container.__struct_fields__
    return tuple(
        Container(**{name: getattr(one, name) for name in names})
        for one in pod.spec.ephemeralContainers
    )


def all_containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    """Every container with its field path (``spec.containers{NAME}``): init, regular, ephemeral."""
    for container in init_containers(pod):
        yield f"spec.initContainers{{{container.name}}}", container
    for container in containers(pod):
        yield f"spec.containers{{{container.name}}}", container
    for container in ephemeral_containers(pod):
        yield f"spec.ephemeralContainers{{{container.name}}}", container


def container_names(pod: Pod) -> list[str]:
    """Every container in the order of the manifest: init (sidecars among them), regular, ephemeral.

    Lists for users follow it. A kubelet sorts ``containerStatuses`` by name.
    """
    return [container.name for _, container in all_containers(pod)]


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """Every container status, in the order of the manifest."""
    status = pod.status
    found = (
        *status.initContainerStatuses,
        *status.containerStatuses,
        *status.ephemeralContainerStatuses,
    )
    places = {name: place for place, name in enumerate(container_names(pod))}
    return sorted(found, key=lambda one: places.get(one.name, len(places)))
