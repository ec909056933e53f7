"""The agent's answer to whether a node would admit a pod, and what prevents it.

Types of ``podtui.dev/v1alpha1``, like those of `podtui.api.local`. Amounts are in milli cores for
cpu, and in bytes or counts for other resources.
"""

from __future__ import annotations

import msgspec

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct


class Lack(Struct, frozen=True, kw_only=True):
    """A resource that is insufficient; ``capacity`` is the node's allocatable amount."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    @property
    def hopeless(self) -> bool:
        """True if the node lacks the resource even with no other pod on it."""
        return self.requested > self.capacity


class PortHolder(Struct, frozen=True, kw_only=True):
    """The pod, or the other process of the machine, that uses a host port which the pod needs.

    ``pid`` is None and ``process`` is empty if the machine does not reveal the owner.
    """

    port: int
    protocol: str
    hostIP: str = ""
    namespace: str = ""
    pod: str = ""
    process: str = ""
    pid: int | None = None


class Leaver(Struct, frozen=True, kw_only=True):
    """A pod that would have to be removed. ``preempted`` is set if the kubelet would preempt it
    itself."""

    namespace: str
    name: str
    uid: str
    frees: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    ports: tuple[int, ...] = ()
    preempted: bool = False


class WhatIf(Struct, frozen=True, kw_only=True):
    """The admission result of the pod in ``metadata``. Unless it is ``admitted``, ``reason`` and
    ``message`` are the kubelet's.

    ``replaces`` is set if a running pod of the same name would be replaced. ``leave`` is the
    smallest set of pods whose removal makes the pod fit; it is empty if the pod fits now or if no
    removal helps. ``remarks`` are sentences for users.
    """

    metadata: ObjectMeta
    admitted: bool
    reason: str = ""
    message: str = ""
    replaces: bool = False
    lacks: tuple[Lack, ...] = ()
    holders: tuple[PortHolder, ...] = ()
    leave: tuple[Leaver, ...] = ()
    remarks: tuple[str, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "WhatIf"
