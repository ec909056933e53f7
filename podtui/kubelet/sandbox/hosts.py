"""The hosts file of a pod's containers (reference §11.1)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Final

from podtui.api.v1 import Container, HostAlias, Pod
from podtui.kubelet.sandbox.hostname import host_and_domain

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


def _alias_lines(aliases: tuple[HostAlias, ...]) -> Iterable[str]:
    if aliases:
        yield _ALIASES
    for alias in aliases:
        names = "\t".join(alias.hostnames)
        yield f"{alias.ip}\t{names}\n"


def managed_hosts(pod: Pod, pod_ips: tuple[str, ...], cluster_domain: str) -> bytes:
    """Return the hosts file of a pod with its own network: one line for each of its addresses."""
    host, domain = host_and_domain(pod, cluster_domain)
    own = f"{host}.{domain}\t{host}" if domain else host
    lines = [f"{address}\t{own}\n" for address in pod_ips]
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
