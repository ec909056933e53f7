"""CPU sets, and the topology read from sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.cpus import format_cpu_set, parse_cpu_set
from podtui.errors import PodtuiError
from podtui.kubelet.resource_managers.cpu_topology import (
    Cpu,
    read_machine_topology,
)


@given(st.frozensets(st.integers(0, 300)))
def test_a_formatted_set_is_parsed_to_the_same_set(cpus: frozenset[int]) -> None:
    assert parse_cpu_set(format_cpu_set(cpus)) == cpus


@pytest.mark.parametrize(("cpus", "text"), [({0, 1, 2, 8}, "0-2,8"), ({3}, "3"), (set(), "")])
def test_ranges_are_short(cpus: set[int], text: str) -> None:
    assert format_cpu_set(cpus) == text


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1"])
def test_an_invalid_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_cpu_set(text)


def sysfs(root: Path) -> Path:
    """Two sockets, each a NUMA node with a core of two threads that are not adjacent."""

    def write(path: str, text: str) -> None:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    write("cpu/online", "0-3")
    for cpu in range(4):
        node = cpu % 2
        write(f"cpu/cpu{cpu}/topology/thread_siblings_list", f"{node},{node + 2}")
        write(f"cpu/cpu{cpu}/topology/physical_package_id", str(node))
        write(f"cpu/cpu{cpu}/cache/index3/level", "3")
        write(f"cpu/cpu{cpu}/cache/index3/id", str(node + 7))
    for node in range(2):
        write(f"node/node{node}/cpulist", f"{node},{node + 2}")
        write(f"node/node{node}/meminfo", f"Node {node} MemTotal:       1024 kB")
        write(f"node/node{node}/distance", "10 21")
        write(f"node/node{node}/hugepages/hugepages-2048kB/nr_hugepages", "3")
        write(f"node/node{node}/hugepages/hugepages-1048576kB/nr_hugepages", "0")
    return root


def test_the_topology_is_read_from_sysfs(tmp_path: Path) -> None:
    found = read_machine_topology(sysfs(tmp_path))
    assert found.cpus.cpus[3] == Cpu(core=1, socket=1, numa=1, cache=8)
    assert (found.cpus.cpus_per_core, found.cpus.cpus_per_socket) == (2, 2)
    (first, second) = found.numa
    assert (first.id, first.memory, second.distances) == (0, 1024**2, (10, 21))
    assert first.hugepages == {"hugepages-1Gi": 0, "hugepages-2Mi": 6 * 1024**2}


def test_this_machine_has_a_topology() -> None:
    found = read_machine_topology()
    assert found.cpus.all
    assert sum(node.memory for node in found.numa) > 0


def test_an_unreadable_topology_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(PodtuiError, match=str(tmp_path)):
        read_machine_topology(tmp_path)
