"""Kernel parameters that a pod may set (reference §5, 12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from podtui.api.v1 import Pod

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
    for one in () if security is None else security.sysctls:
        name = normalized(one.name)
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
