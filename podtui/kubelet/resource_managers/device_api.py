"""The messages of the device plugin API v1beta1, with the names of its `api.proto`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import field

from podtui.wire.protobuf import Message

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
REGISTRATION: Final = "v1beta1.Registration"
DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"


class Empty(Message, frozen=True):
    """No fields."""


class DevicePluginOptions(Message, frozen=True):
    pre_start_required: Annotated[bool, 1] = False
    get_preferred_allocation_available: Annotated[bool, 2] = False


class RegisterRequest(Message, frozen=True):
    version: Annotated[str, 1] = ""
    endpoint: Annotated[str, 2] = ""
    resource_name: Annotated[str, 3] = ""
    options: Annotated[DevicePluginOptions | None, 4] = None


class NumaNodeId(Message, frozen=True):
    ID: Annotated[int, 1] = 0


class TopologyInfo(Message, frozen=True):
    nodes: Annotated[tuple[NumaNodeId, ...], 1] = ()


class Device(Message, frozen=True):
    ID: Annotated[str, 1] = ""
    health: Annotated[str, 2] = ""
    topology: Annotated[TopologyInfo | None, 3] = None

    @property
    def numa_nodes(self) -> frozenset[int]:
        return (
            frozenset() if self.topology is None else frozenset(n.ID for n in self.topology.nodes)
        )


class ListAndWatchResponse(Message, frozen=True):
    devices: Annotated[tuple[Device, ...], 1] = ()


class PreStartContainerRequest(Message, frozen=True):
    devices_ids: Annotated[tuple[str, ...], 1] = ()


class ContainerPreferredAllocationRequest(Message, frozen=True):
    available_deviceIDs: Annotated[tuple[str, ...], 1] = ()
    must_include_deviceIDs: Annotated[tuple[str, ...], 2] = ()
    allocation_size: Annotated[int, 3] = 0


class PreferredAllocationRequest(Message, frozen=True):
    container_requests: Annotated[tuple[ContainerPreferredAllocationRequest, ...], 1] = ()


class ContainerPreferredAllocationResponse(Message, frozen=True):
    deviceIDs: Annotated[tuple[str, ...], 1] = ()


class PreferredAllocationResponse(Message, frozen=True):
    container_responses: Annotated[tuple[ContainerPreferredAllocationResponse, ...], 1] = ()


class ContainerAllocateRequest(Message, frozen=True):
    devices_ids: Annotated[tuple[str, ...], 1] = ()


class AllocateRequest(Message, frozen=True):
    container_requests: Annotated[tuple[ContainerAllocateRequest, ...], 1] = ()


class CdiDevice(Message, frozen=True):
    name: Annotated[str, 1] = ""


class DeviceMount(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    read_only: Annotated[bool, 3] = False


class DeviceSpec(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class ContainerAllocateResponse(Message, frozen=True):
    envs: Annotated[Mapping[str, str], 1] = field(default_factory=dict[str, str])
    mounts: Annotated[tuple[DeviceMount, ...], 2] = ()
    devices: Annotated[tuple[DeviceSpec, ...], 3] = ()
    annotations: Annotated[Mapping[str, str], 4] = field(default_factory=dict[str, str])
    cdi_devices: Annotated[tuple[CdiDevice, ...], 5] = ()


class AllocateResponse(Message, frozen=True):
    container_responses: Annotated[tuple[ContainerAllocateResponse, ...], 1] = ()
