"""Plain input and output data of the kubelet's decisions.

``observed`` comes from the runtime (PLEG's cache); ``actions`` go to it. Everything here is
immutable, so a decision can be tested by building its inputs and comparing its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from podtui.api.kills import KillReason
from podtui.api.v1 import Pod, PodStatus, Taint
from podtui.errors import PodtuiError
from podtui.runtime.protocol import ContainerState, Resources, SandboxState

# --- observed


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSandbox:
    id: str
    attempt: int
    state: SandboxState
    created_at: datetime
    ips: tuple[str, ...] = ()
    host_network: bool = False
    routable: bool = True
    """True if this machine has a route to the pod by ``ips``."""
    enterable: bool = False
    """True if sockets can be opened inside the pod's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedContainer:
    """One inspected instance of a container."""

    id: str
    name: str
    restart_count: int
    sandbox_id: str
    state: ContainerState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    """The runtime's message and the termination message, joined as in kubelet.md §7.7."""
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    """The image with its registry's digest; empty for an image that came from no registry."""
    hash: str = ""
    """The container hash at creation (kubelet.md §6.9), read from its annotation or label."""
    user: tuple[int, int, tuple[int, ...]] | None = None
    """Uid, gid and supplementary groups of the first process; None if not reported."""
    resources: Resources | None = None
    """The engine's resource settings at the time of the inspection; None if not reported."""
    log_path: str = ""
    """Path of the engine's log file, on the engine's host; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """All sandboxes and containers of a pod, newest first (by attempt, then by creation)."""

    uid: str
    name: str
    namespace: str
    sandboxes: tuple[ObservedSandbox, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()

    def newest(self, container: str) -> ObservedContainer | None:
        return next((c for c in self.containers if c.name == container), None)


# --- probes


class ProbeResult(StrEnum):
    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeView:
    """Latest probe results by container id; an id that is absent has no result (yet)."""

    startup: Mapping[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    liveness: Mapping[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    readiness: Mapping[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])


# --- actions


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerToKill:
    id: str
    name: str
    message: str
    """Text of the ``Killing`` event (kubelet.md §6.2); empty for the default text."""
    reason: KillReason = KillReason.UNKNOWN


ResizableResource = Literal["memory", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAmounts:
    """cpu in millicores and memory in bytes; 0 for unset. The pod's own limits replace missing ones
    of the container."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0

    def of(self, resource: ResizableResource) -> tuple[int, int]:
        """Return (limit, request)."""
        if resource == "memory":
            return self.memory_limit, self.memory_request
        return self.cpu_limit, self.cpu_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUpdate:
    """A change of one resource of one running container (kubelet.md §13.6)."""

    id: str
    name: str
    resource: ResizableResource
    desired: ContainerAmounts
    current: ContainerAmounts

    @property
    def grows(self) -> bool:
        """Return True if the limit grows or, if it stays the same, the request."""
        new, old = self.desired.of(self.resource), self.current.of(self.resource)
        return new[0] > old[0] if new[0] != old[0] else new[1] > old[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """The actions of one sync pass, in the order of kubelet.md §6.4."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    """The sandbox to use; empty when there is none yet."""
    attempt: int = 0
    """Attempt of the sandbox to create."""
    kill: tuple[ContainerToKill, ...] = ()
    """Containers to kill; with ``kill_pod``, those with a reason other than the end of the pod."""
    reset: tuple[str, ...] = ()
    """Ids to kill without grace and remove (RestartAllContainers)."""
    start_init: tuple[str, ...] = ()
    """Names of init containers and sidecars to start now, in order."""
    start: tuple[str, ...] = ()
    """Names of regular containers to start now, in spec order."""
    purge_init: bool = False
    """True to remove all dead init containers first, because the sandbox is new."""
    start_ephemeral: tuple[str, ...] = ()
    """Names of ephemeral containers to start now, before all others."""
    update: tuple[ContainerUpdate, ...] = ()
    """Resource changes of running containers, in order."""
    resize_pod: bool = False
    """True if the pod's own resources have changed."""


# --- admission


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    """``capacity`` and ``allocatable`` by resource: cpu in milli, the rest in units or bytes."""

    capacity: Mapping[str, int] = field(default_factory=dict[str, int])
    allocatable: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The node's properties that admission needs."""

    name: str
    labels: Mapping[str, str]
    resources: NodeResources
    os: str = "linux"
    taints: tuple[Taint, ...] = ()
    conditions: tuple[str, ...] = ()
    """Types of the pressure conditions that are True."""
    shutting_down: bool = False
    kernel: str = ""
    """The kernel release; empty if unknown."""
    apparmor: bool = False
    supplemental_groups_policy: bool = False
    allowed_unsafe_sysctls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The properties of the node that containers and statuses of its pods need."""

    host_ips: tuple[str, ...] = ()
    """The node's addresses, primary first; empty for an engine on another machine."""
    runtime_name: str = "docker"
    recursive_read_only: bool = False
    """The engine supports recursive read-only mounts."""
    seccomp_default: bool = False
    stop_signals: bool = False
    """The feature gate ``ContainerStopSignals`` is on."""
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitResult:
    """The result of admission; ``preempt`` holds the UIDs to kill first (kubelet.md §5.2).

    ``lacks`` shows how much was missing, for the screen: (resource, requested, used, capacity), in
    the units of `NodeResources`.
    """

    admitted: bool
    reason: str = ""
    message: str = ""
    preempt: tuple[str, ...] = ()
    lacks: tuple[tuple[str, int, int, int], ...] = ()


# --- sources and workers


class PodOperation(StrEnum):
    ADD = "ADD"
    UPDATE = "UPDATE"
    REMOVE = "REMOVE"
    RECONCILE = "RECONCILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUpdate:
    """A message from a source to the sync loop."""

    operation: PodOperation
    pods: tuple[Pod, ...]
    source: str = "file"


class WorkerState(StrEnum):
    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FINISHED = "finished"


Decorate = Callable[[PodStatus], PodStatus]
"""Changes the last statuses of a pod that is stopped, for example to name the reason."""


class ConfigError(PodtuiError):
    """Raised when a pod's spec cannot be turned into a runtime configuration.

    The text is the message of the container's ``CreateContainerConfigError``, or of the pod's
    ``FailedCreatePodSandBox`` event.
    """
