"""The plain data that the kubelet's decisions take and give.

``observed`` comes from the runtime (PLEG's cache); ``actions`` go to it. Everything here is
immutable, so a decision can be tested by building its inputs and comparing its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from podtui.api.kills import KillReason
from podtui.api.v1 import Pod
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
    """Whether this machine's route to ``ips`` leads to the pod."""
    enterable: bool = False
    """Whether sockets can be opened in the pod's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedContainer:
    """One instance of one container, inspected."""

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
    """The runtime's message and the termination message, joined as in reference §7.7."""
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    """The image as its registry knows it, by digest; empty for one that no registry gave."""
    hash: str = ""
    """The container hash it was made with (reference §6.9), from its label."""
    user: tuple[int, int, tuple[int, ...]] | None = None
    """Uid, gid and supplementary groups of its first process, where the runtime tells."""
    resources: Resources | None = None
    """What the engine held it to when it was inspected; None where it does not tell."""
    log_path: str = ""
    """The engine's own file of its log, on the engine's host; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """All that runs or ran of one pod; both tuples newest first (attempt, then creation)."""

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
    """The ``Killing`` event's text (reference §6.2); empty for the usual one."""
    reason: KillReason = KillReason.UNKNOWN


ResizableResource = Literal["memory", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAmounts:
    """cpu in milli and memory in bytes; 0 for none. Limits are the pod's own where the container
    has none."""

    memory_limit: int = 0
    memory_request: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0

    def of(self, resource: ResizableResource) -> tuple[int, int]:
        """(limit, request)"""
        if resource == "memory":
            return self.memory_limit, self.memory_request
        return self.cpu_limit, self.cpu_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUpdate:
    """One resource of one running container to be changed (reference §13.6)."""

    id: str
    name: str
    resource: ResizableResource
    desired: ContainerAmounts
    current: ContainerAmounts

    @property
    def grows(self) -> bool:
        """By its limit, or where that stays, by its request."""
        new, old = self.desired.of(self.resource), self.current.of(self.resource)
        return new[0] > old[0] if new[0] != old[0] else new[1] > old[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """What one sync pass does, in the order of reference §6.4."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    """The sandbox to use; empty when there is none yet."""
    attempt: int = 0
    """Attempt of the sandbox to create."""
    kill: tuple[ContainerToKill, ...] = ()
    """With ``kill_pod``: why single containers are stopped, where that is not the pod's end."""
    reset: tuple[str, ...] = ()
    """Ids to kill at once and remove (RestartAllContainers)."""
    start_init: tuple[str, ...] = ()
    """Names of init containers and sidecars to start now, in order."""
    start: tuple[str, ...] = ()
    """Names of regular containers to start now, in spec order."""
    purge_init: bool = False
    """Remove all dead init containers first: the sandbox is new."""
    start_ephemeral: tuple[str, ...] = ()
    """Names of ephemeral containers to start now, before all others."""
    update: tuple[ContainerUpdate, ...] = ()
    """What running containers are to be held to from now on, in order."""
    resize_pod: bool = False
    """Whether the pod's own resources have changed."""


# --- admission


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    """``capacity`` and ``allocatable`` by resource: cpu in milli, the rest in units or bytes."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What admission knows of the node."""

    name: str
    labels: Mapping[str, str]
    resources: NodeResources
    os: str = "linux"
    conditions: tuple[str, ...] = ()
    """Types of the pressure conditions that are True."""
    shutting_down: bool = False
    kernel: str = ""
    """The kernel's release; empty where it is not known."""
    apparmor: bool = False
    supplemental_groups_policy: bool = False
    allowed_unsafe_sysctls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``admitted``, or why not; ``preempt`` are the UIDs to kill first (reference §5.2).

    ``lacks`` says by how much the pod did not fit, for the screen: (resource, requested, used,
    capacity), in the units of `NodeResources`.
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
    """One message of a source to the sync loop."""

    operation: PodOperation
    pods: tuple[Pod, ...]
    source: str = "file"


class WorkerState(StrEnum):
    SYNC = "sync"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FINISHED = "finished"
