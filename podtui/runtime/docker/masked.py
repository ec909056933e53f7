"""What of ``/proc`` and ``/sys`` a container does not see (reference §12).

The kubelet's list, which is longer than that of older engines.
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
    """For an engine with so many CPUs. Engines pass over a path that is not there."""
    heat = (f"/sys/devices/system/cpu/cpu{number}/thermal_throttle" for number in range(cpus))
    return [*_ALWAYS, *heat]
