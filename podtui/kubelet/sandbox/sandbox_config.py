"""Build the runtime's configuration of a pod sandbox (reference §11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from podtui.api import names
from podtui.api.v1 import Pod
from podtui.kubelet.base.types import (
    ObservedPod,
)
from podtui.kubelet.containers.container_config import pid_mode
from podtui.kubelet.containers.hosts import sandbox_hostname
from podtui.kubelet.containers.security import is_privileged
from podtui.kubelet.sandbox.sysctls import normalized
from podtui.runtime.protocol import (
    DnsConfig,
    NamespaceMode,
    PodVolume,
    PortMapping,
    SandboxConfig,
    SandboxState,
)

_PROTOCOLS: Final[Mapping[str, Literal["UDP", "SCTP"]]] = {"UDP": "UDP", "SCTP": "SCTP"}


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Return the published ports of the regular containers without duplicates; none if the pod uses
    the host network."""
    if pod.spec.hostNetwork:
        return ()
    found: dict[PortMapping, None] = {}
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
            found[mapping] = None
    return tuple(found)


def sandbox_config(
    pod: Pod,
    *,
    attempt: int,
    dns: DnsConfig | None = None,
    cluster_domain: str = "",
    volumes: tuple[PodVolume, ...] = (),
) -> SandboxConfig:
    """Build the sandbox configuration of a pod. Raises `ConfigError`.

    ``dns`` is the pod's resolver (None for the engine's default), ``volumes`` its directories.
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
        sysctls={normalized(one.name): one.value for one in sysctls},
        privileged=any(map(is_privileged, (*spec.initContainers, *spec.containers))),
        host_users=spec.hostUsers is not False,
        volumes=volumes,
    )


def sandbox_changed(pod: Pod, observed: ObservedPod) -> bool:
    """Return True if the pod needs a new sandbox (reference §6.1).

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
