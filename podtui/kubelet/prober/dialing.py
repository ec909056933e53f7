"""Find the address of a pod's port, and connect to it (kubelet.md §8; 0.5 for pods on the host
network).

A port is dialled at the pod's IP from this machine or, if the pod's IP is not routable from here,
from inside the pod's network. If that needs a permission that is missing, the published port is
used.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import Container, IntOrString, Pod
from podtui.kubelet.prober.state import SUCCESS, ProbeOutcome, failure
from podtui.kubelet.types import ObservedPod, ObservedSandbox
from podtui.runtime.protocol import EngineInfo, Runtime, SandboxState

LOOPBACK: Final = "127.0.0.1"
ENTERING: Final = "this requires root, or the user of a rootless engine, on the engine's machine"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    sandbox_id: str = ""
    """The sandbox whose network to dial from; empty for this machine's network."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why there is no address; ``text`` is shown to users."""

    text: str


def probe_port(port: IntOrString, container: Container) -> int | Unreachable:
    """Resolve the port of a probe: a number, or the name of a port of the container."""
    # A kubelet resolves probes and hooks differently: for a probe a name precedes a number, for a
    # hook a number precedes a name, and a missing port is 80.
    number = port if isinstance(port, int) else _named(port, container)
    if number is None:
        try:
            number = int(str(port))
        except ValueError:
            return Unreachable(f'strconv.Atoi: parsing "{port}": invalid syntax')
    if 0 < number < 65536:
        return number
    return Unreachable(f"invalid port number: {number}")


def hook_port(port: IntOrString, container: Container) -> int | Unreachable:
    """Resolve the port of a hook; empty means 80."""
    if isinstance(port, int):
        return port or 80
    if not port:
        return 80
    if port.isascii() and port.isdigit():
        return int(port)
    named = _named(port, container)
    return Unreachable(f"couldn't find port: {port}") if named is None else named


def _named(port: str, container: Container) -> int | None:
    return next(
        (declared.containerPort for declared in container.ports if declared.name == port), None
    )


def pod_ip(observed: ObservedPod | None) -> str:
    """Return the first address of the newest sandbox if it is ready, else an empty string."""
    newest = _ready_sandbox(observed)
    return newest.ips[0] if newest is not None and newest.ips else ""


def _ready_sandbox(observed: ObservedPod | None) -> ObservedSandbox | None:
    if observed is None or not observed.sandboxes:
        return None
    newest = observed.sandboxes[0]
    return newest if newest.state is SandboxState.READY else None


class PodAddresses:
    """Finds the addresses of pods.

    ``observe`` returns the observed state of a pod by UID, ``engine`` the engine information of the
    last connect.
    """

    def __init__(
        self,
        observe: Callable[[str], ObservedPod | None],
        engine: Callable[[], EngineInfo | None],
    ) -> None:
        self._observe = observe
        self._engine = engine

    def pod_ip(self, pod: Pod) -> str:
        return pod_ip(self._observe(pod.metadata.uid))

    def find(self, pod: Pod, port: int, host: str = "") -> Address | Unreachable:
        """Find the address of a port. A non-empty ``host`` overrides the pod's own address."""
        if host:
            return Address(host, port)
        engine = self._engine()
        sandbox = _ready_sandbox(self._observe(pod.metadata.uid))
        if pod.spec.hostNetwork:
            if engine is None or engine.local_host_network:
                return Address(LOOPBACK, port)
            if sandbox is not None and sandbox.enterable:
                return Address(LOOPBACK, port, sandbox.id)
            return Unreachable(
                "the engine's host network is not reachable from here, and podtui cannot enter it"
                f" ({ENTERING})"
            )
        if sandbox is None or not sandbox.ips:
            return Unreachable("the pod has no address")
        ip = sandbox.ips[0]
        # Before the first connection to the engine, the usual case is assumed.
        if engine is None or (engine.routable_pods and sandbox.routable):
            return Address(ip, port)
        # The pod's network comes first: it has all ports of the pod, the machine only published
        # ones.
        if sandbox.enterable:
            return Address(ip, port, sandbox.id)
        published = _published(pod, port) if _publishes_on_loopback(engine) else None
        if published is not None:
            return published
        return Unreachable(
            f"the pod's IP {ip} is not reachable from here, and podtui cannot enter the pod's"
            f" network ({ENTERING}): give port {port} a hostPort"
        )


def _publishes_on_loopback(engine: EngineInfo) -> bool:
    """Return whether published ports appear on this machine's loopback interface."""
    return engine.local or engine.rootless or "Docker Desktop" in engine.operating_system


def _published(pod: Pod, port: int) -> Address | None:
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        for declared in container.ports:
            if (
                declared.containerPort == port
                and declared.hostPort
                and declared.protocol in ("", "TCP")
            ):
                host = LOOPBACK if declared.hostIP in ("", "0.0.0.0", "::") else declared.hostIP
                return Address(host, declared.hostPort)
    return None


# --- connections

OpenSocket = Callable[[Address], Awaitable[socket.socket | None]]
"""Opens an unconnected socket from which to dial the address; returns None to dial from this
machine. Raises `EngineError`. Called before the timeout starts, so that the engine's time does not
count against the container."""


async def from_here(address: Address) -> socket.socket | None:
    """An `OpenSocket` that always dials from this machine."""
    return None


def pod_sockets(runtime: Runtime) -> OpenSocket:
    async def open_socket(address: Address) -> socket.socket | None:
        if not address.sandbox_id:
            return None
        return await runtime.pod_socket(address.sandbox_id, address.host)

    return open_socket


async def open_connection(
    address: Address, sock: socket.socket | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection on the socket. Raises OSError."""
    if sock is None:
        return await asyncio.open_connection(address.host, address.port)
    with ExitStack() as on_failure:
        on_failure.callback(sock.close)
        await asyncio.get_running_loop().sock_connect(sock, (address.host, address.port))
        opened = await asyncio.open_connection(sock=sock)
        # From here on the streams own the socket.
        on_failure.pop_all()
        return opened


async def connect(
    address: Address, timeout: float, open_socket: OpenSocket = from_here
) -> ProbeOutcome:
    """The tcpSocket handler: open a connection and close it. ``timeout`` is in seconds. Raises
    `EngineError`."""
    sock = await open_socket(address)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await open_connection(address, sock)
    except OSError as error:
        # Our own timeout has no errno. A timeout of the kernel (ETIMEDOUT) is a failed connect to
        # Go.
        if isinstance(error, TimeoutError) and error.errno is None:
            return failure(dial_timeout(address))
        return failure(dial_error(address, error))
    # Nothing was sent, so close without waiting.
    writer.transport.abort()
    return SUCCESS


# --- messages, as Go's net package words them: kubelet users search for them


def dial_error(address: Address, error: OSError) -> str:
    """Format a failed connection attempt."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {address.host}: no such host"
    return f"dial tcp {address}: connect: {_reason(error)}"


def dial_timeout(address: Address) -> str:
    return f"dial tcp {address}: i/o timeout"


def read_error(address: Address, error: OSError) -> str:
    """Format a broken connection."""
    return f"read tcp {address}: read: {_reason(error)}"


def _reason(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    # Go writes the texts of system errors in lower case.
    text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]
