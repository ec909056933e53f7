"""The messages of CSI 1.x that a node uses (`csi.v1.Node`), and the connection to a driver."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final, Protocol

from msgspec import field

from podtui.errors import PodtuiError
from podtui.wire.protobuf import Message

NODE: Final = "csi.v1.Node"
_UNCERTAIN: Final = (
    "Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted",
)  # fmt: skip
_INFEASIBLE: Final = ("InvalidArgument", "OutOfRange", "NotFound")


class CsiError(PodtuiError):
    """Raised if a driver cannot be called, or fails. ``code`` is that of gRPC, or empty."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code

    @property
    def is_final(self) -> bool:
        """False if the driver may still be at work, or may have done it."""
        return self.code not in _UNCERTAIN

    @property
    def is_infeasible(self) -> bool:
        """True if an expansion cannot succeed with the size that was asked for."""
        return self.code in _INFEASIBLE


class Capability(IntEnum):
    """Capabilities of a driver on a node, besides publishing volumes; others are not used."""

    STAGE_UNSTAGE_VOLUME = 1
    GET_VOLUME_STATS = 2
    EXPAND_VOLUME = 3
    SINGLE_NODE_MULTI_WRITER = 5
    VOLUME_MOUNT_GROUP = 6


class Unit(IntEnum):
    """The unit of the figures of a `Usage`."""

    BYTES = 1
    INODES = 2


class AccessMode(IntEnum):
    UNKNOWN = 0
    SINGLE_NODE_WRITER = 1
    MULTI_NODE_READER_ONLY = 3
    MULTI_NODE_MULTI_WRITER = 5
    SINGLE_NODE_SINGLE_WRITER = 6
    SINGLE_NODE_MULTI_WRITER = 7


class Nothing(Message, frozen=True):
    """No fields."""


class Topology(Message, frozen=True):
    segments: Annotated[Mapping[str, str], 1] = field(default_factory=dict[str, str])


class NodeInfo(Message, frozen=True):
    node_id: Annotated[str, 1] = ""
    max_volumes_per_node: Annotated[int, 2] = 0
    accessible_topology: Annotated[Topology | None, 3] = None


class RpcCapability(Message, frozen=True):
    type: Annotated[int, 1] = 0


class NodeCapability(Message, frozen=True):
    rpc: Annotated[RpcCapability | None, 1] = None


class NodeCapabilities(Message, frozen=True):
    capabilities: Annotated[tuple[NodeCapability, ...], 1] = ()


class MountVolume(Message, frozen=True):
    fs_type: Annotated[str, 1] = ""
    mount_flags: Annotated[tuple[str, ...], 2] = ()
    volume_mount_group: Annotated[str, 3] = ""


class AccessModeOf(Message, frozen=True):
    mode: Annotated[int, 1] = 0


class BlockVolume(Message, frozen=True):
    """No fields."""


class VolumeCapability(Message, frozen=True):
    """``block`` or ``mount`` is set."""

    block: Annotated[BlockVolume | None, 1] = None
    mount: Annotated[MountVolume | None, 2] = None
    access_mode: Annotated[AccessModeOf | None, 3] = None


class StageRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[Mapping[str, str], 2] = field(default_factory=dict[str, str])
    staging_target_path: Annotated[str, 3] = ""
    volume_capability: Annotated[VolumeCapability | None, 4] = None
    secrets: Annotated[Mapping[str, str], 5] = field(default_factory=dict[str, str])
    volume_context: Annotated[Mapping[str, str], 6] = field(default_factory=dict[str, str])


class UnstageRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    staging_target_path: Annotated[str, 2] = ""


class PublishRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    publish_context: Annotated[Mapping[str, str], 2] = field(default_factory=dict[str, str])
    staging_target_path: Annotated[str, 3] = ""
    target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability | None, 5] = None
    readonly: Annotated[bool, 6] = False
    secrets: Annotated[Mapping[str, str], 7] = field(default_factory=dict[str, str])
    volume_context: Annotated[Mapping[str, str], 8] = field(default_factory=dict[str, str])


class UnpublishRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    target_path: Annotated[str, 2] = ""


class StatsRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""


class Usage(Message, frozen=True):
    available: Annotated[int, 1] = 0
    total: Annotated[int, 2] = 0
    used: Annotated[int, 3] = 0
    unit: Annotated[int, 4] = 0


class VolumeStats(Message, frozen=True):
    usage: Annotated[tuple[Usage, ...], 1] = ()


class CapacityRange(Message, frozen=True):
    required_bytes: Annotated[int, 1] = 0


class ExpandRequest(Message, frozen=True):
    volume_id: Annotated[str, 1] = ""
    volume_path: Annotated[str, 2] = ""
    capacity_range: Annotated[CapacityRange | None, 3] = None
    staging_target_path: Annotated[str, 4] = ""
    volume_capability: Annotated[VolumeCapability | None, 5] = None
    secrets: Annotated[Mapping[str, str], 6] = field(default_factory=dict[str, str])


class CsiNodeService(Protocol):
    """The calls of a driver. Each raises `CsiError`."""

    async def info(self) -> NodeInfo: ...

    async def capabilities(self) -> frozenset[int]: ...

    async def stage(self, request: StageRequest) -> None: ...

    async def unstage(self, request: UnstageRequest) -> None: ...

    async def publish(self, request: PublishRequest) -> None: ...

    async def unpublish(self, request: UnpublishRequest) -> None: ...

    async def stats(self, request: StatsRequest) -> VolumeStats: ...

    async def expand(self, request: ExpandRequest) -> None: ...
