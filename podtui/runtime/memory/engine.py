"""The state of a simulated engine and its changes. No call waits.

One engine may serve several `MemoryRuntime` objects: other roots, or a later agent of the same
root. Time comes from the clock, whose ``monotonic`` must be the running loop's time. A container
that ends by itself has one timer, any other none.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from podtui.clock import Clock
from podtui.errors import (
    ContainerCreateError,
    ContainerStartError,
    EngineConflict,
    EngineError,
    EngineNotFound,
)
from podtui.runtime.memory.cells import (
    ContainerCell,
    PodCell,
    SandboxCell,
    Signal,
    user_of,
)
from podtui.runtime.memory.faults import Faults
from podtui.runtime.memory.files import ContainerFiles, SimulatedHost
from podtui.runtime.memory.images import LocalImages
from podtui.runtime.memory.process import KILLED, Behaviour, Process, simulated_container
from podtui.runtime.protocol import (
    LEAST_MEMORY,
    NO_USER_NAMESPACES,
    START_ERROR,
    START_EXIT_CODE,
    ContainerConfig,
    ContainerRecord,
    ContainerState,
    EngineInfo,
    HostPathKind,
    ImageRecord,
    NamespaceMode,
    OtherContainer,
    PortMapping,
    Resources,
    RuntimeEvent,
    SandboxConfig,
    SandboxRecord,
    SandboxState,
    no_runtime,
)

Behave = Callable[[ContainerConfig], Behaviour | None]
EVENTS_KEPT: Final = 20_000
SIMULATED: Final = EngineInfo(
    name="memory",
    version="SIMULATED",
    api_version="1.0",
    os="linux",
    architecture="amd64",
    kernel="0.0.0-simulated",
    cgroup_version=2,
    cgroup_driver="systemd",
    rootless=False,
    local=False,
    cpus=8,
    memory=32 << 30,
    root_dir="",
    operating_system="SIMULATED: no container really runs",
    routable_pods=False,
    local_host_network=False,
    runtimes=("runc",),
    lacking=("real processes: every container is simulated and accepts no connections",),
)


class EventQueue:
    """One subscription. If it is full, the oldest events are dropped: events are only triggers."""

    def __init__(self) -> None:
        self.events: deque[RuntimeEvent] = deque(maxlen=EVENTS_KEPT)
        self.signal = Signal()
        self.broken = ""
        """The reason why the stream ended; empty while it is open."""


def _clash(port: PortMapping, other: PortMapping) -> bool:
    same = (port.host_port, port.protocol) == (other.host_port, other.protocol)
    every = {"", "0.0.0.0"} & {port.host_ip, other.host_ip}
    return same and (bool(every) or port.host_ip == other.host_ip)


class MemoryEngine:
    """Pods, images and time of one simulated machine.

    ``behave`` declares what a container does; by default, and if it returns None, the container
    prints its image and command and runs until it is stopped.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        images: Mapping[str, ImageRecord] | None = None,
        behave: Behave | None = None,
    ) -> None:
        self.clock = clock
        self.images = LocalImages(images or {})
        self.faults = Faults()
        self.behave = behave
        self._pods: dict[tuple[str, str], PodCell] = {}
        self.sandboxes: dict[str, SandboxCell] = {}
        self.containers: dict[str, ContainerCell] = {}
        self.other_containers: tuple[OtherContainer, ...] = ()
        """Containers that other programs run."""
        self._names: set[str] = set()
        self.host = SimulatedHost()
        self.nfs_errors: dict[str, str] = {}
        """Why the shares of an NFS server cannot be mounted, by server."""
        self.info = SIMULATED
        """The reported features; tests may change them."""
        self.image_user = ""
        """The user of the images that are pulled."""
        self._queues: list[tuple[str, EventQueue]] = []
        self._serial = 0
        self._addresses = 0

    # --- lookup

    def sandbox(self, root: str, sandbox_id: str) -> SandboxCell:
        """Raises `EngineNotFound`."""
        cell = self.sandboxes.get(sandbox_id)
        if cell is None or cell.root != root:
            raise EngineNotFound(f"No such sandbox: {sandbox_id}")
        return cell

    def container(self, root: str, container_id: str) -> ContainerCell:
        """Raises `EngineNotFound`."""
        cell = self.containers.get(container_id)
        if cell is None or cell.root != root:
            raise EngineNotFound(f"No such container: {container_id}")
        return cell

    def pods(self, root: str, pod_uid: str | None) -> list[PodCell]:
        if pod_uid is not None:
            pod = self._pods.get((root, pod_uid))
            return [] if pod is None else [pod]
        return [pod for (owner, _), pod in self._pods.items() if owner == root]

    def foreign_sandboxes(self, root: str) -> list[SandboxCell]:
        return [cell for cell in self.sandboxes.values() if cell.root != root]

    def pod(self, root: str, pod_uid: str) -> PodCell:
        return self._pods.setdefault((root, pod_uid), PodCell())

    # --- sandboxes

    def run_sandbox(self, root: str, config: SandboxConfig) -> SandboxCell:
        """Raises `EngineConflict` if its name or one of its host ports is taken."""
        if not config.host_users and not self.info.user_namespaces:
            raise EngineError(NO_USER_NAMESPACES)
        if config.runtime_handler and config.runtime_handler not in self.info.runtimes:
            raise EngineError(no_runtime(config.runtime_handler, self.info.runtimes))
        name = f"k8s_POD_{config.name}_{config.namespace}_{config.uid}_{config.attempt}"
        if name in self._names:
            raise EngineConflict(f'The name "/{name}" is in use by another sandbox')
        self._claim_ports(config)
        self._names.add(name)
        pod = self.pod(root, config.uid)
        pod.volumes.prepare(config.volumes)
        host = config.network is NamespaceMode.NODE
        record = SandboxRecord(
            id=self._new_id(name),
            name=config.name,
            namespace=config.namespace,
            uid=config.uid,
            attempt=config.attempt,
            state=SandboxState.READY,
            created_at=self.clock.now(),
            labels=dict(config.labels),
            annotations=dict(config.annotations),
        )
        cell = SandboxCell(root, config, record, "" if host else self._new_ip(), self._new_pid())
        pod.sandboxes[record.id] = self.sandboxes[record.id] = cell
        self.emit(record.id, root, config.uid, "create")
        self.emit(record.id, root, config.uid, "start")
        return cell

    def stop_sandbox(self, cell: SandboxCell) -> None:
        for container in self._inside(cell):
            self.kill(container)
        if cell.ready:
            cell.set_not_ready()
            self.emit(cell.record.id, cell.root, cell.record.uid, "die")

    def remove_sandbox(self, cell: SandboxCell) -> None:
        self.stop_sandbox(cell)
        for container in self._inside(cell):
            self.remove_container(container)
        config = cell.config
        self._names.discard(
            f"k8s_POD_{config.name}_{config.namespace}_{config.uid}_{config.attempt}"
        )
        self.sandboxes.pop(cell.record.id, None)
        self.pod(cell.root, config.uid).sandboxes.pop(cell.record.id, None)
        self.emit(cell.record.id, cell.root, config.uid, "destroy")

    def remove_pod_data(self, root: str, pod_uid: str) -> None:
        """Raises `EngineConflict` while the pod has a sandbox or container."""
        pod = self._pods.get((root, pod_uid))
        if pod is None:
            return
        if pod.sandboxes or pod.containers:
            raise EngineConflict(f"the volumes of pod {pod_uid} are in use")
        del self._pods[root, pod_uid]

    def pod_data(self, root: str) -> tuple[str, ...]:
        return tuple([uid for owner, uid in self._pods if owner == root])

    def _inside(self, cell: SandboxCell) -> list[ContainerCell]:
        pod = self.pod(cell.root, cell.record.uid)
        return [c for c in pod.containers.values() if c.record.sandbox_id == cell.record.id]

    def _claim_ports(self, config: SandboxConfig) -> None:
        wanted = [port for port in config.ports if port.host_port]
        if not wanted:
            return
        taken = [p for other in self.sandboxes.values() if other.ready for p in other.config.ports]
        for port in wanted:
            if any(_clash(port, other) for other in taken):
                raise EngineConflict(
                    f"Bind for {port.host_ip or '0.0.0.0'}:{port.host_port} failed:"
                    " port is already allocated"
                )

    # --- containers

    def create_container(
        self, root: str, sandbox: SandboxCell, config: ContainerConfig
    ) -> ContainerCell:
        """Raises `EngineNotFound` without the image, `EngineConflict` if the name is taken."""
        image = self.images.find(config.image_id)
        if image is None:
            raise EngineNotFound(f"No such image: {config.image_id}")
        self._check_able(config)
        name = _container_name(config)
        if name in self._names:
            raise EngineConflict(f'The container name "/{name}" is already in use')
        self._names.add(name)
        pod = self.pod(root, sandbox.record.uid)
        files = ContainerFiles(config, pod.volumes, self.host.tree)
        declared = None if self.behave is None else self.behave(config)
        behaviour = declared or simulated_container(config)
        record = ContainerRecord(
            id=self._new_id(name),
            name=config.name,
            attempt=config.attempt,
            sandbox_id=sandbox.record.id,
            pod_name=config.pod_name,
            pod_namespace=config.pod_namespace,
            pod_uid=config.pod_uid,
            state=ContainerState.CREATED,
            created_at=self.clock.now(),
            image=config.image,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
        )
        for mount in config.mounts:
            if mount.host_path and self.host.kind(mount.host_path) is HostPathKind.MISSING:
                self.host.make(mount.host_path, mount.host_path_create or "Directory")
        user = user_of(config.security, image.user)
        cell = ContainerCell(
            root, config, record, image.id, files, behaviour, config.resources, user
        )
        pod.containers[record.id] = self.containers[record.id] = cell
        self.emit(record.id, root, config.pod_uid, "create")
        return cell

    def _check_able(self, config: ContainerConfig) -> None:
        """Raises `ContainerCreateError`."""
        if not self.info.recursive_read_only:
            for mount in config.mounts:
                if mount.recursive_read_only:
                    raise ContainerCreateError(
                        f"{mount.container_path}: the engine has no recursive read-only mounts"
                    )

    def start_container(self, cell: ContainerCell) -> None:
        """Raises `ContainerStartError`; the container then is exited with `START_ERROR`."""
        if cell.running:
            return
        if cell.record.state is not ContainerState.CREATED:
            raise ContainerStartError(f"container {cell.record.id[:12]} was already started once")
        problem = self._start_problem(cell)
        if problem:
            cell.set_state(ContainerState.EXITED)
            cell.exit_code, cell.reason, cell.message = START_EXIT_CODE, START_ERROR, problem
            cell.finished_at = cell.record.created_at
            cell.signal.notify()
            raise ContainerStartError(problem)
        for path, content in cell.behaviour.files.items():
            cell.files.write(path, content)
        cell.started_at = self.clock.now()
        cell.started_mono = self.clock.monotonic()
        cell.process = Process(cell.behaviour, cell.started_at)
        cell.pid = self._new_pid()
        cell.set_state(ContainerState.RUNNING)
        self.emit(cell.record.id, cell.root, cell.record.pod_uid, "start")
        self._advance(cell, 0.0)

    def _start_problem(self, cell: ContainerCell) -> str:
        if cell.behaviour.start_error:
            return cell.behaviour.start_error
        sandbox = self.sandboxes.get(cell.record.sandbox_id)
        if sandbox is None or not sandbox.ready:
            return f"cannot join the network of a sandbox that is not running: {cell.record.name}"
        target = self.containers.get(cell.config.target_container_id)
        if cell.config.target_container_id and not (target and target.running):
            return f"cannot join PID of a non running container: {cell.config.target_container_id}"
        return ""

    def terminate(self, cell: ContainerCell) -> None:
        """Deliver the stop signal. The container may end later, or not at all."""
        if cell.process is not None and cell.running:
            cell.process.terminate(self._elapsed(cell))
            self._after_step(cell)

    def kill(self, cell: ContainerCell, code: int = KILLED, *, oom: bool = False) -> None:
        """End the container at once, as the kernel or an operator does."""
        if cell.process is not None and cell.running:
            cell.process.kill(self._elapsed(cell), code, oom=oom)
            self._after_step(cell)

    def update_container(self, cell: ContainerCell, resources: Resources) -> None:
        """Raises `EngineError` below `LEAST_MEMORY`."""
        if 0 < resources.memory < LEAST_MEMORY:
            raise EngineError("Minimum memory limit allowed is 6MB")
        held = cell.resources

        def value(wanted: int, before: int) -> int:
            return max(0, wanted or before)

        cell.resources = replace(
            held,
            cpu_shares=value(resources.cpu_shares, held.cpu_shares),
            cpu_quota=value(resources.cpu_quota, held.cpu_quota),
            cpu_period=value(resources.cpu_period, held.cpu_period),
            memory=value(resources.memory, held.memory),
            cpuset_cpus=resources.cpuset_cpus or held.cpuset_cpus,
            cpuset_mems=resources.cpuset_mems or held.cpuset_mems,
        )

    def remove_container(self, cell: ContainerCell) -> None:
        self.kill(cell)
        cell.set_timer(None)
        cell.removed = True
        self._names.discard(_container_name(cell.config))
        self.containers.pop(cell.record.id, None)
        self.pod(cell.root, cell.record.pod_uid).containers.pop(cell.record.id, None)
        cell.signal.notify()
        self.emit(cell.record.id, cell.root, cell.record.pod_uid, "destroy")

    def image_in_use(self, image_id: str) -> bool:
        return any(cell.image_id == image_id for cell in self.containers.values())

    # --- time

    def catch_up(self, cell: ContainerCell) -> None:
        """Write the lines that were due until now."""
        if cell.process is not None and cell.running:
            cell.process.advance(self._elapsed(cell))
            if cell.process.exit is not None:
                self._after_step(cell)

    def next_output(self, cell: ContainerCell) -> float:
        """Return the seconds until the container prints or ends by itself."""
        if cell.process is None or not cell.running:
            return math.inf
        return max(0.0, cell.process.wakes_at - self._elapsed(cell))

    def _elapsed(self, cell: ContainerCell) -> float:
        return max(0.0, self.clock.monotonic() - cell.started_mono)

    def _advance(self, cell: ContainerCell, due: float) -> None:
        """Called by the container's timer, which was set for ``due`` seconds after its start."""
        if cell.process is not None and cell.running:
            cell.process.advance(max(self._elapsed(cell), due))
            self._after_step(cell)

    def _after_step(self, cell: ContainerCell) -> None:
        process = cell.process
        if process is None or not cell.running:
            return
        if process.exit is None:
            ends_at = process.ends_at
            if ends_at is None:
                cell.set_timer(None)
            else:
                wait = max(0.0, ends_at - self._elapsed(cell))
                loop = asyncio.get_running_loop()
                cell.set_timer(loop.call_later(wait, self._advance, cell, ends_at))
            return
        cell.set_timer(None)
        cell.set_state(ContainerState.EXITED)
        cell.pid = None
        cell.exit_code = process.exit.code
        cell.finished_at = self.clock.now()
        if process.exit.oom:
            cell.reason = "OOMKilled"
            self.emit(cell.record.id, cell.root, cell.record.pod_uid, "oom")
        else:
            cell.reason = "Completed" if process.exit.code == 0 else "Error"
        cell.signal.notify()
        self.emit(cell.record.id, cell.root, cell.record.pod_uid, "die")

    # --- events, and the engine's own life

    def emit(self, identity: str, root: str, pod_uid: str, action: str) -> None:
        if self.faults.drop_events or not self.faults.available:
            return
        for owner, queue in self._queues:
            if owner == root:
                queue.events.append(RuntimeEvent(pod_uid=pod_uid, action=action, id=identity))
                queue.signal.notify()

    def subscribe(self, root: str) -> EventQueue:
        queue = EventQueue()
        self._queues.append((root, queue))
        return queue

    def unsubscribe(self, queue: EventQueue) -> None:
        self._queues = [entry for entry in self._queues if entry[1] is not queue]

    def break_streams(self, reason: str, root: str | None = None) -> None:
        """End event and log streams, one root's or all."""
        for owner, queue in self._queues:
            if root is None or owner == root:
                queue.broken = reason
                queue.signal.notify()
        for cell in self.containers.values():
            if root is None or cell.root == root:
                cell.signal.notify()

    def stop(self, *, containers_die: bool = False) -> None:
        """Make the engine unavailable. Its containers keep running unless ``containers_die``."""
        text = "Cannot connect to the simulated engine. Is it running?"
        self.faults.make_unavailable(text)
        self.break_streams(text)
        if containers_die:
            for cell in list(self.sandboxes.values()):
                self.stop_sandbox(cell)

    def start(self) -> None:
        """Make the engine available again."""
        self.faults.make_available()

    def crash(self, container_id: str, exit_code: int = KILLED, *, oom: bool = False) -> None:
        """End one container from outside. Raises `EngineNotFound`."""
        cell = self.containers.get(container_id)
        if cell is None:
            raise EngineNotFound(f"No such container: {container_id}")
        self.kill(cell, exit_code, oom=oom)

    def write_log(self, container_id: str, text: str) -> None:
        """Write a line into a container's log. Raises `EngineError` if it does not run."""
        cell = self.containers.get(container_id)
        if cell is None or cell.process is None or not cell.running:
            raise EngineError(f"container {container_id} is not running")
        cell.process.print_line(text, self._elapsed(cell))
        cell.signal.notify()

    # --- numbers

    def _new_id(self, name: str) -> str:
        self._serial += 1
        return hashlib.sha256(f"{self._serial}/{name}".encode()).hexdigest()

    def _new_pid(self) -> int:
        self._serial += 1
        return 1000 + self._serial

    def _new_ip(self) -> str:
        """Return the next IP of 198.18.0.0/15, which no network routes."""
        self._addresses += 1
        number = (198 << 24) + (18 << 16) + 1 + self._addresses % ((1 << 17) - 2)
        return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _container_name(config: ContainerConfig) -> str:
    pod = f"{config.pod_name}_{config.pod_namespace}_{config.pod_uid}"
    return f"k8s_{config.name}_{pod}_{config.attempt}"
