"""Exclusive CPUs of containers, by the static policy."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import ctr, pod_with_uid

from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.kubelet.resource_managers.cpu_manager import (
    CpuManager,
    CpuPolicyOptions,
    CpuState,
    cpu_policy_options,
    exclusive_cpus,
    pod_exclusive_cpus,
    reserved_cpus,
)
from podtui.kubelet.resource_managers.topology_manager import (
    AFFINITY_ERROR,
    UNEXPECTED_ERROR,
    AllocationError,
    TopologyManager,
)

MACHINE = FakeHost().topology()
TOPOLOGY = MACHINE.cpus


def guaranteed(cpu: str, name: str = "c") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return ctr(name, resources={"requests": amounts, "limits": amounts})


def manager(reserved: frozenset[int] = frozenset({0}), **options: bool) -> CpuManager:
    return CpuManager(TOPOLOGY, reserved=reserved, options=CpuPolicyOptions(**options))


def admit(cpus: CpuManager, one: Pod, policy: str = "none", scope: str = "container") -> None:
    TopologyManager(policy, scope, MACHINE.numa).admit(one, [cpus])  # type: ignore[arg-type]


def test_exclusive_cpus_of_a_guaranteed_pod_leave_the_shared_pool() -> None:
    cpus = manager()
    admit(cpus, pod_with_uid("u", guaranteed("2"), guaranteed("500m", "small")))
    assert cpus.exclusive("u", "c") == {2, 3}
    assert cpus.cpus("u", "small") == {0, 1, 4, 5, 6, 7}
    cpus.release("u")
    assert cpus.state == CpuState(TOPOLOGY.all)


@pytest.mark.parametrize(
    "container",
    [
        guaranteed("1500m"),
        ctr("c", resources={"requests": {"cpu": "2", "memory": "1Gi"}}),
        ctr("c"),
    ],
)
def test_other_containers_share(container: dict[str, Any]) -> None:
    one = pod_with_uid("u", container)
    assert exclusive_cpus(one, one.spec.containers[0]) == 0


def test_pod_level_resources_get_no_exclusive_cpus() -> None:
    amounts = {"cpu": "2", "memory": "1Gi"}
    one = pod_with_uid("u", guaranteed("1"), resources={"requests": amounts, "limits": amounts})
    assert pod_exclusive_cpus(one) == 0


def test_containers_reuse_the_cpus_of_init_containers_but_not_of_sidecars() -> None:
    cpus = manager()
    side = {**guaranteed("2", "side"), "restartPolicy": "Always"}
    one = pod_with_uid("u", guaranteed("2"), init=(guaranteed("4", "setup"), side))
    assert pod_exclusive_cpus(one) == 4
    admit(cpus, one, "restricted", "pod")
    setup, shared = cpus.exclusive("u", "setup"), cpus.exclusive("u", "side")
    main = cpus.exclusive("u", "c")
    assert len(setup) == 4
    assert shared | main == setup
    assert not shared & main
    cpus.release("u")
    assert cpus.state.shared == TOPOLOGY.all


def test_too_many_cpus_are_an_unexpected_admission_error() -> None:
    with pytest.raises(AllocationError) as failure:
        admit(manager(), pod_with_uid("u", guaranteed("8")))
    assert failure.value.reason == UNEXPECTED_ERROR
    assert str(failure.value) == (
        "Allocate failed due to not enough cpus available to satisfy request: "
        "requested=8, available=7, which is unexpected"
    )


def test_full_cores_only() -> None:
    cpus = manager(full_pcpus_only=True)
    with pytest.raises(AllocationError) as failure:
        admit(cpus, pod_with_uid("u", guaranteed("3")))
    assert (failure.value.reason, str(failure.value)) == (
        "SMTAlignmentError",
        "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    )
    with pytest.raises(AllocationError, match="available physical CPUs = 6, requested CPUs = 8"):
        admit(cpus, pod_with_uid("u", guaranteed("8")))
    admit(cpus, pod_with_uid("u", guaranteed("6")))
    assert cpus.exclusive("u", "c") == {2, 3, 4, 5, 6, 7}


def test_a_single_numa_node_or_none() -> None:
    cpus = manager()
    with pytest.raises(AllocationError) as failure:
        admit(cpus, pod_with_uid("u", guaranteed("5")), "single-numa-node")
    assert (failure.value.reason, str(failure.value)) == (
        AFFINITY_ERROR,
        "Resources cannot be allocated with Topology locality",
    )
    admit(cpus, pod_with_uid("v", guaranteed("4")), "single-numa-node")
    assert cpus.exclusive("v", "c") == {4, 5, 6, 7}


def test_the_scope_pod_aligns_all_containers_together() -> None:
    containers = (guaranteed("2", "a"), guaranteed("2", "b"))
    cpus = manager(frozenset({0, 1}))
    admit(cpus, pod_with_uid("u", *containers), "restricted", "pod")
    assert cpus.exclusive("u", "a") | cpus.exclusive("u", "b") == {4, 5, 6, 7}


def test_an_allocation_is_kept_when_the_pod_is_admitted_again() -> None:
    cpus, one = manager(), pod_with_uid("u", guaranteed("2"))
    admit(cpus, one, "restricted")
    before = cpus.exclusive("u", "c")
    again = CpuManager(
        TOPOLOGY, reserved=cpus.reserved, options=CpuPolicyOptions(), state=cpus.state
    )
    admit(again, one, "restricted")
    assert again.exclusive("u", "c") == before
    other = pod_with_uid("u", guaranteed("4"))
    with pytest.raises(AllocationError, match="locality"):
        admit(again, other, "restricted")


def test_reserved_cpus_are_those_of_the_lowest_cores() -> None:
    options = CpuPolicyOptions()
    assert reserved_cpus(TOPOLOGY, 1500, frozenset(), options) == {0, 1}
    assert reserved_cpus(TOPOLOGY, 2000, frozenset({1, 5}), options) == {1, 5}
    with pytest.raises(PodtuiError, match=r"to be greater than zero"):
        reserved_cpus(TOPOLOGY, 0, frozenset(), options)
    with pytest.raises(PodtuiError, match=r"\(size of 1 did not equal 2\)"):
        reserved_cpus(TOPOLOGY, 2000, frozenset({1, 99}), options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fast": "true"}, 'unknown CPU Manager Policy option: "fast"'),
        ({"full-pcpus-only": "yes"}, 'bad value for option "full-pcpus-only"'),
        (
            {"full-pcpus-only": "true", "distribute-cpus-across-cores": "1"},
            "can not be used at the same time",
        ),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(PodtuiError, match=text):
        cpu_policy_options(options)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (CpuState(frozenset(), {"u": {"c": frozenset({1})}}), "default cpuset cannot be empty"),
        (CpuState(frozenset({1})), 'not all reserved cpus: "0" are present'),
        (CpuState(TOPOLOGY.all, {"u": {"c": frozenset({1})}}), 'cpuset: "1" overlaps with default'),
        (CpuState(frozenset({0, 1})), 'current set of available CPUs "0-7" doesn\'t match'),
    ],
)
def test_a_state_of_another_machine_is_refused(state: CpuState, text: str) -> None:
    with pytest.raises(PodtuiError, match=text):
        CpuManager(TOPOLOGY, reserved=frozenset({0}), options=CpuPolicyOptions(), state=state)


def test_strict_reservation_keeps_the_reserved_cpus_out_of_the_shared_ones() -> None:
    cpus = manager(strict_cpu_reservation=True)
    assert cpus.state.shared == TOPOLOGY.all - {0}
    CpuManager(
        TOPOLOGY,
        reserved=frozenset({0}),
        options=CpuPolicyOptions(strict_cpu_reservation=True),
        state=cpus.state,
    )


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.booleans()), min_size=1, max_size=20
    ),
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
)
def test_no_cpu_is_given_twice_and_none_is_lost(
    steps: list[tuple[int, int, bool]], policy: str
) -> None:
    cpus = manager()
    for number, count, ends in steps:
        uid = f"u{number}"
        if ends:
            cpus.release(uid)
        else:
            try:
                admit(cpus, pod_with_uid(uid, guaranteed(str(count))), policy)
            except AllocationError:
                cpus.release(uid)
        given_away = [one for each in cpus.state.exclusive.values() for one in each.values()]
        assert sum(map(len, given_away)) + len(cpus.state.shared) == len(TOPOLOGY.all)
        assert frozenset().union(*given_away) | cpus.state.shared == TOPOLOGY.all
        assert 0 in cpus.state.shared
