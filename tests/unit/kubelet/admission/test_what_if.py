"""What-if checks: the verdict of a node, blocking pods, and pods to remove."""

from __future__ import annotations

import socket

import pytest
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World, container, pod
from msgspec import structs
from virtual_time import virtual

from podtui.api.local import Lack, PortHolder, WhatIf
from podtui.api.names import CONFIG_SOURCE
from podtui.api.v1 import ContainerPort, ObjectMeta, Pod, ResourceRequirements
from podtui.kubelet.admission.what_if import (
    SETS_TRIED,
    AdmissionContext,
    Candidate,
    smallest_set,
    what_if,
)
from podtui.kubelet.node.host import Listener, read_listeners
from podtui.kubelet.types import NodeResources, NodeView


def pod_with(
    name: str, *, port: int = 0, ip: str = "", priority: int | None = None, **amounts: str
) -> Pod:
    """Return a static pod, as created from its manifest."""
    ports = (ContainerPort(containerPort=80, hostPort=port, hostIP=ip, protocol="TCP"),)
    own = container(resources=ResourceRequirements(requests=amounts), ports=ports if port else ())
    made = pod(f"{name}-n1", name, own, priority=priority)
    meta = ObjectMeta(
        name=f"{name}-n1", namespace="default", uid=name, annotations={CONFIG_SOURCE: "file"}
    )
    return Pod(metadata=meta, spec=made.spec, status=made.status)


def view(cpu: int = 2000, memory: int = 1 << 30, pods: int = 10) -> NodeView:
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return NodeView(name="n1", labels={}, resources=NodeResources(capacity=amounts,
                                                                  allocatable=amounts))  # fmt: skip


def check(wanted: Pod, *active: Pod, listeners: tuple[Listener, ...] = (), **node: int) -> WhatIf:
    return what_if(wanted, AdmissionContext(node=view(**node), active=active, listeners=listeners))


def leaving(answer: WhatIf) -> list[str]:
    return [one.uid for one in answer.leave]


def test_huge_amounts_can_be_displayed() -> None:
    most = 2**63 - 1
    answer = check(pod_with("new", cpu="9" * 250 + "e300", memory="1e300"))
    assert not answer.admitted
    assert {one.resource: one.requested for one in answer.lacks} == {"cpu": most, "memory": most}


# --- the smallest set


def test_selects_the_fewest_and_smallest_sufficient_pods() -> None:
    candidates = [
        Candidate("small", {"cpu": 100}),
        Candidate("middle", {"cpu": 500}),
        Candidate("large", {"cpu": 900}),
    ]
    assert smallest_set(candidates, {"cpu": 450}) == ("middle",)
    assert smallest_set(candidates, {"cpu": 950}) == ("small", "large")
    assert smallest_set(candidates, {"cpu": 1501}) == ()
    assert smallest_set(candidates, {}) == ()


def test_one_pod_that_frees_both_is_preferred_to_two() -> None:
    candidates = [
        Candidate("cpu", {"cpu": 1000, "memory": 0}),
        Candidate("memory", {"cpu": 0, "memory": 1000}),
        Candidate("both", {"cpu": 300, "memory": 300}),
    ]
    assert smallest_set(candidates, {"cpu": 300, "memory": 300}) == ("both",)


amounts = st.fixed_dictionaries({"cpu": st.integers(0, 50), "memory": st.integers(0, 50)})


@given(st.lists(amounts, max_size=40), amounts)
def test_the_selected_set_is_sufficient_and_minimal(
    given_: list[dict[str, int]], wanted: dict[str, int]
) -> None:
    candidates = [Candidate(str(n), frees) for n, frees in enumerate(given_)]
    needs = {name: need for name, need in wanted.items() if need}
    found = [candidates[int(key)] for key in smallest_set(candidates, needs)]
    total = {name: sum(one.frees[name] for one in candidates) for name in needs}
    if any(total[name] < need for name, need in needs.items()):
        assert found == []
        return
    for left_out in [None, *found] if needs else []:
        some = [one for one in found if one is not left_out]
        enough = all(sum(one.frees[name] for one in some) >= n for name, n in needs.items())
        assert enough is (left_out is None)


def test_the_search_over_a_thousand_candidates_is_bounded() -> None:
    candidates = [Candidate(f"{n:04}", {"cpu": 1 + n % 7}) for n in range(1000)]
    assert SETS_TRIED < 1000 * 999 / 2
    assert len(smallest_set(candidates, {"cpu": 70})) == 10


# --- verdicts


def test_a_pod_that_fits_is_blocked_by_nothing() -> None:
    answer = check(pod_with("new", cpu="500m"), pod_with("old", cpu="1"))
    assert answer.admitted
    assert (answer.lacks, answer.holders, answer.leave, answer.remarks) == ((), (), (), ())


def test_reports_the_rejection_the_missing_resources_and_pods_to_remove() -> None:
    answer = check(pod_with("new", cpu="1500m"), pod_with("a", cpu="200m"), pod_with("b", cpu="1"))
    assert not answer.admitted
    assert answer.reason == "UnexpectedAdmissionError"
    assert answer.message.endswith("reclaim resources: [(res: cpu, q: 700), ]")
    assert answer.lacks == (Lack(resource="cpu", requested=1500, used=1200, capacity=2000),)
    assert leaving(answer) == ["b"]
    assert answer.leave[0].frees == {"cpu": 1000}
    assert not answer.leave[0].preempted
    assert "spec.priority" in answer.remarks[0]


def test_requests_above_capacity_have_no_solution() -> None:
    answer = check(pod_with("new", cpu="3"), pod_with("a", cpu="2"))
    assert answer.lacks[0].exceeds_node
    assert answer.leave == ()
    assert answer.remarks == ("It requests more cpu than the node can allocate to pods.",)


def test_a_pod_of_higher_priority_preempts_others() -> None:
    answer = check(
        pod_with("new", cpu="1500m", priority=10),
        pod_with("low", cpu="1", priority=1),
        pod_with("high", cpu="400m", priority=20),
    )
    assert answer.admitted
    assert [(one.uid, one.preempted) for one in answer.leave] == [("low", True)]


def test_a_new_version_does_not_compete_with_the_running_one() -> None:
    running = pod_with("web", cpu="1500m", port=8080)
    answer = check(pod_with("web", cpu="1800m", port=8080), running)
    assert answer.admitted
    assert answer.replaces
    assert answer.holders == ()


def test_one_port_in_use_blocks_the_pod() -> None:
    """By a pod or by a program."""
    wanted = pod_with("new", port=8080)
    more = ContainerPort(containerPort=81, hostPort=9090, protocol="TCP")
    (one,) = wanted.spec.containers
    one = structs.replace(one, ports=(*one.ports, more))
    wanted = structs.replace(wanted, spec=structs.replace(wanted.spec, containers=(one,)))
    nginx = Listener(protocol="TCP", ip="", port=9090, process="nginx", pid=12)
    answer = check(wanted, pod_with("b", port=8080), listeners=(nginx,))
    assert [(held.port, held.pod, held.process) for held in answer.holders] == [
        (8080, "b-n1", ""), (9090, "", "nginx"),
    ]  # fmt: skip


def test_too_many_pods() -> None:
    answer = check(pod_with("new"), pod_with("a"), pod_with("b"), pods=2)
    assert answer.lacks == (Lack(resource="pods", requested=1, used=2, capacity=2),)
    assert leaving(answer) == ["a"]


# --- ports


def test_the_pod_using_the_port_would_have_to_be_removed() -> None:
    answer = check(pod_with("new", port=8080), pod_with("a", port=9090), pod_with("b", port=8080))
    assert not answer.replaces
    assert answer.reason == "NodePorts"
    assert answer.holders == (
        PortHolder(port=8080, protocol="TCP", namespace="default", pod="b-n1"),
    )
    assert leaving(answer) == ["b"]
    assert answer.leave[0].ports == (8080,)
    assert answer.remarks == ("The kubelet preempts no pod because of a port.",)


def test_removing_the_pod_that_uses_the_port_frees_resources() -> None:
    answer = check(
        pod_with("new", port=8080, cpu="1500m"),
        pod_with("a", cpu="800m"),
        pod_with("b", cpu="900m", port=8080),
    )
    assert leaving(answer) == ["a", "b"]
    answer = check(
        pod_with("new", port=8080, cpu="1100m"),
        pod_with("a", cpu="800m"),
        pod_with("b", cpu="900m", port=8080),
    )
    assert leaving(answer) == ["b"]


@pytest.mark.parametrize(
    ("ip", "listening", "held"),
    [("", "", True), ("", "127.0.0.1", True), ("127.0.0.1", "", True),
     ("127.0.0.1", "10.0.0.1", False)],
)  # fmt: skip
def test_a_program_using_the_port(ip: str, listening: str, held: bool) -> None:
    nginx = Listener(protocol="TCP", ip=listening, port=8080, process="nginx", pid=12)
    other = Listener(protocol="UDP", ip=listening, port=8080, process="named", pid=13)
    answer = check(pod_with("new", port=8080, ip=ip), listeners=(nginx, other))
    assert answer.admitted, "the kubelet does not check programs"
    assert [(one.process, one.pid) for one in answer.holders] == ([("nginx", 12)] if held else [])
    assert bool(answer.remarks) is held
    assert answer.leave == ()


def test_blocking_programs_are_reported_beside_blocking_pods() -> None:
    nginx = Listener(protocol="TCP", ip="", port=80, process="nginx", pid=12)
    answer = check(pod_with("new", port=80, cpu="9"), listeners=(nginx,))
    assert not answer.admitted
    assert "Other programs use ports" in answer.remarks[-1]


def test_a_listener_of_a_pod_counts_as_that_pod() -> None:
    proxy = Listener(protocol="TCP", ip="", port=8080, process="docker-proxy", pid=12)
    running = pod_with("web", port=8080)
    assert [
        one.pod for one in check(pod_with("new", port=8080), running, listeners=(proxy,)).holders
    ] == ["web-n1"]
    assert check(pod_with("web", port=8080), running, listeners=(proxy,)).holders == ()


def test_finds_listening_programs_on_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (found,) = [one for one in read_listeners() if (one.protocol, one.port) == ("TCP", port)]
    assert found.ip == "127.0.0.1"
    assert found.process


# --- in a kubelet


@virtual()
async def test_a_what_if_check_leaves_no_state() -> None:
    host = FakeHost()
    host.listening = (Listener(protocol="TCP", ip="", port=8080, process="nginx", pid=12),)
    world = World(host=host)
    world.add(pod_with("web", cpu="1"))
    async with world.running():
        await world.until(world.runs("web"))
        answer = await world.kubelet.what_if(pod_with("new", cpu="10000", port=8080))
        assert not answer.admitted
        assert answer.lacks[0].used == 1000
        assert [one.process for one in answer.holders] == ["nginx"]
        assert [one.metadata.name for one in (await world.store.list("pods")).items] == ["web-n1"]
