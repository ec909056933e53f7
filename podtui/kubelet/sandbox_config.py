"""The sandbox of a pod, as the runtime is to make it (reference §11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from podtui.api import names
from podtui.api.v1 import ConfigMap, Pod, Secret
from podtui.kubelet.config_error import ConfigError
from podtui.kubelet.container_config import pid_mode
from podtui.kubelet.dns import pod_dns
from podtui.kubelet.environment import Surroundings
from podtui.kubelet.security import is_privileged
from podtui.kubelet.types import NodeView
from podtui.kubelet.volumes import pod_volumes, unsupported
from podtui.runtime.protocol import DnsConfig, NamespaceMode, PortMapping, SandboxConfig

__all__ = ["sandbox_config", "sandbox_hostname", "unsupported"]

HOSTNAME_LIMIT: Final = 63
FQDN_LIMIT: Final = 64
_PROTOCOLS: Final[Mapping[str, Literal["UDP", "SCTP"]]] = {"UDP": "UDP", "SCTP": "SCTP"}


def sandbox_hostname(pod: Pod, cluster_domain: str = "cluster.local") -> str:
    """What the pod calls itself; empty with the node's network, which has the node's name.

    Raises `ConfigError` for a fully qualified name that the kernel does not take.
    """
    spec = pod.spec
    if spec.hostNetwork:
        return ""
    if spec.hostnameOverride:
        return spec.hostnameOverride
    host = (spec.hostname or pod.metadata.name)[:HOSTNAME_LIMIT].rstrip("-.")
    if not (spec.setHostnameAsFQDN and spec.subdomain):
        return host
    full = f"{host}.{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"
    if len(full) > FQDN_LIMIT:
        raise ConfigError(
            "failed to construct FQDN from pod hostname and cluster domain,"
            f" FQDN {full} is too long ({FQDN_LIMIT} characters is the max,"
            f" {len(full)} characters requested)"
        )
    return full


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Published ports of the regular containers, none twice; none with the node's network."""
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
    node: NodeView,
    *,
    attempt: int,
    cluster_dns: tuple[str, ...] = (),
    cluster_domain: str = "cluster.local",
    host_dns: DnsConfig | None = None,
    config_maps: Mapping[tuple[str, str], ConfigMap] | None = None,
    secrets: Mapping[tuple[str, str], Secret] | None = None,
) -> SandboxConfig:
    """Namespaces, name, ports, resolver and volumes of a pod. Raises `ConfigError`.

    ``host_dns`` is the node's resolver, None to leave it to the engine.
    """
    spec = pod.spec
    meta = pod.metadata
    around = Surroundings(node=node, config_maps=config_maps or {}, secrets=secrets or {})
    dns = pod_dns(pod, cluster_dns=cluster_dns, cluster_domain=cluster_domain, host=host_dns)
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
        dns=dns.config,
        extra_hosts=tuple(
            (name, alias.ip) for alias in spec.hostAliases for name in alias.hostnames
        ),
        sysctls={one.name.replace("/", "."): one.value for one in sysctls},
        privileged=any(map(is_privileged, (*spec.initContainers, *spec.containers))),
        volumes=pod_volumes(pod, around),
    )
