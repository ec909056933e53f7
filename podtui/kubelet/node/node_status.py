"""The node's resources and status (kubelet.md §5.1, 14.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from podtui.api.names import KUBELET_NOT_READY
from podtui.api.pod_resources import in_unit
from podtui.api.quantity import Format, Quantity, parse_quantity
from podtui.api.thresholds import threshold_amount
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    ContainerImage,
    DaemonEndpoint,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeStatus,
    NodeSystemInfo,
)
from podtui.kubelet.types import NodeResources
from podtui.manifest.validation.resources import is_extended
from podtui.runtime.protocol import EngineInfo, ImageRecord
from podtui.text.go_format import aggregated

MAX_IMAGES: Final = 50
MAX_IMAGE_NAMES: Final = 5
KUBELET_VERSION: Final = "v1.36.2"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_EVICTED_FROM: Final = {"memory": "memory.available", "ephemeral-storage": "nodefs.available"}


@dataclass(frozen=True, slots=True)
class _Pressure:
    type: str
    true: tuple[str, str]
    false: tuple[str, str]


_PRESSURES: Final = (
    _Pressure(
        "MemoryPressure",
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ),
    _Pressure(
        "DiskPressure",
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ),
    _Pressure(
        "PIDPressure",
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ),
)


def architecture(engine: EngineInfo) -> str:
    """Return the Kubernetes name of the machine's architecture."""
    return _ARCHITECTURES.get(engine.architecture, engine.architecture)


def node_labels(name: str, engine: EngineInfo) -> dict[str, str]:
    """Return the labels that a kubelet sets on its node."""
    system, machine = engine.os or "linux", architecture(engine)
    return {
        "beta.kubernetes.io/arch": machine,
        "beta.kubernetes.io/os": system,
        "kubernetes.io/arch": machine,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": system,
    }


def node_resources(
    engine: EngineInfo,
    *,
    system_reserved: Mapping[str, str],
    kube_reserved: Mapping[str, str],
    eviction_hard: Mapping[str, str],
    max_pods: int,
    disk_capacity: int,
    hugepages: Mapping[str, int] | None = None,
) -> NodeResources:
    """Return the machine's capacity and the share of it that is allocatable to pods.

    Allocatable is the capacity less the reserved amounts and the hard eviction thresholds, never
    below 0; for memory, also less all huge pages. ``hugepages`` is in bytes by page size (``2Mi``).
    """
    pages = {f"hugepages-{size}": amount for size, amount in (hugepages or {}).items()}
    capacity = {
        "cpu": engine.cpus * 1000,
        "memory": engine.memory,
        "ephemeral-storage": disk_capacity,
        "pods": max_pods,
        **pages,
    }
    allocatable: dict[str, int] = {}
    for name, amount in capacity.items():
        left = amount
        for reserved in (system_reserved, kube_reserved):
            if name in reserved:
                left -= in_unit(name, parse_quantity(reserved[name]))
        threshold = eviction_hard.get(_EVICTED_FROM.get(name, ""))
        if threshold is not None:
            left -= threshold_amount(threshold, amount)
        if name == "memory":
            left -= sum(pages.values())
        allocatable[name] = max(left, 0)
    return NodeResources(capacity=capacity, allocatable=allocatable)


def with_extended(
    resources: NodeResources, devices: NodeResources, status: NodeStatus | None, *, reset: bool
) -> NodeResources:
    """Return the node's resources with those of device plugins, and the other extended resources of
    its recorded ``status``, which API clients set. With ``reset`` the recorded ones are 0, until
    their plugins register."""
    recorded = {} if status is None else status.capacity
    kept = {
        name: 0 if reset else parse_quantity(text).value()
        for name, text in recorded.items()
        if is_extended(name)
    }
    return NodeResources(
        capacity={**kept, **resources.capacity, **devices.capacity},
        allocatable={**kept, **resources.allocatable, **devices.allocatable},
    )


def resource_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Format amounts (CPU in millicores) as canonical quantities for the node's status."""
    texts: dict[str, str] = {}
    for name, amount in sorted(amounts.items()):
        if name == "cpu":
            texts[name] = str(Quantity.of_milli(amount))
        else:
            counted = name == "pods" or is_extended(name)
            form = Format.DECIMAL_SI if counted else Format.BINARY_SI
            texts[name] = str(Quantity.of(amount, form))
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The ids of the engine's machine; empty if unknown."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    addresses: tuple[str, ...] = ()
    """IPs, primary first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The pressure conditions that hold, and the errors that keep the node from being ready.

    ``reason`` is that of the condition Ready if there are errors.
    """

    pressures: Collection[str] = field(default_factory=frozenset[str])
    errors: Sequence[str] = ()
    reason: str = KUBELET_NOT_READY


def _conditions(
    health: NodeHealth, previous: NodeStatus | None, now: datetime
) -> tuple[NodeCondition, ...]:
    stamp = rfc3339(now)
    before = {
        condition.type: condition
        for condition in (previous.conditions if previous is not None else ())
    }

    def condition(kind: str, true: bool, cause: tuple[str, str]) -> NodeCondition:
        status = "True" if true else "False"
        old = before.get(kind)
        kept = old.lastTransitionTime if old is not None and old.status == status else None
        reason, message = cause
        return NodeCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            lastHeartbeatTime=stamp,
            lastTransitionTime=kept or stamp,
        )

    pressures = [
        condition(
            pressure.type,
            pressure.type in health.pressures,
            pressure.true if pressure.type in health.pressures else pressure.false,
        )
        for pressure in _PRESSURES
    ]
    ready = not health.errors
    cause = (
        ("KubeletReady", "kubelet is posting ready status")
        if ready
        else (health.reason, aggregated(health.errors))
    )
    return (*pressures, condition("Ready", ready, cause))


def _images(images: Sequence[ImageRecord]) -> tuple[ContainerImage, ...]:
    named = [
        ContainerImage(names=(*image.digests, *image.tags)[:MAX_IMAGE_NAMES], sizeBytes=image.size)
        for image in images
        if image.digests or image.tags
    ]
    named.sort(key=lambda image: (-(image.sizeBytes or 0), image.names))
    return tuple(named[:MAX_IMAGES])


def node_status(
    *,
    name: str,
    engine: EngineInfo | None,
    resources: NodeResources,
    now: datetime,
    previous: NodeStatus | None = None,
    health: NodeHealth | None = None,
    images: Sequence[ImageRecord] = (),
    machine: Machine | None = None,
    features: Sequence[str] = (),
    endpoint_port: int = 0,
) -> NodeStatus:
    """Build the node's status: addresses, capacity, conditions in the kubelet's order, images.

    ``engine`` is None until an engine first answered. ``lastTransitionTime`` changes only when a
    condition's status does. ``features`` are those that a scheduler may require of a node.
    ``endpoint_port`` is the port of the kubelet's endpoints, 0 if no port serves them.
    """
    ids = machine or Machine()
    health = health or NodeHealth()
    addresses = [NodeAddress(type="InternalIP", address=ip) for ip in ids.addresses]
    addresses.append(NodeAddress(type="Hostname", address=name))
    info = None if previous is None else previous.nodeInfo
    if engine is not None:
        info = NodeSystemInfo(
            architecture=architecture(engine),
            bootID=ids.boot_id,
            containerRuntimeVersion=f"{engine.name}://{engine.version}",
            kernelVersion=engine.kernel,
            kubeProxyVersion="",
            kubeletVersion=KUBELET_VERSION,
            machineID=ids.machine_id,
            operatingSystem=engine.os,
            osImage=engine.operating_system,
            systemUUID=ids.system_uuid,
        )
    return NodeStatus(
        addresses=tuple(addresses),
        capacity=resource_texts(resources.capacity),
        allocatable=resource_texts(resources.allocatable),
        conditions=_conditions(health, previous, now),
        daemonEndpoints=NodeDaemonEndpoints(kubeletEndpoint=DaemonEndpoint(Port=endpoint_port)),
        declaredFeatures=tuple(features),
        images=_images(images),
        nodeInfo=info,
        runtimeHandlers=() if engine is None else _runtime_handlers(engine),
    )


def _runtime_handlers(engine: EngineInfo) -> tuple[NodeRuntimeHandler, ...]:
    """Return the engine's runtimes; the first one, without a name, is its default."""
    features = NodeRuntimeHandlerFeatures(
        recursiveReadOnlyMounts=engine.recursive_read_only, userNamespaces=engine.user_namespaces
    )
    return tuple(
        NodeRuntimeHandler(name=name, features=features) for name in ("", *engine.runtimes)
    )


_EVENTS: Final = {
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
}


def condition_events(
    name: str, previous: NodeStatus | None, status: NodeStatus
) -> tuple[tuple[str, str], ...]:
    """Return (reason, message) of the Normal node events for conditions whose status changed.

    A new node gets events for its pressure conditions, but not for its readiness.
    """
    before = {
        condition.type: condition.status for condition in (previous.conditions if previous else ())
    }
    events: list[tuple[str, str]] = []
    for condition in status.conditions:
        former = before.get(condition.type)
        if former == condition.status or (former is None and condition.type == "Ready"):
            continue
        reason = _EVENTS.get((condition.type, condition.status))
        if reason is not None:
            events.append((reason, f"Node {name} status is now: {reason}"))
    return tuple(events)


def reboot_event(name: str, previous: NodeStatus | None, status: NodeStatus) -> str | None:
    """Return the event message if the machine was rebooted since ``previous``."""
    before = None if previous is None else previous.nodeInfo
    boot = "" if status.nodeInfo is None else status.nodeInfo.bootID
    if before is None or not before.bootID or not boot or before.bootID == boot:
        return None
    return f"Node {name} has been rebooted, boot id: {boot}"


def same_but_heartbeat(left: NodeStatus, right: NodeStatus) -> bool:
    """Return whether two statuses differ only in their heartbeat times."""

    def without_times(status: NodeStatus) -> NodeStatus:
        quiet = tuple(
            msgspec.structs.replace(condition, lastHeartbeatTime=None)
            for condition in status.conditions
        )
        return msgspec.structs.replace(status, conditions=quiet)

    return without_times(left) == without_times(right)


def with_conditions_of(status: NodeStatus, stored: NodeStatus) -> NodeStatus:
    """Return ``status`` with the stored conditions of the same types."""
    present = {condition.type: condition for condition in stored.conditions}
    conditions = tuple(
        present[condition.type] for condition in status.conditions if condition.type in present
    )
    return msgspec.structs.replace(status, conditions=conditions)
