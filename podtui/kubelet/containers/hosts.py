"""The hostname of a pod, and the hosts file of its containers (kubelet.md §11.1, 11.2)."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from podtui.api.v1 import Container, HostAlias, Pod
from podtui.kubelet.types import ConfigError

HOSTNAME_LIMIT: Final = 63
FQDN_LIMIT: Final = 64
NODE_FILE_LIMIT: Final = 10 * 1024 * 1024
"""Bytes read of a file of the node."""
HOSTS_PATH: Final = "/etc/hosts"
_MANAGED: Final = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_OF_THE_NODE: Final = "# Kubernetes-managed hosts file (host network).\n"
_ALIASES: Final = "\n# Entries added by HostAliases.\n"


def _cut(name: str) -> str:
    return name if len(name) <= HOSTNAME_LIMIT else name[:HOSTNAME_LIMIT].rstrip("-.")


def host_and_domain(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """Return the pod's hostname and its domain. The domain is empty if the pod has none."""
    spec = pod.spec
    if spec.hostnameOverride:
        return _cut(spec.hostnameOverride), ""
    host = _cut(spec.hostname or pod.metadata.name)
    if not spec.subdomain:
        return host, ""
    return host, f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"


def sandbox_hostname(pod: Pod, cluster_domain: str) -> str:
    """Return the hostname to set in the kernel; empty for the host network, which has the node's
    name.

    Raises `ConfigError` for a fully qualified name that exceeds the kernel's limit.
    """
    if pod.spec.hostNetwork:
        return ""
    host, domain = host_and_domain(pod, cluster_domain)
    if not (domain and pod.spec.setHostnameAsFQDN):
        return host
    full = f"{host}.{domain}"
    if len(full) > FQDN_LIMIT:
        raise ConfigError(
            "failed to construct FQDN from pod hostname and cluster domain,"
            f" FQDN {full} is too long ({FQDN_LIMIT} characters is the max,"
            f" {len(full)} characters requested)"
        )
    return full


# --- the hosts file


def _alias_lines(aliases: tuple[HostAlias, ...]) -> Iterable[str]:
    if aliases:
        yield _ALIASES
    for alias in aliases:
        names = "\t".join(alias.hostnames)
        yield f"{alias.ip}\t{names}\n"


def managed_hosts(pod: Pod, pod_ips: tuple[str, ...], cluster_domain: str) -> bytes:
    """Return the hosts file of a pod with its own network: one line for each of its addresses."""
    host, domain = host_and_domain(pod, cluster_domain)
    names = f"{host}.{domain}\t{host}" if domain else host
    lines = [f"{address}\t{names}\n" for address in pod_ips]
    return "".join((_MANAGED, *lines, *_alias_lines(pod.spec.hostAliases))).encode()


def node_hosts(pod: Pod, node_file: bytes) -> bytes:
    """Return the hosts file of a pod in the host network: the node's file plus the pod's host
    aliases."""
    return _OF_THE_NODE.encode() + node_file + "".join(_alias_lines(pod.spec.hostAliases)).encode()


def mounts_own_hosts(container: Container) -> bool:
    """Return whether the container mounts its own file over the hosts file."""
    return any(
        posixpath.normpath(mount.mountPath) == HOSTS_PATH for mount in container.volumeMounts
    )


def read_node_file(path: str) -> bytes:
    """Read a file of the node that pods get a copy of. Raises `ConfigError`. Blocks."""
    try:
        with Path(path).open("rb") as file:
            return file.read(NODE_FILE_LIMIT)
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error


async def hosts_file(
    pod: Pod, container: Container, pod_ips: tuple[str, ...], *, local: bool, cluster_domain: str
) -> bytes:
    """Return the content of the container's hosts file; empty if the kubelet does not manage it.

    Raises `ConfigError` if the node's own hosts file cannot be read.
    """
    if mounts_own_hosts(container):
        return b""
    if pod.spec.hostNetwork:
        return (
            node_hosts(pod, await asyncio.to_thread(read_node_file, HOSTS_PATH)) if local else b""
        )
    return managed_hosts(pod, pod_ips, cluster_domain) if pod_ips else b""
