"""Available resources, as read from the machine's files."""

from __future__ import annotations

from pathlib import Path

import psutil

from podtui.kubelet.node.host import (
    Disk,
    Observation,
    disk_signals,
    memory_left,
    processes_left,
    read_disk,
    read_signals,
)

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    450 kB
Inactive(file):  300 kB
HugePages_Total:    0
"""


def test_available_memory_is_capacity_minus_working_set():
    assert memory_left(MEMINFO) == Observation(400 * 1024, 1000 * 1024)
    assert memory_left("") is None
    assert memory_left("MemTotal: 10 kB\nMemFree: lots\n") is None


def test_the_lower_process_limit_applies():
    assert processes_left("0.1 0.2 0.3 2/345 6789", "32768\n", "1000\n") == Observation(655, 1000)
    assert processes_left("0.1 0.2 0.3 2/345 6789", "300", "1000") == Observation(0, 300)
    assert processes_left("", "300", "1000") is None
    assert processes_left("0.1 0.2 0.3 2/345 6789", "", "") is None


def test_a_file_system_without_inodes_has_one_signal():
    assert disk_signals("a", "b", Disk(capacity=9, available=3)) == {"a": Observation(3, 9)}
    assert disk_signals("a", "b", Disk(capacity=9, inodes=5, inodes_free=2)) == {
        "a": Observation(0, 9),
        "b": Observation(2, 5),
    }
    assert disk_signals("a", "b", None) == {}


def test_this_machine_provides_all_signals(tmp_path: Path):
    seen = read_signals(str(tmp_path), "/nowhere/at/all")
    assert {"memory.available", "pid.available", "imagefs.available"} <= seen.keys()
    assert "nodefs.available" not in seen
    assert all(0 <= one.available <= one.capacity for one in seen.values())
    assert seen["memory.available"].capacity == psutil.virtual_memory().total
    assert read_disk("/nowhere/at/all") is None
