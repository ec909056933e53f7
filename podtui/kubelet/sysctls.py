"""Kernel parameters that a pod may set (reference §5, 12)."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Pod

SAFE: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
)
_IPC_PREFIXES: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def normalized(name: str) -> str:
    """With dots between the parts, whichever separator it was written with."""
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


def forbidden_sysctl(pod: Pod, allowed_unsafe: tuple[str, ...]) -> str | None:
    """Why the pod's sysctls are refused; None where they are not.

    ``allowed_unsafe`` are names, or prefixes that end in ``*``.
    """
    security = pod.spec.securityContext
    for one in () if security is None else security.sysctls:
        name = normalized(one.name)
        patterns = (normalized(pattern) for pattern in allowed_unsafe)
        allowed = name in SAFE or any(
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
