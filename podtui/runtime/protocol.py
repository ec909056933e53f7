"""The runtime contract: CRI's verbs on plain data.

Times are aware UTC ``datetime``; sizes are bytes; durations are seconds. Calls raise subclasses of
`podtui.errors.EngineError` and nothing of the engine's own. Every call can be cancelled; cancelling
it leaves the engine in one of the states it could have had before or after the call.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, Protocol

from podtui.runtime.sessions import Duplex, Session

# --- what the engine is


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What connect found. ``lacking`` names what the engine can't do, in words for a user."""

    name: str
    """``docker``, ``podman`` or ``memory``: the scheme of container ids (``docker://ID``)."""
    version: str
    api_version: str
    os: str
    architecture: str
    kernel: str
    cgroup_version: int
    cgroup_driver: str
    rootless: bool
    local: bool
    """Whether this machine's files and processes are the engine's."""
    cpus: int
    memory: int
    root_dir: str
    operating_system: str = ""
    supports_memory_limit: bool = True
    supports_cpu_quota: bool = True
    supports_lower_oom_score: bool = True
    routable_pods: bool = True
    """Whether this process can dial pod IPs at all; `SandboxStatus.routable` says it of one."""
    local_host_network: bool = True
    """Whether the engine's host network is this machine's: rootless Docker has one of its own."""
    counts_usage: bool = True
    """Whether it can say what each container uses."""
    supports_resize: bool = True
    """Whether the limits of a running container can be changed."""
    keeps_stdin: bool = True
    """Whether a container's stdin stays open when a client detaches (without ``stdin_once``)."""
    reports_oom: bool = True
    """Whether it says of a container that ran out of memory that it did."""
    apparmor: bool = False
    """Whether the engine's host enforces AppArmor profiles."""
    user_namespaces: bool = False
    """Whether a pod can have a user namespace of its own (``hostUsers: false``)."""
    recursive_read_only: bool = False
    """Whether a read-only mount can cover what is mounted beneath it."""
    supplemental_groups_policy: bool = False
    """Whether ``supplementalGroupsPolicy: Strict`` can be had."""
    lacking: tuple[str, ...] = ()


LEAST_MEMORY: Final = 6 << 20
"""The lowest memory limit that Docker accepts. Podman accepts lower ones, and the kernel then
kills the container."""


# --- sandboxes


class NamespaceMode(StrEnum):
    POD = "pod"
    CONTAINER = "container"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    container_port: int
    host_port: int
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFile:
    """A file (or, with ``target``, a symlink) inside a pod volume; ``path`` is relative to it."""

    path: str
    content: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolume:
    """A directory that lives as long as the pod (reference §10.2).

    ``memory`` makes it a tmpfs of at most ``size_limit`` bytes (None: the engine's default),
    ``huge_pages`` a hugetlbfs of that page size in bytes. ``files`` are there before anything runs;
    `Runtime.write_volume` replaces them, `Runtime.fill_volume` puts an image's files in.
    """

    name: str
    mode: int = 0o777
    uid: int = 0
    gid: int = 0
    memory: bool = False
    size_limit: int | None = None
    huge_pages: int = 0
    files: tuple[VolumeFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """One pod sandbox: the namespaces and volumes that a pod's containers share."""

    name: str
    namespace: str
    uid: str
    attempt: int
    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    network: NamespaceMode = NamespaceMode.POD
    ipc: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ports: tuple[PortMapping, ...] = ()
    dns: DnsConfig | None = None
    """None: the engine's own."""
    extra_hosts: tuple[tuple[str, str], ...] = ()
    """(name, ip) pairs."""
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    privileged: bool = False
    host_users: bool = True
    """False asks for a user namespace of the pod's own."""
    volumes: tuple[PodVolume, ...] = ()


class SandboxState(StrEnum):
    READY = "SANDBOX_READY"
    NOT_READY = "SANDBOX_NOTREADY"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """A sandbox as ``list`` gives it: no inspect was made for it."""

    id: str
    name: str
    namespace: str
    uid: str
    attempt: int
    state: SandboxState
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSandbox:
    """A sandbox of another root directory; ``root_dir`` is empty where it is not known."""

    root_dir: str
    record: SandboxRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """A sandbox inspected. ``ips``: primary first; empty for host network or when not ready."""

    record: SandboxRecord
    ips: tuple[str, ...]
    host_network: bool
    pid: int | None = None
    routable: bool = True
    """Whether this machine's route to ``ips`` leads to the pod, not to a stranger."""
    enterable: bool = False
    """Whether this process may open sockets in the pod's network (`Runtime.pod_socket`)."""


# --- containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount of a container: exactly one of ``volume`` (a `PodVolume`'s name), ``host_path``."""

    container_path: str
    volume: str = ""
    sub_path: str = ""
    """Relative, inside the volume or host path; created with the volume's mode when missing."""
    host_path: str = ""
    host_path_create: Literal["", "Directory", "File"] = ""
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: Literal["private", "rslave", "rshared"] = "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """cgroup values after the kubelet's formulas (reference §13.1); 0 means unset."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory: int = 0
    oom_score_adj: int = 0
    pids: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """``user`` is what the engine takes (``uid``, ``uid:gid``, a name), empty for the image's."""

    user: str = ""
    groups: tuple[int, ...] = ()
    privileged: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    read_only_rootfs: bool = False
    no_new_privileges: bool = False
    seccomp: str = "unconfined"
    """``unconfined``, ``runtime/default`` or ``localhost/PATH``."""
    apparmor: str = ""
    selinux: tuple[str, ...] = ()
    """The parts of a label that are given, such as ``type:spc_t``."""
    unmasked_proc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """One container to create in a sandbox."""

    name: str
    attempt: int
    """The restart count."""
    image: str
    """What the pod asks for; ``image_id`` is what to run."""
    image_id: str
    pod_name: str
    pod_namespace: str
    pod_uid: str
    command: tuple[str, ...] | None = None
    """Replaces ENTRYPOINT; None keeps the image's."""
    args: tuple[str, ...] | None = None
    """Replaces CMD; None keeps the image's unless ``command`` is set, which drops it."""
    working_dir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Resources = Resources()
    security: SecurityContext = SecurityContext()
    pid: NamespaceMode = NamespaceMode.CONTAINER
    target_container_id: str = ""
    """Join this container's PID namespace (an ephemeral container's target)."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    termination_message_path: str = ""
    """Where in the container a fresh, empty, 0666 file is mounted; empty for none."""
    hosts: bytes = b""
    """What the pod's one hosts file is made to say, mounted at ``/etc/hosts`` and the container's
    to write (reference §11.1); empty leaves the engine's own there."""
    stop_signal: str = ""


START_ERROR: Final = "StartError"
START_EXIT_CODE: Final = 128


class ContainerState(StrEnum):
    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container as ``list`` gives it."""

    id: str
    name: str
    attempt: int
    sandbox_id: str
    pod_name: str
    pod_namespace: str
    pod_uid: str
    state: ContainerState
    created_at: datetime
    image: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """A container inspected (reference App. C for ``reason``).

    Once exited, ``reason`` is ``Completed``, ``Error`` or ``OOMKilled``; for a container that never
    ran it is `START_ERROR`, the exit code `START_EXIT_CODE` and ``started_at`` None. ``message`` is
    the engine's text of a failed start, not the termination message.
    """

    record: ContainerRecord
    image_id: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    pid: int | None = None
    resources: Resources | None = None
    """What the engine holds it to now; None where it does not tell."""
    user: tuple[int, int, tuple[int, ...]] | None = None
    """Uid, gid and supplementary groups of its first process, where they are known for certain."""
    log_path: str = ""
    """The engine's own file of its log on the engine's host; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A container that was created or started: ``id`` may be new where the driver had to make it
    again without something the engine can't do; ``warnings`` says what was lost."""

    id: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSnapshot:
    """Everything that carries our root label, from one engine call."""

    sandboxes: tuple[SandboxRecord, ...]
    containers: tuple[ContainerRecord, ...]


NO_USER_NAMESPACES: Final = (
    "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
)
"""What `Runtime.run_sandbox` answers where it can't give the pod one (reference §12)."""


class HostPathKind(StrEnum):
    """What lies at a path of the engine's host, symlinks followed."""

    MISSING = ""
    DIRECTORY = "Directory"
    FILE = "File"
    SOCKET = "Socket"
    CHAR_DEVICE = "CharDevice"
    BLOCK_DEVICE = "BlockDevice"


# --- images, logs, exec, stats, events


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    id: str
    """``sha256:…``"""
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    user: str = ""
    """The image's User as configured: name, uid, ``uid:gid`` or empty."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAuth:
    username: str
    password: str = field(repr=False)
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """``current`` and ``total`` bytes over all layers known so far; ``status`` is the engine's."""

    status: str
    current: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    follow: bool = False
    tail: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    gaps: bool = False
    """Find out where lines are missing (`LogLine.gap`), which costs the engine extra calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line without its line feed; ``partial`` when the engine cut a longer one."""

    timestamp: str
    """RFC 3339 with nanoseconds, as the engine wrote it."""
    stream: Literal["stdout", "stderr"]
    content: bytes
    partial: bool = False
    gap: str = field(default="", compare=False)
    """A sentence for users about the lines that are missing right before this one; empty where
    none are, or where the engine does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    exit_code: int
    output: bytes
    """stdout, then stderr, at most ``limit`` bytes together."""
    stderr: bytes = b""
    """What came on stderr, at most ``limit`` bytes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStats:
    """Counters of one running container. ``cpu`` is cumulative nanoseconds; ``memory`` is the
    working set (usage less inactive file cache) in bytes; ``read`` and ``written`` are bytes from
    and to disks since the start, None where nobody counts them. A counter may go back."""

    id: str
    name: str
    pod_uid: str
    timestamp: datetime
    cpu: int
    memory: int
    read: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceStats:
    """Bytes and errors of one network interface since it was made."""

    name: str
    received: int
    sent: int
    receive_errors: int = 0
    send_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStats:
    """What went over the network of one ready sandbox. ``interfaces`` leave out the loopback; None
    where they cannot be told. With ``host_network`` there are none: the host's are not the
    pod's."""

    id: str
    pod_uid: str
    timestamp: datetime
    interfaces: tuple[InterfaceStats, ...] | None
    host_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEvent:
    """Something happened to one of ours: a reason to look, never the truth itself."""

    pod_uid: str
    action: str
    """The engine's word: ``start``, ``die``, ``destroy``, ``oom`` …"""
    id: str = ""
    """Of the container or sandbox."""


class Runtime(Protocol):
    """A container engine that knows pods. One instance serves one root directory (its label)."""

    async def connect(self) -> EngineInfo:
        """Reach the engine and learn what it can do. Raises `EngineUnavailable`. May be repeated
        after a loss; nothing is forgotten."""
        ...

    async def close(self) -> None:
        """End streams and threads. Containers run on. Idempotent."""
        ...

    async def ping(self) -> None:
        """Raises `EngineUnavailable` when the engine does not answer."""
        ...

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        """All of ours, or one pod's, whatever their state. One engine call."""
        ...

    async def list_foreign(self) -> tuple[ForeignSandbox, ...]:
        """The sandboxes of other root directories, whatever their state. One engine call."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus: ...

    async def container_status(self, container_id: str) -> ContainerStatus: ...

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        """Create and start a sandbox with its volumes; on failure nothing of this attempt is left.
        A volume that an earlier attempt of the same pod made is kept with its data."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and whatever still runs in it. Idempotent; a missing one is no error."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox, its containers included. Idempotent. Volumes stay."""
        ...

    async def remove_pod_data(self, pod_uid: str) -> None:
        """Remove the pod's volumes, once its sandboxes are gone. Idempotent."""
        ...

    async def pod_data(self) -> tuple[str, ...]:
        """UIDs of all pods that have volumes, whether or not they have a sandbox."""
        ...

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        """Make the projected files of a volume what ``volume.files`` says, while containers read
        them: the new version's directory first, then ``..data`` turned to it in one step, then the
        old version removed (reference §10.2). Nothing happens where they are the same already.
        Raises `EngineNotFound` when sandbox or volume is gone."""
        ...

    async def read_volume(
        self, sandbox_id: str, volume: str, path: str, limit: int
    ) -> bytes | None:
        """At most the first ``limit`` bytes of a file in a volume; None where there is no regular
        file. A path or symlink that leads out of the volume is no file."""
        ...

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        """Put an image's files into a volume that `run_sandbox` made empty (an image volume). Done
        once: a volume that has been filled from this image is left alone, also by another instance
        of this class. Raises `EngineNotFound` when image, sandbox or volume is gone."""
        ...

    async def host_path(
        self, path: str, *, create: Literal["", "Directory", "File"] = ""
    ) -> HostPathKind:
        """What lies at a path of the engine's host. A missing one is made first where ``create``
        says so: directories 0755 with their parents, a file 0644 without (reference §10.2)."""
        ...

    async def update_container(self, container_id: str, resources: Resources) -> None:
        """Hold a running container to other cpu and memory values (reference §13.6): 0 leaves one
        as it is, -1 lifts it. Raises `EngineError` with the engine's text when it refuses;
        `ContainerStatus.resources` tells what holds then."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        """Raises `ContainerCreateError`, `SubPathError` when a mount leads out of its volume,
        `EngineConflict` when the name is taken, `EngineNotFound` when sandbox or image is gone."""
        ...

    async def start_container(self, container_id: str) -> Started:
        """Raises `ContainerStartError` with the engine's text."""
        ...

    async def stop_container(self, container_id: str, grace: float) -> None:
        """Stop signal, then SIGKILL after ``grace`` seconds. Returns when it is not running.
        Idempotent; a missing one is no error."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Kill if needed and remove. Idempotent."""
        ...

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        """The last ``limit`` bytes of the termination message file; empty where there is none."""
        ...

    async def image_status(self, image: str) -> ImageRecord | None:
        """By name or id; None when it is not on the machine."""
        ...

    async def pull_image(
        self,
        image: str,
        *,
        auth: RegistryAuth | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageRecord:
        """Raises `ImagePullError` with the engine's text."""
        ...

    async def list_images(self) -> tuple[ImageRecord, ...]: ...

    async def remove_image(self, image_id: str) -> None: ...

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int = 10240
    ) -> ExecResult:
        """Run to the end. Raises `ExecTimeout` after ``timeout`` seconds."""
        ...

    def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AbstractAsyncContextManager[Session]:
        """Run a command and talk with it. What still runs when the block ends is killed, as far as
        the engine's host can be reached from here. Raises `EngineNotFound`, `EngineConflict` where
        the container does not run."""
        ...

    def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AbstractAsyncContextManager[Session]:
        """Talk with the container's own process, from now on; it goes on when the block ends. It
        sees the end of input where it was made with ``stdin_once``. Raises as `exec_session`."""
        ...

    def dial(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Duplex]:
        """Connect to a TCP port of a pod, at its own loopback address where that can be had, else
        at the pod's. Raises `EngineNotFound`, and `EngineError` where nothing listens."""
        ...

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        """Return a TCP socket in the pod's network, not yet connected, to dial the IP ``host`` from
        there. Raises `EngineNotFound`, and `EngineError` where the network cannot be entered."""
        ...

    def read_files(
        self, container_id: str, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A file, or a directory with what is below it, as a tar archive in pieces, whether or not
        the container runs. Names begin with the path's last part. Raises `EngineNotFound`."""
        ...

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        """Unpack a tar archive into an existing directory, whether or not the container runs.
        Raises `EngineNotFound` without the directory, `EngineError` where the engine refuses."""
        ...

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[LogLine]:
        """Lines oldest first; with ``follow`` until the container ends. Raises `EngineNotFound`."""
        ...

    async def stats(self) -> tuple[ContainerStats, ...]:
        """Counters of every running container of ours."""
        ...

    async def sandbox_stats(self) -> tuple[SandboxStats, ...]:
        """Counters of the network of every ready sandbox of ours."""
        ...

    async def layer_sizes(self) -> Mapping[str, int]:
        """Bytes that running containers of ours keep in their own writable layer, by id; without
        those that the engine cannot measure. It walks through all their files: ask seldom."""
        ...

    def events(self) -> AsyncIterator[RuntimeEvent]:
        """Endless; raises `EngineUnavailable` when the connection ends."""
        ...
