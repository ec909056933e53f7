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
    cpus: int = 0
    """How many it has, for what of each is hidden from containers."""
