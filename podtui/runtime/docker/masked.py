"""Paths of ``/proc`` and ``/sys`` that are hidden from containers (reference §12).

This is the kubelet's list, which is longer than the list of older engines.
"""

from __future__ import annotations

from typing import Final

_ALWAYS: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)


def masked_paths(cpus: int) -> list[str]:
    """Return the paths for an engine with that many CPUs. Engines ignore missing paths."""
    heat = (f"/sys/devices/system/cpu/cpu{number}/thermal_throttle" for number in range(cpus))
    return [*_ALWAYS, *heat]
