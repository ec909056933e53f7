"""The last contact of nodes, and their NoExecute taints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.agent.node_health import (
    GRACE_SECONDS,
    NOT_READY,
    STARTUP_GRACE_SECONDS,
    UNREACHABLE,
    Contact,
    contact,
    evicts,
    execution_taints,
    is_lost,
    marked_not_ready,
    with_unknown_conditions,
)
from podtui.api.v1 import (
    Lease,
    LeaseSpec,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Taint,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CREATED = "2026-01-02T03:03:55Z"
OTHERS = Taint(key="example.com/dedicated", effect="NoExecute")
STATUSES = st.sampled_from(["True", "False", "Unknown", ""])


def node(
    ready: str = "True", heartbeat: str = "t1", *taints: Taint, excluded: bool = False
) -> Node:
    labels = {"node.kubernetes.io/exclude-disruption": ""} if excluded else {}
    condition = NodeCondition(type="Ready", status=ready, lastHeartbeatTime=heartbeat)
    return Node(
        metadata=ObjectMeta(name="n1", uid="u1", creationTimestamp=CREATED, labels=labels),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(conditions=(condition,) if ready else ()),
    )


def lease(renewed: str) -> Lease:
    return Lease(metadata=ObjectMeta(name="n1"), spec=LeaseSpec(renewTime=renewed))


def taint(key: str) -> Taint:
    return Taint(key=key, effect="NoExecute", timeAdded="2026-01-02T03:04:05Z")


def test_a_heartbeat_or_a_renewed_lease_is_a_contact() -> None:
    first = contact(node(), None, None, NOW, 100)
    assert first == Contact("t1", "", 100)
    assert contact(node(), None, first, NOW, 110) == first
    assert contact(node(heartbeat="t2"), None, first, NOW, 110).seen == 110
    renewed = contact(node(), lease("1"), first, NOW, 120)
    assert renewed.seen == 120
    assert contact(node(), lease("1"), renewed, NOW, 130) == renewed
    assert contact(node(), lease("2"), renewed, NOW, 140).seen == 140


def test_a_node_that_never_reported_is_lost_a_minute_after_its_creation() -> None:
    first = contact(node(""), None, None, NOW, 100)
    assert first == Contact(None, "", 90)
    assert not is_lost(first, 90 + STARTUP_GRACE_SECONDS)
    assert is_lost(first, 90.1 + STARTUP_GRACE_SECONDS)


def test_a_node_is_lost_after_the_grace_period() -> None:
    last = Contact("t1", "", 100)
    assert not is_lost(last, 100 + GRACE_SECONDS)
    assert is_lost(last, 100.1 + GRACE_SECONDS)


def test_the_conditions_of_a_lost_node_are_unknown() -> None:
    lost = with_unknown_conditions(node(), NOW)
    ready, memory, *_ = lost.status.conditions
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusUnknown")
    assert ready.message == "Kubelet stopped posting node status."
    assert ready.lastHeartbeatTime == "t1"
    assert ready.lastTransitionTime == "2026-01-02T03:04:05Z"
    assert (memory.type, memory.reason) == ("MemoryPressure", "NodeStatusNeverUpdated")
    assert memory.message == "Kubelet never posted node status."
    assert memory.lastHeartbeatTime == CREATED
    types = [condition.type for condition in lost.status.conditions]
    assert types == ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
    assert with_unknown_conditions(lost, NOW + timedelta(hours=1)) == lost


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], True),
        (["True"], True),
        (["False"], False),
        (["Unknown", "False"], False),
        (["True", "Unknown", "Unknown"], True),
        (["True", "Unknown", "Unknown", "False"], None),
        (["True", "True", "True", "Unknown", "Unknown", "False"], True),
    ],
)
def test_pods_are_evicted_unless_most_nodes_fail(
    statuses: list[str], expected: bool | None
) -> None:
    assert evicts([node(status) for status in statuses]) is expected


def test_a_node_with_the_label_does_not_count() -> None:
    assert evicts([node("True", excluded=True), node("Unknown")]) is False


def test_the_taint_follows_the_ready_condition() -> None:
    assert execution_taints(node("False", "t", OTHERS), True, NOW) == (OTHERS, taint(NOT_READY))
    before = taint(NOT_READY)
    assert execution_taints(node("Unknown", "t", before), True, NOW) == (taint(UNREACHABLE),)
    assert execution_taints(node("True", "t", before, OTHERS), True, NOW) == (OTHERS,)


def test_in_a_disruption_taints_go_or_stay() -> None:
    before = taint(UNREACHABLE)
    assert execution_taints(node("Unknown", "t", before), False, NOW) == ()
    assert execution_taints(node("Unknown", "t", before), None, NOW) == (before,)
    assert execution_taints(node("Unknown"), None, NOW) == ()
    assert execution_taints(node("True", "t", before), None, NOW) == ()


@given(
    STATUSES,
    st.sampled_from([True, False, None]),
    st.lists(
        st.builds(
            Taint,
            key=st.sampled_from([NOT_READY, UNREACHABLE, "other"]),
            effect=st.sampled_from(["NoSchedule", "NoExecute"]),
        ),
        unique_by=lambda item: (item.key, item.effect),
    ),
)
def test_taints_settle_and_others_are_kept(
    status: str, evict: bool | None, taints: list[Taint]
) -> None:
    before = node(status, "t", *taints)
    after = execution_taints(before, evict, NOW)
    keys = {item.key for item in after if item.effect == "NoExecute"}
    assert not {NOT_READY, UNREACHABLE} <= keys
    others = [item for item in taints if item.effect != "NoExecute" or item.key == "other"]
    assert [item for item in after if item in others] == others
    settled = structs.replace(before, spec=structs.replace(before.spec, taints=after))
    assert execution_taints(settled, evict, NOW) == after


def test_a_ready_pod_is_marked() -> None:
    ready = PodCondition(type="Ready", status="True", lastTransitionTime="earlier")
    started = PodCondition(type="Initialized", status="True")
    pod = Pod(
        metadata=ObjectMeta(name="p"),
        spec=PodSpec(containers=()),
        status=PodStatus(conditions=(started, ready)),
    )
    first, second = marked_not_ready(pod, NOW).status.conditions
    assert first == started
    assert (second.status, second.lastTransitionTime) == ("False", "2026-01-02T03:04:05Z")
    assert marked_not_ready(marked_not_ready(pod, NOW), NOW + timedelta(1)).status.conditions == (
        first,
        second,
    )
