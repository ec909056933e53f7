"""The runtime contract: the verbs of CRI on plain data.

Times are aware UTC ``datetime``; sizes are bytes; durations are seconds. Calls raise only
subclasses of `podtui.errors.EngineError`, never the engine's own exceptions. Every call can be
cancelled. A cancelled call leaves the engine in a state that it could also have had before or after
the call.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, Protocol

from msgspec import Struct

# --- engine


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine that `Runtime.connect` found. ``lacking`` lists missing features, in words for
    users."""

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
    """The engine shares this machine's files and processes."""
    cpus: int
    memory: int
    root_dir: str
    operating_system: str = ""
    supports_memory_limit: bool = True
    supports_lower_oom_score: bool = True
    routable_pods: bool = True
    """This process can dial pod IPs in general. See `SandboxStatus.routable` for one pod."""
    local_host_network: bool = True
    """The engine's host network is this machine's. Rootless Docker has a separate one."""
    counts_usage: bool = True
    """The engine reports the resource usage of each container."""
    supports_resize: bool = True
    """The limits of a running container can be changed."""
    keeps_stdin: bool = True
    """A container's stdin stays open after a client detaches (without ``stdin_once``)."""
    reports_oom: bool = True
    """The engine reports when a container was OOM-killed."""
    apparmor: bool = False
    """The engine's host enforces AppArmor profiles."""
    user_namespaces: bool = False
    """A pod can have its own user namespace (``hostUsers: false``)."""
    recursive_read_only: bool = False
    """A read-only mount can also cover the mounts below it."""
    supplemental_groups_policy: bool = False
    """The engine supports ``supplementalGroupsPolicy: Strict``."""
    runtimes: tuple[str, ...] = ()
    """The OCI runtimes that a sandbox can ask for."""
    pod_rules: bool = False
    """This process can set rules in the networks of pods."""
    lacking: tuple[str, ...] = ()


LEAST_MEMORY: Final = 6 << 20
"""The lowest memory limit that Docker accepts. Podman accepts lower ones, but then the kernel kills
the container."""


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
    """A directory with the lifetime of the pod (kubelet.md §10.2).

    ``memory`` makes it a tmpfs of at most ``size_limit`` bytes (None: the engine's default).
    ``huge_pages`` makes it a hugetlbfs with that page size in bytes. ``files`` exist before any
    container runs; `Runtime.write_volume` replaces them. `Runtime.fill_volume` copies an image's
    files in.
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
    """One pod sandbox: the namespaces and volumes that the containers of a pod share."""

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
    """None: the engine's default."""
    extra_hosts: tuple[tuple[str, str], ...] = ()
    """(name, ip) pairs."""
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    privileged: bool = False
    host_users: bool = True
    """False requests a separate user namespace for the pod."""
    runtime_handler: str = ""
    """One of `EngineInfo.runtimes`, for the sandbox and its containers; empty for the engine's
    default."""
    volumes: tuple[PodVolume, ...] = ()


class SandboxState(StrEnum):
    READY = "SANDBOX_READY"
    NOT_READY = "SANDBOX_NOTREADY"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """A sandbox as returned by `Runtime.list`, without an inspect call."""

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
    """A sandbox of another root directory. ``root_dir`` is empty if it is unknown."""

    root_dir: str
    record: SandboxRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherContainer:
    """A container that does not belong to this root directory."""

    name: str
    image_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """An inspected sandbox. ``ips`` has the primary IP first and is empty for host network or when
    the sandbox is not ready."""

    record: SandboxRecord
    ips: tuple[str, ...]
    host_network: bool
    pid: int | None = None
    routable: bool = True
    """The route of this machine to ``ips`` leads to the pod, not to another host."""
    enterable: bool = False
    """This process may open sockets in the pod's network (`Runtime.pod_socket`)."""


# --- containers


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsShare:
    """A directory of an NFS server, which the engine's machine mounts."""

    server: str
    path: str
    options: tuple[str, ...] = ()
    """Mount options, such as ``nfsvers=4.1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount of a container, of either ``volume`` (the name of a `PodVolume`), ``host_path`` or
    ``nfs``."""

    container_path: str
    volume: str = ""
    sub_path: str = ""
    """Relative path inside the volume or host path. If missing, it is created with the volume's
    mode and, below a directory with the setgid bit, with the group ``gid``."""
    gid: int = 0
    host_path: str = ""
    host_path_create: Literal["", "Directory", "File"] = ""
    nfs: NfsShare | None = None
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: Literal["private", "rslave", "rshared"] = "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The cgroup values computed by the kubelet's formulas (kubelet.md §13.1); 0 means unset."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory: int = 0
    oom_score_adj: int = 0
    pids: int = 0
    cpuset_cpus: str = ""
    """The CPUs that may run the container, such as ``0-1,4``; empty for all."""
    cpuset_mems: str = ""
    """The NUMA nodes of its memory, in the same format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """``user`` has the engine's format (``uid``, ``uid:gid`` or a name); empty uses the image's
    user."""

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
    """The given parts of an SELinux label, such as ``type:spc_t``."""
    unmasked_proc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMapping:
    """A device of the host in a container; ``permissions`` are some of ``r``, ``w`` and ``m``."""

    host_path: str
    container_path: str
    permissions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """One container to create in a sandbox."""

    name: str
    attempt: int
    """The restart count."""
    image: str
    """The image reference of the pod spec; ``image_id`` is the image to run."""
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
    devices: tuple[DeviceMapping, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    """Qualified names of devices of the Container Device Interface, ``vendor.com/class=name``."""
    oci_annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotations for the OCI runtime."""
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
    """The path in the container where a new, empty file with mode 0666 is mounted; empty for
    none."""
    hosts: bytes = b""
    """The content of the pod's hosts file, mounted writable at ``/etc/hosts`` (kubelet.md §11.1).
    The file is shared by all containers of the pod. Empty keeps the engine's own file."""
    stop_signal: str = ""
    completes: bool = False
    """The pod waits for its end: an init container that is no sidecar, or a container of a pod that
    is not always restarted. Only the simulated engine reads it."""


START_ERROR: Final = "StartError"
START_EXIT_CODE: Final = 128


class ContainerState(StrEnum):
    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container as returned by `Runtime.list`."""

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
    """An inspected container (see kubelet.md App. C for ``reason``).

    For an exited container, ``reason`` is ``Completed``, ``Error`` or ``OOMKilled``. For a
    container that failed to start, ``reason`` is `START_ERROR`, the exit code is `START_EXIT_CODE`
    and ``started_at`` is None. ``message`` is the engine's text of a failed start, not the
    termination message.
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
    """The limits that the engine enforces now; None if it does not report them."""
    user: tuple[int, int, tuple[int, ...]] | None = None
    """Uid, gid and supplementary groups of the first process; None if they are not certain."""
    log_path: str = ""
    """Path of the engine's log file for this container on the engine's host; empty if there is
    none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The result of creating or starting a container. ``id`` is new if the driver had to create the
    container again without a feature that the engine lacks; ``warnings`` describes the lost
    features."""

    id: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSnapshot:
    """All sandboxes and containers with our root label, from one engine call."""

    sandboxes: tuple[SandboxRecord, ...]
    containers: tuple[ContainerRecord, ...]


NO_USER_NAMESPACES: Final = (
    "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
)
"""The error text of `Runtime.run_sandbox` if it can't create a user namespace (kubelet.md §12)."""


def no_runtime(handler: str, runtimes: Sequence[str]) -> str:
    """Return the error text of `Runtime.run_sandbox` for a handler that the engine does not
    have."""
    return f'no runtime for "{handler}" is configured; {listed_runtimes(runtimes)}'


def listed_runtimes(runtimes: Sequence[str]) -> str:
    return f"runtimes of the engine: {', '.join(runtimes) or 'none that can be chosen'}"


class HostPathKind(StrEnum):
    """The kind of file at a path of the engine's host, after following symlinks."""

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
    """``current`` and ``total`` are bytes over all layers known so far; ``status`` is the engine's
    text."""

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
    """Detect missing lines (`LogLine.gap`), at the cost of extra engine calls."""


class LogLine(Struct, frozen=True, kw_only=True):
    """One line without its line feed. ``partial`` is true if the engine split a longer line
    here."""

    timestamp: str
    """RFC 3339 with nanoseconds, as the engine wrote it."""
    stream: Literal["stdout", "stderr"]
    content: bytes
    partial: bool = False
    gap: str = ""
    """A sentence for users about lines missing right before this one. Empty if none are missing or
    the engine does not reveal it."""


LogLines = list[LogLine]
"""Lines that arrived together, oldest first; never empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    exit_code: int
    output: bytes
    """stdout, then stderr, at most ``limit`` bytes in total."""
    stderr: bytes = b""
    """stderr alone, at most ``limit`` bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStats:
    """Counters of one running container. ``cpu`` is cumulative nanoseconds. ``memory`` is the
    working set (usage minus inactive file cache) in bytes. ``read`` and ``written`` are disk bytes
    since the start, None if they are not counted. A counter may decrease."""

    timestamp: datetime
    cpu: int
    memory: int
    read: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInterfaceUsage:
    """Bytes and errors of one network interface since its creation."""

    name: str
    received: int
    sent: int
    receive_errors: int = 0
    send_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStats:
    """Network traffic of one ready sandbox. ``interfaces`` excludes the loopback; None if the
    counters are not available."""

    timestamp: datetime
    interfaces: tuple[NetworkInterfaceUsage, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEvent:
    """A change of one of our sandboxes or containers. Only a trigger to relist, never the state
    itself."""

    pod_uid: str
    action: str
    """The engine's action name: ``start``, ``die``, ``destroy``, ``oom`` …"""
    id: str = ""
    """Id of the container or sandbox."""


# --- open connections between a caller and a container

Output = tuple[Literal["stdout", "stderr"], bytes]
"""A piece of a process's output. With a terminal, everything is ``stdout``."""


class ProcessSession(Protocol):
    """An interactive process: a command run in a container, or the container's main process.

    Reads and writes may run concurrently, and each may be cancelled. A process blocks while its
    output is not read; `write` blocks while the process does not read.
    """

    def output(self) -> AsyncIterator[Output]:
        """Yield the output as it arrives, until the end. Call this only once. Raises
        `ExecStartError` if the command cannot be started."""
        ...

    async def write(self, data: bytes) -> None:
        """Send input. Input that arrives after the process stopped reading is dropped."""
        ...

    async def end_input(self) -> None:
        """Close the input of the process. Idempotent. Raises `EngineError` if the connection to the
        engine can't be closed in one direction (TLS)."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal. Does nothing without a terminal or after the end."""
        ...

    async def exit_code(self) -> int | None:
        """Return the exit code of a command; call this after its output has ended, and it waits
        until the command exits. None for a container's main process, whose status has the exit
        code."""
        ...


class Duplex(Protocol):
    """A byte connection to a port of a pod. Raises `EngineError` when it breaks."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write, and return when there is room for more."""
        ...

    async def end(self) -> None:
        """Close the write direction. Idempotent."""
        ...


# --- the runtime


class Runtime(Protocol):
    """A container engine with pods. One instance serves one root directory (its label)."""

    async def connect(self) -> EngineInfo:
        """Connect to the engine and detect its features. May be called again after a connection
        loss; no state is lost. Raises `EngineUnavailable`."""
        ...

    async def close(self) -> None:
        """Close streams and threads. Containers keep running. Idempotent."""
        ...

    async def ping(self) -> None:
        """Raises `EngineUnavailable` if the engine does not answer."""
        ...

    async def check(self) -> None:
        """Make a call that needs more of the engine than `ping`. Raises `EngineUnavailable` if the
        engine does not answer it."""
        ...

    async def read_info(self) -> EngineInfo:
        """Read what the engine reports again, because a reload of its configuration changes it. The
        machine's CPUs and memory stay those of the connection."""
        ...

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        """Return all our sandboxes and containers, or those of one pod, in any state. One engine
        call."""
        ...

    async def list_other_containers(self) -> tuple[OtherContainer, ...]:
        """Return all containers of the engine that do not belong to this root directory, including
        stopped ones."""
        ...

    async def list_foreign(self) -> tuple[ForeignSandbox, ...]:
        """Return the sandboxes of other root directories, in any state. One engine call."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus: ...

    async def container_status(self, container_id: str) -> ContainerStatus: ...

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        """Create and start a sandbox with its volumes. On failure, remove everything that this
        attempt created. Volumes of an earlier attempt of the same pod keep their data."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and the containers that still run in it. Idempotent; a missing one is no
        error."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers, but not its volumes. Idempotent."""
        ...

    async def remove_pod_data(self, pod_uid: str) -> None:
        """Remove the volumes of a pod whose sandboxes are gone. Idempotent."""
        ...

    async def pod_data(self) -> tuple[str, ...]:
        """Return the UIDs of all pods that have volumes, with or without a sandbox."""
        ...

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        """Update the projected files of a volume to ``volume.files`` while containers may read
        them: write the directory of the new version, switch ``..data`` to it atomically, then
        remove the old version (kubelet.md §10.2). Do nothing if the files are already the same.
        Raises `EngineNotFound` if the sandbox or volume is gone."""
        ...

    async def read_volume(
        self, sandbox_id: str, volume: str, path: str, limit: int
    ) -> bytes | None:
        """Return at most the first ``limit`` bytes of a file in a volume; None if there is no
        regular file. A path or symlink that leads out of the volume counts as no file."""
        ...

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        """Copy an image's files into a volume that `run_sandbox` created empty (an image volume). A
        volume that was already filled from this image, also by another instance of this class, is
        left unchanged. Raises `EngineNotFound` if the image, sandbox or volume is gone."""
        ...

    async def volume_size(self, sandbox_id: str, volume: str, limit: int) -> int:
        """Return the bytes that the files of a volume occupy. Counting may stop above ``limit``: it
        takes long if the engine has to send the files. Raises `EngineNotFound` if the sandbox or
        volume is gone."""
        ...

    async def host_path(
        self, path: str, *, create: Literal["", "Directory", "File"] = "", shared: bool = False
    ) -> HostPathKind:
        """Return the kind of file at a path of the engine's host. ``create`` first creates a
        missing one: a directory with mode 0755 and its parents, or a file with mode 0644 without
        its parents (kubelet.md §10.2). ``shared``: a new directory itself gets mode 0777."""
        ...

    async def check_nfs(self, share: NfsShare) -> None:
        """Mount the share once, and unmount it. Raises `EngineError` with the engine's reason."""
        ...

    async def remove_host_directory(self, path: str) -> None:
        """Remove a directory of the engine's host and everything in it. A missing one is no error.
        Links are removed, not followed. Raises `EngineError`."""
        ...

    async def update_container(self, container_id: str, resources: Resources) -> None:
        """Change the cpu and memory limits of a running container (kubelet.md §13.6): 0 keeps a
        value, -1 removes the limit. `ContainerStatus.resources` reports the new values. Raises
        `EngineError` with the engine's text if the engine refuses."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        """Raises `ContainerCreateError`, `SubPathError` if a mount is outside of its volume,
        `EngineConflict` if the name is taken, `EngineNotFound` if the sandbox or image is gone."""
        ...

    async def start_container(self, container_id: str) -> Started:
        """Raises `ContainerStartError` with the engine's text."""
        ...

    async def stop_container(self, container_id: str, grace: float) -> None:
        """Send the stop signal, then SIGKILL after ``grace`` seconds. Return when the container has
        stopped. Idempotent; a missing one is no error."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Kill the container if it runs, and remove it. Idempotent."""
        ...

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        """Return the last ``limit`` bytes of the termination message file; empty if there is
        none."""
        ...

    async def image_status(self, image: str) -> ImageRecord | None:
        """Find an image by name or id; None if it is not on the machine."""
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
        """Run a command until it exits. Raises `ExecTimeout` after ``timeout`` seconds."""
        ...

    def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        """Run a command with an open session. If the command still runs when the block ends, kill
        it, provided that the engine's host is reachable from here. Raises `EngineNotFound`,
        `EngineConflict` if the container is not running."""
        ...

    def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        """Attach to the container's main process. The output starts now; the process keeps running
        when the block ends. It sees the end of input only if it was created with ``stdin_once``.
        Raises the same errors as `exec_session`."""
        ...

    def dial(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Duplex]:
        """Connect to a TCP port of a pod, if possible at its loopback address, else at the pod IP.
        Raises `EngineNotFound`, and `EngineError` if nothing listens."""
        ...

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        """Return an unconnected TCP socket in the pod's network, to dial the IP ``host`` from
        there. Raises `EngineNotFound`, and `EngineError` if the network cannot be entered."""
        ...

    async def set_pod_rules(self, sandbox_id: str, rules: str) -> None:
        """Apply a transaction of nftables in the pod's network: all of it, or nothing. An empty id
        means this machine's own network. Raises `EngineNotFound`, and `EngineError` with nft's text
        or if the network cannot be entered."""
        ...

    async def check_pod_table(self, sandbox_id: str, table: str) -> None:
        """Raises `EngineError` if the network has no table of nftables of this name, for IPv4, and
        the same errors as `set_pod_rules`."""
        ...

    async def pod_listener(
        self, sandbox_id: str, protocol: Literal["TCP", "UDP"], address: str
    ) -> socket.socket:
        """Return a socket in the pod's network, bound to a free port of ``address``, not blocking,
        and listening if TCP. Raises the same errors as `pod_socket`."""
        ...

    async def forget_pod_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        """Delete the tracked UDP exchanges of the pod's network with a destination that its rules
        chose. Raises the same errors as `set_pod_rules`."""
        ...

    def read_files(
        self, container_id: str, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read a file or a directory tree as a tar archive in pieces. The container need not run.
        Member names begin with the last part of ``path``. Raises `EngineNotFound`."""
        ...

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        """Unpack a tar archive into an existing directory. The container need not run. Raises
        `EngineNotFound` if the directory is missing, `EngineError` if the engine refuses."""
        ...

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[LogLines]:
        """Yield lines as they arrive; with ``follow``, until the container exits. Raises
        `EngineNotFound`."""
        ...

    async def stats(self, containers: Collection[str]) -> Mapping[str, ContainerStats]:
        """Return the counters of the containers with these ids that are running, by id."""
        ...

    async def sandbox_stats(self, sandboxes: Collection[str]) -> Mapping[str, SandboxStats]:
        """Return the network counters of the sandboxes with these ids that are ready, by id. Do not
        ask for sandboxes in the host's network: its interfaces are not theirs."""
        ...

    async def layer_sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of the writable layer of our running containers, by id.
        Containers that the engine cannot measure are left out. The engine walks through all their
        files, so call this rarely."""
        ...

    def events(self) -> AsyncIterator[RuntimeEvent]:
        """Yield events endlessly. Raises `EngineUnavailable` when the connection is lost."""
        ...
