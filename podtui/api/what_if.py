"""Whether a node would take a pod, and what is in its way: the agent's answer to a question.

Of ``podtui.dev/v1alpha1``, as the types of `podtui.api.local`. Amounts are milli cores for cpu,
bytes or counts for the rest.
"""

from __future__ import annotations

import msgspec

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct


class Lack(Struct, frozen=True, kw_only=True):
    """One resource of which too little is left; ``capacity`` is what the node gives to pods."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    @property
    def hopeless(self) -> bool:
        """Whether the node would lack it with no other pod on it."""
        return self.requested > self.capacity


class PortHolder(Struct, frozen=True, kw_only=True):
    """Who has a port of the node that the pod wants: a pod, or another program of the machine.

    ``pid`` is None, and ``process`` empty, where the machine does not tell whose it is.
    """

    port: int
    protocol: str
    hostIP: str = ""
    namespace: str = ""
    pod: str = ""
    process: str = ""
    pid: int | None = None


class Leaver(Struct, frozen=True, kw_only=True):
    """A pod that would have to go. ``preempted``: the kubelet would end it by itself."""

    namespace: str
    name: str
    uid: str
    frees: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    ports: tuple[int, ...] = ()
    preempted: bool = False


class WhatIf(Struct, frozen=True, kw_only=True):
    """The verdict on the pod in ``metadata``: the kubelet's reason and message where it is not
    ``admitted``.

    ``replaces``: a pod of this name runs, and would give way to it. ``leave`` is the smallest set
    of pods without which it fits; it is empty where it fits now, and where nothing would help.
    ``remarks`` are sentences for people.
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
