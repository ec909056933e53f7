"""The runtime configuration of a pod's container (kubelet.md §6.5, 10-13)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import msgspec

from podtui.api import names
from podtui.api.image_reference import by_digest
from podtui.api.pods import is_sidecar
from podtui.api.v1 import Container, Pod
from podtui.kubelet.containers.cgroups import CgroupRules, container_resources
from podtui.kubelet.containers.environment import environment
from podtui.kubelet.containers.mounts import container_mounts
from podtui.kubelet.containers.security import security_context
from podtui.kubelet.resource_managers.device_manager import ContainerDevices
from podtui.kubelet.resource_managers.resource_managers import Placement
from podtui.kubelet.types import ConfigError, NodeContext
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.pod_volumes import PublishedDevice
from podtui.runtime.protocol import (
    ContainerConfig,
    DeviceMapping,
    ImageRecord,
    Mount,
    NamespaceMode,
)
from podtui.text.expansion import expand


def container_hash(container: Container) -> str:
    """Return the 32-bit FNV-1a hash, in hex, of the name and image alone (kubelet.md §6.9).

    So under a fixed UID only a new image replaces a running container.
    """
    text = json.dumps({"name": container.name, "image": container.image}, separators=(",", ":"))
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:x}"


PRE_STOP: Final = "io.kubernetes.container.preStopHandler"
PORTS: Final = "io.kubernetes.container.ports"


def pid_mode(pod: Pod) -> NamespaceMode:
    """Return the PID namespace: the container's, the pod's or the node's (kubelet.md §11.4)."""
    if pod.spec.hostPID:
        return NamespaceMode.NODE
    return NamespaceMode.POD if pod.spec.shareProcessNamespace else NamespaceMode.CONTAINER


def stop_signal(container: Container) -> str:
    """Return the container's stop signal; empty for the one of its image."""
    return "" if container.lifecycle is None else container.lifecycle.stopSignal


def _annotations(
    pod: Pod, container: Container, image: ImageRecord, restart_count: int
) -> dict[str, str]:
    """Return the annotations that a later agent needs when the spec is gone (kubelet.md §17)."""
    annotations = {
        names.CONTAINER_HASH: container_hash(container),
        names.CONTAINER_RESTART_COUNT: str(restart_count),
        names.CONTAINER_TERMINATION_PATH: container.terminationMessagePath,
        names.CONTAINER_TERMINATION_POLICY: container.terminationMessagePolicy,
    }
    if image.digests:
        annotations[names.CONTAINER_IMAGE_REF] = by_digest(container.image, image.digests)
    grace = pod.spec.terminationGracePeriodSeconds
    if grace is not None:
        annotations[names.POD_TERMINATION_GRACE] = str(grace)
    if container.lifecycle is not None and container.lifecycle.preStop is not None:
        annotations[PRE_STOP] = msgspec.json.encode(container.lifecycle.preStop).decode()
    if container.ports:
        annotations[PORTS] = msgspec.json.encode(container.ports).decode()
    return annotations


def _volume_devices(pod: Pod, container: Container) -> Iterator[tuple[str, str, str]]:
    """Yield the devices of block volumes: host path, container path, permissions. Raises
    `ConfigError`."""
    sources = {volume.name: volume.hostPath for volume in pod.spec.volumes}
    for device in container.volumeDevices:
        source = sources.get(device.name)
        if not isinstance(source, PublishedDevice):
            raise ConfigError(
                f'cannot find volume "{device.name}" to pass into container "{container.name}"'
            )
        yield source.path, device.devicePath, "r" if source.read_only else "mrw"


def container_config(
    pod: Pod,
    container: Container,
    values: ValueSources,
    node: NodeContext,
    *,
    image: ImageRecord,
    restart_count: int,
    rules: CgroupRules | None = None,
    placement: Placement | None = None,
    devices: ContainerDevices | None = None,
    target_container_id: str = "",
    hosts: bytes = b"",
) -> ContainerConfig:
    """Build the configuration of one instance.

    ``values`` are what its variables refer to. ``image`` is the image to run, found or pulled.
    ``rules`` convert amounts to cgroup values; ``placement`` has its CPUs. ``devices`` are what
    device plugins ask for; variables of the pod replace theirs. ``hosts`` is the content of the
    hosts file, empty for the engine's own.

    Raises `ConfigError`; its text is the message of the container's ``CreateContainerConfigError``.
    """
    security = security_context(
        pod, container, image_user=image.user, seccomp_default=node.seccomp_default
    )
    variables = environment(pod, container, values)
    meta, pid = pod.metadata, pid_mode(pod)
    devices = devices or ContainerDevices()
    return ContainerConfig(
        name=container.name,
        attempt=restart_count,
        image=container.image,
        image_id=image.id,
        pod_name=meta.name,
        pod_namespace=meta.namespace,
        pod_uid=meta.uid,
        command=tuple(expand(word, variables) for word in container.command) or None,
        args=tuple(expand(word, variables) for word in container.args) or None,
        working_dir=container.workingDir,
        env=tuple({**devices.env, **variables}.items()),
        mounts=(
            *(
                Mount(container_path=path, host_path=host, read_only=read_only)
                for host, path, read_only in devices.mounts
            ),
            *container_mounts(
                pod, container, variables, recursive_read_only=node.recursive_read_only
            ),
        ),
        devices=tuple(
            DeviceMapping(host_path=host, container_path=path, permissions=permissions)
            for host, path, permissions in (*devices.devices, *_volume_devices(pod, container))
        ),
        cdi_devices=devices.cdi,
        oci_annotations=devices.annotations,
        labels={
            names.POD_NAME: meta.name,
            names.POD_NAMESPACE: meta.namespace,
            names.POD_UID: meta.uid,
            names.CONTAINER_NAME: container.name,
        },
        annotations=_annotations(pod, container, image, restart_count),
        resources=container_resources(pod, container, values.node.resources, rules, placement),
        security=security,
        pid=pid,
        # With a shared PID namespace, the target's processes are visible anyway.
        target_container_id=target_container_id if pid is NamespaceMode.CONTAINER else "",
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdinOnce),
        tty=bool(container.tty),
        termination_message_path=container.terminationMessagePath,
        stop_signal=stop_signal(container) if node.stop_signals else "",
        hosts=hosts,
        completes=_completes(pod, container),
    )


def _completes(pod: Pod, container: Container) -> bool:
    if any(init.name == container.name for init in pod.spec.initContainers):
        return not is_sidecar(container)
    return pod.spec.restartPolicy in ("OnFailure", "Never")
