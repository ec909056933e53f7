"""Memory of containers on NUMA nodes, by the static policy."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from fake_host import GI
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import ctr, pod_with_uid

from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.kubelet.resource_managers.cpu_topology import NumaNode
from podtui.kubelet.resource_managers.memory_manager import (
    Block,
    MemoryManager,
    MemoryState,
    pod_memory_requests,
)
from podtui.kubelet.resource_managers.topology_manager import AllocationError, TopologyManager

NUMA = (NumaNode(0, 16 * GI), NumaNode(1, 16 * GI))
RESERVED = {0: {"memory": GI}, 1: {"memory": GI}}


def guaranteed(memory: str, name: str = "c") -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": memory}
    return ctr(name, resources={"requests": amounts, "limits": amounts})


def manager(state: MemoryState | None = None) -> MemoryManager:
    return MemoryManager(NUMA, reserved=RESERVED, state=state)


def admit(memory: MemoryManager, one: Pod, policy: str = "none", scope: str = "container") -> None:
    TopologyManager(policy, scope, NUMA).admit(one, [memory])  # type: ignore[arg-type]


def free(memory: MemoryManager) -> list[int]:
    return [memory.state.numa[node].tables["memory"].free // GI for node in (0, 1)]


def test_memory_comes_from_the_first_numa_node_that_has_it() -> None:
    memory = manager()
    admit(memory, pod_with_uid("a", guaranteed("10Gi")))
    admit(memory, pod_with_uid("b", guaranteed("10Gi")))
    assert memory.numa_nodes("a", "c") == {0}
    assert memory.numa_nodes("b", "c") == {1}
    assert free(memory) == [5, 5]
    memory.release("a")
    assert free(memory) == [15, 5]


def test_a_container_larger_than_a_numa_node_gets_a_group_of_its_own() -> None:
    memory = manager()
    admit(memory, pod_with_uid("wide", guaranteed("20Gi")))
    assert memory.numa_nodes("wide", "c") == {0, 1}
    assert free(memory) == [0, 10]
    with pytest.raises(AllocationError, match="Topology locality"):
        admit(memory, pod_with_uid("small", guaranteed("1Gi")), "restricted")
    admit(memory, pod_with_uid("small", guaranteed("1Gi")))
    assert memory.numa_nodes("small", "c") == {0, 1}
    memory.release("small")
    memory.release("wide")
    admit(memory, pod_with_uid("small", guaranteed("1Gi")), "restricted")
    assert memory.numa_nodes("small", "c") == {0}
    with pytest.raises(AllocationError, match="no NUMA nodes with enough memory is available"):
        admit(memory, pod_with_uid("wide", guaranteed("20Gi")))


def test_a_single_numa_node_or_none() -> None:
    with pytest.raises(AllocationError, match="Topology locality"):
        admit(manager(), pod_with_uid("wide", guaranteed("20Gi")), "single-numa-node")


def test_other_pods_may_use_all_memory() -> None:
    memory = manager()
    admit(memory, pod_with_uid("u", ctr("c", resources={"requests": {"memory": "20Gi"}})))
    assert memory.numa_nodes("u", "c") == frozenset()
    assert free(memory) == [15, 15]


def test_containers_reuse_the_memory_of_init_containers() -> None:
    memory = manager()
    one = pod_with_uid("u", guaranteed("10Gi"), init=(guaranteed("12Gi", "setup"),))
    assert pod_memory_requests(one) == {"memory": 12 * GI}
    admit(memory, one, "restricted", "pod")
    assert free(memory) == [3, 15]
    assert memory.state.blocks["u"]["setup"] == [Block(frozenset({0}), "memory", 2 * GI)]
    memory.release("u")
    assert free(memory) == [15, 15]


def test_an_allocation_is_kept_over_a_restart() -> None:
    memory, one = manager(), pod_with_uid("u", guaranteed("10Gi"))
    admit(memory, one, "restricted")
    again = manager(memory.state)
    admit(again, one, "restricted")
    assert free(again) == [5, 15]


def test_huge_pages_are_counted_apart() -> None:
    numa = (NumaNode(0, 16 * GI, {"hugepages-2Mi": 2 * GI}), NumaNode(1, 16 * GI, {}))
    memory = MemoryManager(numa, reserved=RESERVED)
    amounts = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "1Gi"}
    one = pod_with_uid("u", ctr("c", resources={"requests": amounts, "limits": amounts}))
    TopologyManager("restricted", "container", numa).admit(one, [memory])
    assert memory.numa_nodes("u", "c") == {0}
    tables = memory.state.numa[0].tables
    assert (tables["memory"].allocatable, tables["hugepages-2Mi"].free) == (13 * GI, GI)


def test_without_reserved_memory_the_policy_is_refused() -> None:
    with pytest.raises(PodtuiError, match="you should specify the system reserved memory"):
        MemoryManager(NUMA, reserved={})


def test_a_state_of_another_machine_is_refused() -> None:
    state = manager().state
    with pytest.raises(PodtuiError, match="different from the real one"):
        MemoryManager(NUMA[:1], reserved=RESERVED, state=state)
    blocks = {"u": {"c": [Block(frozenset({7}), "memory", 1)]}}
    with pytest.raises(PodtuiError, match="uses the NUMA that does not exist"):
        manager(MemoryState(state.numa, blocks))
    with pytest.raises(PodtuiError, match="machine state can not be empty"):
        manager(MemoryState({}, blocks))


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 32), st.booleans()), min_size=1, max_size=20
    ),
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
)
def test_promises_never_exceed_the_memory_and_the_state_is_always_valid(
    steps: list[tuple[int, int, bool]], policy: str
) -> None:
    memory = manager()
    for number, size, ends in steps:
        uid = f"u{number}"
        if ends:
            memory.release(uid)
        else:
            try:
                admit(memory, pod_with_uid(uid, guaranteed(f"{size}Gi")), policy)
            except AllocationError:
                memory.release(uid)
        assert all(0 <= gi <= 15 for gi in free(memory))
        promised = sum(
            block.size
            for containers in memory.state.blocks.values()
            for blocks in containers.values()
            for block in blocks
        )
        assert promised == 30 * GI - sum(
            node.tables["memory"].free for node in memory.state.numa.values()
        )
        manager(memory.state)
