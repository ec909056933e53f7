"""Pod sandboxes: configuration, creation, addresses and sysctls (kubelet.md §6.1, 11)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from podtui.api import names
from podtui.api.v1 import Pod
from podtui.errors import EngineError, EngineUnavailable
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.container_config import pid_mode
from podtui.kubelet.containers.hosts import sandbox_hostname
from podtui.kubelet.containers.security import is_privileged
from podtui.kubelet.containers.starter import StartFailure
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.kubelet_metrics import STARTED_PODS, STARTED_PODS_ERRORS
from podtui.kubelet.pleg.pleg import Pleg
from podtui.kubelet.ports import RuntimeClasses
from podtui.kubelet.sandbox.dns import Resolvers
from podtui.kubelet.types import (
    ConfigError,
    ObservedPod,
)
from podtui.kubelet.volumes.volume_manager import VolumeManager
from podtui.runtime.protocol import (
    DnsConfig,
    EngineInfo,
    NamespaceMode,
    PodVolume,
    PortMapping,
    Runtime,
    SandboxConfig,
    SandboxState,
    SandboxStatus,
    listed_runtimes,
)

SAFE: Final[Mapping[str, tuple[int, int]]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
"""Safe sysctls, with the kernel version that first isolates the sysctl per pod."""
_IPC_PREFIXES: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_PROTOCOLS: Final[Mapping[str, Literal["UDP", "SCTP"]]] = {"UDP": "UDP", "SCTP": "SCTP"}


NO_CLAIMS: Final = "podtui does not allocate the devices of resourceClaims ({})"


class SandboxMaker:
    """Creates sandboxes with one runtime call each, and records the events."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        resolvers: Resolvers,
        runtime_classes: RuntimeClasses,
        volumes: VolumeManager,
        events: EventRecorder,
        pleg: Pleg,
        config: KubeletConfig,
    ) -> None:
        self._runtime = runtime
        self._resolvers = resolvers
        self._runtime_classes = runtime_classes
        self._volumes = volumes
        self._events = events
        self._pleg = pleg
        self._config = config

    async def make(
        self, pod: Pod, attempt: int, engine: EngineInfo
    ) -> SandboxStatus | StartFailure:
        """Create the sandbox, or return why it failed. Raises `EngineUnavailable`."""
        if pod.spec.resourceClaims:
            text = NO_CLAIMS.format(", ".join(claim.name for claim in pod.spec.resourceClaims))
            message = f"Failed to prepare dynamic resources: {text}"
            self._events.pod(pod, WARNING, "FailedPrepareDynamicResources", message)
            return StartFailure("FailedPrepareDynamicResources", text)
        try:
            config = sandbox_config(
                pod,
                attempt=attempt,
                dns=await self._resolvers.resolver_of(pod, engine),
                cluster_domain=self._config.cluster_domain,
                runtime_handler=await self._runtime_handler(pod, engine),
                volumes=self._volumes.directories(pod.metadata.uid),
            )
            started = await self._runtime.run_sandbox(config)
        except EngineUnavailable:
            raise
        except (EngineError, ConfigError) as error:
            STARTED_PODS_ERRORS.inc()
            text = f"Failed to create pod sandbox: {error}"
            self._events.pod(pod, WARNING, "FailedCreatePodSandBox", text)
            return StartFailure("CreatePodSandboxError", str(error))
        STARTED_PODS.inc()
        if started.warnings:
            self._events.pod(pod, WARNING, "Degraded", "; ".join(started.warnings))
        try:
            status = await self._runtime.sandbox_status(started.id)
        except EngineUnavailable:
            raise
        except EngineError as error:
            text = f"Unable to get pod sandbox status: {error}"
            self._events.pod(pod, WARNING, "FailedPodSandBoxStatus", text)
            return StartFailure("FailedPodSandBoxStatus", str(error))
        self._pleg.note_sandbox(status)
        if attempt == 0:
            self._volumes.sandbox_created(pod.metadata.uid, started.id)
        return status

    async def _runtime_handler(self, pod: Pod, engine: EngineInfo) -> str:
        """Return the runtime of the pod's RuntimeClass. Raises `ConfigError`."""
        name = pod.spec.runtimeClassName
        if not name:
            return ""
        runtime_class = await self._runtime_classes.get(name)
        if runtime_class is None:
            runtimes = listed_runtimes(engine.runtimes)
            raise ConfigError(f'runtimeclass.node.k8s.io "{name}" not found; {runtimes}')
        return runtime_class.handler

    async def check_config(self, pod: Pod, engine: EngineInfo) -> StartFailure | None:
        """Build the resolver configuration again, as a kubelet does in each sync, to record its
        events."""
        try:
            await self._resolvers.resolver_of(pod, engine)
        except ConfigError as error:
            return StartFailure("ConfigPodSandboxError", str(error))
        return None


def sandbox_changed(pod: Pod, observed: ObservedPod) -> bool:
    """Return True if the pod needs a new sandbox (kubelet.md §6.1).

    Reasons are: no ready sandbox or several, the newest one not ready, another network mode, or no
    address outside the host's network.
    """
    ready = sum(1 for sandbox in observed.sandboxes if sandbox.state is SandboxState.READY)
    if ready != 1:
        return True
    newest = observed.sandboxes[0]
    host_network = bool(pod.spec.hostNetwork)
    return (
        newest.state is not SandboxState.READY
        or newest.host_network != host_network
        or (not host_network and not newest.ips)
    )


def sandbox_config(
    pod: Pod,
    *,
    attempt: int,
    dns: DnsConfig | None = None,
    cluster_domain: str = "",
    runtime_handler: str = "",
    volumes: tuple[PodVolume, ...] = (),
) -> SandboxConfig:
    """Build the sandbox configuration of a pod. Raises `ConfigError`.

    ``dns`` is the pod's resolver (None for the engine's default), ``runtime_handler`` the runtime
    of its class (empty without one), ``volumes`` its directories.
    """
    spec = pod.spec
    meta = pod.metadata
    identity = {
        names.POD_NAME: meta.name,
        names.POD_NAMESPACE: meta.namespace,
        names.POD_UID: meta.uid,
    }
    sysctls = () if spec.securityContext is None else spec.securityContext.sysctls
    return SandboxConfig(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        attempt=attempt,
        hostname=sandbox_hostname(pod, cluster_domain),
        labels={**meta.labels, **identity},
        annotations=dict(meta.annotations),
        network=NamespaceMode.NODE if spec.hostNetwork else NamespaceMode.POD,
        ipc=NamespaceMode.NODE if spec.hostIPC else NamespaceMode.POD,
        pid=pid_mode(pod),
        ports=port_mappings(pod),
        dns=dns,
        extra_hosts=tuple(
            (name, alias.ip) for alias in spec.hostAliases for name in alias.hostnames
        ),
        sysctls={normalized(sysctl.name): sysctl.value for sysctl in sysctls},
        privileged=any(map(is_privileged, (*spec.initContainers, *spec.containers))),
        host_users=spec.hostUsers is not False,
        runtime_handler=runtime_handler,
        volumes=volumes,
    )


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Return the published ports of the regular containers without duplicates; none if the pod uses
    the host network."""
    if pod.spec.hostNetwork:
        return ()
    mappings: dict[PortMapping, None] = {}
    for container in pod.spec.containers:
        for port in container.ports:
            if not port.hostPort:
                continue
            mapping = PortMapping(
                container_port=port.containerPort,
                host_port=port.hostPort,
                protocol=_PROTOCOLS.get(port.protocol, "TCP"),
                host_ip=port.hostIP,
            )
            mappings[mapping] = None
    return tuple(mappings)


def sorted_pod_ips(ips: Iterable[str], node_ips: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first address of the node's IP family, then the first of the other family, in
    canonical form.

    A node with an unknown address counts as IPv4.
    """
    node = _parsed(node_ips[0]) if node_ips else None
    primary = 4 if node is None else node.version
    addresses = [address for text in ips if (address := _parsed(text)) is not None]
    first = next((str(a) for a in addresses if a.version == primary), None)
    second = next((str(a) for a in addresses if a.version != primary), None)
    return tuple(address for address in (first, second) if address is not None)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# --- sysctls (kubelet.md §5, 12)


def normalized(name: str) -> str:
    """Return the name with dots as separators; it may be written with dots or slashes."""
    first = min((name.find(c) for c in "./" if c in name), default=-1)
    if first < 0 or name[first] == ".":
        return name
    return name.translate({ord("/"): ".", ord("."): "/"})


def _namespace(name: str) -> str:
    if name.startswith("net."):
        return "Net"
    if name == "kernel.sem" or name.startswith(_IPC_PREFIXES):
        return "IPC"
    return ""


def _is_safe(name: str, kernel: str) -> bool:
    needed = SAFE.get(name)
    if needed is None:
        return False
    version = _VERSION.match(kernel)
    return version is None or (int(version[1]), int(version[2])) >= needed


def forbidden_sysctl(pod: Pod, allowed_unsafe: tuple[str, ...], kernel: str = "") -> str | None:
    """Return why the pod's sysctls are rejected, or None.

    ``allowed_unsafe`` are names, or prefixes that end in ``*``. ``kernel`` is the node's kernel
    release; an unknown release counts as new enough.
    """
    security = pod.spec.securityContext
    for sysctl in () if security is None else security.sysctls:
        name = normalized(sysctl.name)
        patterns = (normalized(pattern) for pattern in allowed_unsafe)
        allowed = _is_safe(name, kernel) or any(
            name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
            for pattern in patterns
        )
        if not allowed:
            return f'forbidden sysctl: "{name}" not allowlisted'
        namespace = _namespace(name)
        shared = (namespace == "Net" and pod.spec.hostNetwork) or (
            namespace == "IPC" and pod.spec.hostIPC
        )
        if shared:
            return f'forbidden sysctl: "{name}" not allowed with host {namespace} enabled'
    return None
