"""The checkpoint of allocated devices, `kubelet_internal_checkpoint`.

It has the kubelet's fields, which other programs read, without its checksum: that depends on the
memory layout of Go structs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct, field

from podtui.errors import PodtuiError
from podtui.kubelet.resource_managers.device_api import ContainerAllocateResponse
from podtui.wire.protobuf import ProtobufError, decode_message, encode_message

DEVICE_PLUGINS: Final = "device-plugins"
"""The directory of the plugins' sockets and of the checkpoint."""
CHECKPOINT: Final = "kubelet_internal_checkpoint"
WITHOUT_NODE: Final = -1
"""Stands for the NUMA node of a device that has none."""


@dataclass(frozen=True, slots=True)
class AllocatedDevices:
    """The devices of one resource that a container has: ids by NUMA node, and what the plugin
    answered. A device of several NUMA nodes is listed with each."""

    by_node: Mapping[int, tuple[str, ...]]
    response: ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(id for ids in self.by_node.values() for id in ids)


Allocations = dict[str, dict[str, dict[str, AllocatedDevices]]]
"""By pod UID, container and resource."""


class _Entry(Struct):
    PodUID: str
    ContainerName: str
    ResourceName: str
    DeviceIDs: dict[int, list[str] | None] | None
    AllocResp: bytes | None


class _Data(Struct):
    PodDeviceEntries: list[_Entry] | None = None
    RegisteredDevices: dict[str, list[str] | None] | None = None


class _File(Struct):
    Data: _Data = field(default_factory=_Data)


def encode_checkpoint(
    allocations: Mapping[str, Mapping[str, Mapping[str, AllocatedDevices]]],
    registered: Mapping[str, Iterable[str]],
) -> bytes:
    """``registered`` are the healthy devices by resource."""
    entries = [
        _Entry(
            PodUID=uid,
            ContainerName=container,
            ResourceName=resource,
            DeviceIDs={node: list(ids) for node, ids in devices.by_node.items()},
            AllocResp=encode_message(devices.response),
        )
        for uid, container, resource, devices in each_allocation(allocations)
    ]
    data = _Data(entries, {resource: sorted(ids) for resource, ids in registered.items()})
    return msgspec.json.encode(_File(data))


def each_allocation(
    allocations: Mapping[str, Mapping[str, Mapping[str, AllocatedDevices]]],
) -> Iterator[tuple[str, str, str, AllocatedDevices]]:
    """Iterate over pod UID, container, resource and devices."""
    for uid, containers in allocations.items():
        for container, resources in containers.items():
            for resource, devices in resources.items():
                yield uid, container, resource, devices


def decode_checkpoint(content: bytes) -> tuple[Allocations, frozenset[str]]:
    """Return the allocations, and the names of the resources that were registered. Raises
    `PodtuiError`."""
    allocations: Allocations = {}
    try:
        data = msgspec.json.decode(content, type=_File).Data
        for entry in data.PodDeviceEntries or ():
            ids = {node: tuple(ids or ()) for node, ids in (entry.DeviceIDs or {}).items()}
            response = decode_message(entry.AllocResp or b"", ContainerAllocateResponse)
            containers = allocations.setdefault(entry.PodUID, {})
            resources = containers.setdefault(entry.ContainerName, {})
            resources[entry.ResourceName] = AllocatedDevices(ids, response)
    except (ValueError, RecursionError, ProtobufError) as error:
        raise PodtuiError(f"the checkpoint of devices cannot be read: {error}") from error
    return allocations, frozenset(data.RegisteredDevices or ())
