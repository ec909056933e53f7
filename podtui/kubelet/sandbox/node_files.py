"""The node's resolver and hosts files, as copied into pods (reference §11).

The files are those of this machine, so they describe the node only if the engine is local.
"""

from __future__ import annotations

from typing import Final

from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.containers.hosts import read_node_file
from podtui.kubelet.sandbox.dns import beyond_loopback, parse_resolv_conf
from podtui.runtime.protocol import DnsConfig

RESOLVED_CONF: Final = "/run/systemd/resolve/resolv.conf"
"""File in which systemd-resolved lists the upstream servers behind its loopback address."""


def read_resolver(path: str) -> DnsConfig:
    """Parse a resolver file. Raises `ConfigError`. Blocks."""
    try:
        return parse_resolv_conf(read_node_file(path).decode("utf-8", "replace"))
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
