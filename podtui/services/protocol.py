"""The interfaces between Services and the networks of pods, and of the servers that listen there.

`podtui.agent.pod_networks` implements `PodNetworks` with the engine. Methods raise `PodtuiError`
with a reason for users if the engine or the machine does not allow a call.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from podtui.api.objects import Object
from podtui.api.v1 import Pod

Transport = Literal["TCP", "UDP"]
EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedPod:
    """A pod whose sandbox runs. ``ips`` are empty for a pod with the host's network."""

    pod: Pod
    sandbox_id: str
    ips: tuple[str, ...]

    @property
    def host_network(self) -> bool:
        return bool(self.pod.spec.hostNetwork)


@dataclass(frozen=True, slots=True)
class ClusterPort:
    """A port of a cluster address, such as UDP 10.96.0.10:53."""

    protocol: Transport
    ip: str
    port: int


class PodListener(Protocol):
    """A server of the agent that pods reach at cluster addresses, such as DNS.

    It listens at a loopback address inside the network of each pod, so that it knows which pod
    connects, and nothing else can connect. The rules of the pod lead ``ports`` there.
    """

    @property
    def name(self) -> str:
        """The name in logs and events, such as ``DNS``."""
        ...

    @property
    def address(self) -> str:
        """The loopback address, such as 127.96.0.10. The kernel chooses the port numbers."""
        ...

    @property
    def ports(self) -> Sequence[ClusterPort]: ...

    async def attach(self, pod: AttachedPod, sockets: Sequence[socket.socket]) -> None:
        """Serve a pod on these sockets: one for each of ``ports``, in their order, bound, not
        blocking, and listening if TCP. Return at once. The listener owns the sockets from now on,
        also if it raises."""
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Close the sockets of a pod and their connections. Idempotent."""
        ...


class PodNetworks(Protocol):
    async def set_rules(self, sandbox_id: str, rules: str) -> None:
        """Apply a transaction of nftables in the network of a pod: all of it, or nothing."""
        ...

    async def check_table(self, sandbox_id: str, table: str) -> None:
        """Raises `podtui.errors.EngineError` if the network of a pod does not have the table."""
        ...

    async def listen(self, sandbox_id: str, protocol: Transport, address: str) -> socket.socket:
        """Return a socket in the network of a pod, bound to a free port of ``address``, not
        blocking, and listening if TCP."""
        ...

    async def forget_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        """Delete what the network of a pod remembers of UDP exchanges with a backend, so that the
        next packets of the same sockets go to another one."""
        ...

    async def has_host_pods(self) -> bool:
        """Return whether a pod of this agent runs in the host's network."""
        ...


class ServiceNetwork(Protocol):
    """The data path as `PodNetworks` drives it when sandboxes come and go."""

    async def attach(self, pod: AttachedPod) -> None:
        """Let a pod reach Services, before its containers start. Idempotent. Failures are reported
        as events, and tried again."""
        ...

    def reaches(self, sandbox_id: str) -> bool:
        """Return whether an attached pod reaches Services at their cluster addresses."""
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Forget a pod whose sandbox ends. Idempotent."""
        ...


class EventSink(Protocol):
    def record(
        self,
        component: str,
        item: Object,
        event_type: EventType,
        reason: str,
        message: str,
    ) -> None:
        """Record an event about an object, without waiting."""
        ...
