"""The engine features that affect requests to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    memory_limit: bool = True
    swap_limit: bool = True
    cpu_shares: bool = True
    cpu_quota: bool = True
    pids_limit: bool = True
    lower_oom_score: bool = True
    all_capabilities: bool = True
    seccomp: bool = True
    apparmor: bool = True
    selinux: bool = True
    recursive_read_only: bool = False
    """Since API 1.44. From then on, a read-only mount is recursive unless it says otherwise."""
    usage: bool = True
    """The engine counts the usage of each container. A rootless engine on cgroup v1 has no cgroups,
    and returns zeros (Docker) or the machine's values (Podman)."""
    resize: bool = True
    """The limits of a running container can be changed: in Podman since 5.1."""
    keeps_stdin: bool = True
    """Stdin stays open when a client detaches. Podman's monitor closes it."""
    reports_oom: bool = True
    """Podman's monitor misses OOM kills on cgroup v1."""
    cpus: int = 0
    """The number of CPUs, for the per-CPU paths hidden from containers."""
