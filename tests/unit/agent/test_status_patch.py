"""The patch from one status to another, applied as an API server does."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from podtui.agent.status_patch import status_patch
from podtui.api.v1 import NodeStatus, PodStatus
from podtui.patching.strategic import apply

TYPES = ("Ready", "Initialized", "PodScheduled", "example.com/gate")
conditions = st.dictionaries(
    st.sampled_from(TYPES),
    st.fixed_dictionaries(
        {"status": st.sampled_from(["True", "False"])},
        optional={"reason": st.sampled_from(["A", "B"]), "message": st.just("text")},
    ),
    max_size=4,
).map(lambda items: tuple({"type": name, **fields} for name, fields in items.items()))
ips = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"]), unique=True, max_size=2)
pod_statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "reason": st.sampled_from(["Evicted", ""]),
        "conditions": conditions,
        "podIPs": ips.map(lambda items: tuple({"ip": ip} for ip in items)),
        "allocatedResources": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1")),
        "containerStatuses": st.lists(
            st.sampled_from(["a", "b"]).map(
                lambda name: {
                    "name": name,
                    "image": "i",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                }
            ),
            max_size=2,
        ),
    },
).map(lambda tree: msgspec.convert(tree, PodStatus))
node_statuses = st.fixed_dictionaries(
    {},
    optional={
        "conditions": conditions,
        "capacity": st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.just("1")),
        "addresses": ips.map(
            lambda items: tuple({"type": "InternalIP", "address": ip} for ip in items)
        ),
        "images": st.lists(st.just({"names": ["a"], "sizeBytes": 3}), max_size=2),
    },
).map(lambda tree: msgspec.convert(tree, NodeStatus))


def tree(status: PodStatus | NodeStatus) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(status))


def patched(kind: str, stored: PodStatus | NodeStatus, patch: dict[str, Any]) -> Any:
    document = apply(kind, {"status": tree(stored)}, {"status": patch})
    return msgspec.convert(document.get("status", {}), type(stored))


def by_type(status: PodStatus | NodeStatus) -> PodStatus | NodeStatus:
    """Sort the conditions: a server keeps the order that it has."""
    ordered = tuple(sorted(status.conditions, key=lambda condition: condition.type))
    return msgspec.structs.replace(status, conditions=ordered)


@given(pod_statuses, pod_statuses)
def test_a_patched_pod_status_is_the_new_one(before: PodStatus, after: PodStatus) -> None:
    patch = status_patch(before, after)
    assert by_type(patched("Pod", before, patch)) == by_type(after)
    assert bool(patch) == (before != after)


@given(node_statuses, node_statuses)
def test_a_patched_node_status_is_the_new_one(before: NodeStatus, after: NodeStatus) -> None:
    assert by_type(patched("Node", before, status_patch(before, after))) == by_type(after)


def test_conditions_that_others_write_at_the_same_time_stay() -> None:
    before = msgspec.convert({"conditions": [{"type": "Ready", "status": "False"}]}, PodStatus)
    after = msgspec.convert({"conditions": [{"type": "Ready", "status": "True"}]}, PodStatus)
    other = {"type": "example.com/gate", "status": "True"}
    stored = msgspec.convert({"conditions": [*tree(before)["conditions"], other]}, PodStatus)
    result = patched("Pod", stored, status_patch(before, after))
    assert {item.type: item.status for item in result.conditions} == {
        "Ready": "True",
        "example.com/gate": "True",
    }


def test_only_what_differs_is_sent() -> None:
    before = PodStatus(phase="Pending", podIP="10.0.0.1")
    assert status_patch(before, PodStatus(phase="Running", podIP="10.0.0.1")) == {
        "phase": "Running"
    }
    assert status_patch(before, PodStatus(phase="Pending")) == {"podIP": None}
