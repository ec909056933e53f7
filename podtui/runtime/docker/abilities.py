"""What an engine can do, as far as it changes what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What the engine can do of what a pod may ask for."""

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
    """Since API 1.44, and then a read-only mount is recursive unless it says that it is not."""
    usage: bool = True
    """Whether it counts what each container uses: rootless on cgroup v1 it has no cgroups, and
    answers with zeros (Docker) or with the machine's figures (Podman)."""
    resize: bool = True
    """Whether the limits of a running container can be changed: in Podman since 5.1."""
    keeps_stdin: bool = True
    """Whether stdin stays open when a client detaches: Podman's monitor closes it."""
    reports_oom: bool = True
    """Podman's monitor misses OOM kills on cgroup v1."""
    cpus: int = 0
    """How many it has, for what of each is hidden from containers."""
