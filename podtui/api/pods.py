"""Names of pods, iteration over their containers, and their host ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.names import CONFIG_MIRROR, MANIFEST_PATH
from podtui.api.v1 import Container, ContainerStateTerminated, ContainerStatus, Pod

HostPort = tuple[str, str, int]
"""(protocol, IP, port); an empty IP means all addresses."""
_EVERY_IP: Final = ("", "0.0.0.0")
NEVER_STARTED: Final = "1970-01-01T00:00:00Z"
"""``startedAt`` of a container that failed to start, as reported by a kubelet on containerd."""


def full_name(pod: Pod) -> str:
    """Return ``NAME_NAMESPACE``, which is unique among the running pods of a node."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def pod_ref(pod: Pod) -> str:
    """Return ``NAME_NAMESPACE(UID)``, the notation of the kubelet's messages."""
    return f"{full_name(pod)}({pod.metadata.uid})"


def is_mirror(pod: Pod) -> bool:
    """Return whether the record is the mirror of a static pod."""
    return CONFIG_MIRROR in pod.metadata.annotations


def is_api_pod(pod: Pod) -> bool:
    """Return whether a client created the pod through the API; a static pod has a file."""
    return not is_mirror(pod) and MANIFEST_PATH not in pod.metadata.annotations


def source_uid(pod: Pod) -> str:
    """Return the UID under which the kubelet runs the pod; a mirror record may have another."""
    return pod.metadata.annotations.get(CONFIG_MIRROR, pod.metadata.uid)


def is_sidecar(container: Container) -> bool:
    """Return whether an init container is restartable (kubelet.md §6.3)."""
    return container.restartPolicy == "Always"


def is_true(pod: Pod, condition: str) -> bool:
    """Return whether the pod has this condition with status True."""
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def run_began(ended: ContainerStateTerminated) -> str | None:
    """Return when the run began; for a container that failed to start, when it failed."""
    return ended.finishedAt if ended.startedAt == NEVER_STARTED else ended.startedAt


def init_containers(pod: Pod) -> tuple[Container, ...]:
    return pod.spec.initContainers


def containers(pod: Pod) -> tuple[Container, ...]:
    return pod.spec.containers


def ephemeral_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the ephemeral containers, converted to plain `Container` objects."""
    names = Container.__struct_fields__
    return tuple(
        Container(**{name: getattr(container, name) for name in names})
        for container in pod.spec.ephemeralContainers
    )


def all_containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    """Yield every container with its field path (``spec.containers{NAME}``): init, regular,
    ephemeral."""
    for container in init_containers(pod):
        yield f"spec.initContainers{{{container.name}}}", container
    for container in containers(pod):
        yield f"spec.containers{{{container.name}}}", container
    for container in ephemeral_containers(pod):
        yield f"spec.ephemeralContainers{{{container.name}}}", container


def container_names(pod: Pod) -> list[str]:
    """Return all container names in manifest order: init (including sidecars), regular, ephemeral.

    Lists shown to users have this order. A kubelet sorts ``containerStatuses`` by name.
    """
    return [container.name for _, container in all_containers(pod)]


def container_statuses(pod: Pod) -> list[ContainerStatus]:
    """Return all container statuses, in manifest order."""
    status = pod.status
    statuses = (
        *status.initContainerStatuses,
        *status.containerStatuses,
        *status.ephemeralContainerStatuses,
    )
    order = {name: index for index, name in enumerate(container_names(pod))}
    return sorted(statuses, key=lambda status: order.get(status.name, len(order)))


def host_ports(pod: Pod) -> frozenset[HostPort]:
    """Return the host ports of the regular containers and sidecars."""
    return frozenset(
        (port.protocol or "TCP", port.hostIP, port.hostPort)
        for container in (*filter(is_sidecar, pod.spec.initContainers), *pod.spec.containers)
        for port in container.ports
        if port.hostPort
    )


def ports_clash(first: HostPort, second: HostPort) -> bool:
    """Return whether the two host ports exclude each other."""
    (protocol, ip, port), (other_protocol, other_ip, other_port) = first, second
    return (protocol, port) == (other_protocol, other_port) and (
        ip == other_ip or ip in _EVERY_IP or other_ip in _EVERY_IP
    )
