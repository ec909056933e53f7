"""The node's resolver and hosts files, as copied into pods (reference §11).

The files are those of this machine, so they describe the node only if the engine is local.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from podtui.api.v1 import Container, Pod
from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.sandbox.dns import beyond_loopback, parse_resolv_conf
from podtui.kubelet.sandbox.hosts import HOSTS_PATH, managed_hosts, mounts_own_hosts, node_hosts
from podtui.runtime.protocol import DnsConfig

RESOLVED_CONF: Final = "/run/systemd/resolve/resolv.conf"
"""File in which systemd-resolved lists the upstream servers behind its loopback address."""
_MOST: Final = 10 * 1024 * 1024


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MOST)
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error


def read_resolver(path: str) -> DnsConfig:
    """Parse a resolver file. Raises `ConfigError`. Blocks."""
    try:
        return parse_resolv_conf(_read(path).decode("utf-8", "replace"))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def read_reachable_resolver(path: str, resolved: str = RESOLVED_CONF) -> DnsConfig | None:
    """Return the node's resolver for a pod with its own network: loopback servers are replaced by
    the upstream servers of systemd-resolved, or dropped. Return None if no server remains or the
    file cannot be read. Blocks."""
    try:
        node = read_resolver(path)
    except ConfigError:
        return None
    beyond = beyond_loopback(node)
    if not beyond.servers and node.servers:
        try:
            behind = beyond_loopback(read_resolver(resolved))
        except ConfigError:
            return None
        beyond = DnsConfig(servers=behind.servers, searches=node.searches, options=node.options)
    return beyond if beyond.servers else None


async def hosts_file(
    pod: Pod, container: Container, pod_ips: tuple[str, ...], *, local: bool, cluster_domain: str
) -> bytes:
    """Return the content of the container's hosts file; empty if the kubelet does not manage it.

    Raises `ConfigError` if the node's own hosts file cannot be read.
    """
    if mounts_own_hosts(container):
        return b""
    if pod.spec.hostNetwork:
        return node_hosts(pod, await asyncio.to_thread(_read, HOSTS_PATH)) if local else b""
    return managed_hosts(pod, pod_ips, cluster_domain) if pod_ips else b""
