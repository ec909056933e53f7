"""Files whose pods wait for their node."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from why_world import manifest_of, pod_text

from podtui.api.local import ManifestState
from podtui.api.v1 import Node, NodeCondition, NodeStatus, ObjectMeta
from podtui.why import Health
from podtui.why.diagnose import diagnose_waiting

CHECK_PENDING = "container runtime status check may not have completed yet"
TRIED = "container runtime not ready: no container engine answers; tried:\n  unix:///a: none"


def node(message: str, status: str = "False", reason: str = "KubeletNotReady") -> Node:
    ready = NodeCondition(
        type="Ready", status=status, reason=reason, message=message,
        lastTransitionTime="2026-01-01T00:00:00Z",
    )  # fmt: skip
    return Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(conditions=(ready,)))


@pytest.mark.parametrize(
    ("message", "title", "evidence"),
    [
        (f"[{CHECK_PENDING}, {TRIED}]", "no container engine answers", TRIED),
        (f"[container runtime is down, {TRIED}]", "container runtime is down", TRIED),
        (CHECK_PENDING, CHECK_PENDING, CHECK_PENDING),
        ("PLEG is not healthy: pleg has yet to be successful", "PLEG", "PLEG is not healthy"),
        ("", "KubeletNotReady", "KubeletNotReady"),
    ],
)
def test_a_pod_that_cannot_start_reports_missing_node_conditions(
    message: str, title: str, evidence: str
) -> None:
    diagnosis = diagnose_waiting(manifest_of(pod_text())[0], node(message))
    assert diagnosis is not None
    assert (diagnosis.cause, diagnosis.health) == ("NodeNotReady", Health.PENDING)
    assert diagnosis.title.startswith("It waits for the node n1, which is not ready: ")
    assert title in diagnosis.title
    assert "\n" not in diagnosis.title
    assert evidence in diagnosis.evidence[0].text
    assert diagnosis.evidence[0].time == "2026-01-01T00:00:00Z"
    assert ("doctor" in diagnosis.advice) is ("runtime" in message)


def test_empty_reasons_are_omitted_if_others_follow() -> None:
    diagnosis = diagnose_waiting(manifest_of(pod_text())[0], node(f"[{CHECK_PENDING}, {TRIED}]"))
    assert diagnosis is not None
    assert CHECK_PENDING not in diagnosis.title + diagnosis.evidence[0].text
    assert diagnosis.evidence[0].text.endswith("none")


def test_no_reason_is_given_for_pods_about_to_start() -> None:
    manifest = manifest_of(pod_text())[0]
    assert diagnose_waiting(manifest, None) is None
    assert diagnose_waiting(manifest, node("", "True")) is None
    assert diagnose_waiting(manifest, Node(metadata=ObjectMeta(name="n1"))) is None
    status = replace(manifest.status, state=ManifestState.INVALID)
    assert diagnose_waiting(replace(manifest, status=status), node("no engine")) is None


def test_a_clash_of_two_agents_is_not_advised_to_start_the_engine() -> None:
    text = "container runtime not ready: another agent has pod web"
    diagnosis = diagnose_waiting(manifest_of(pod_text())[0], node(text, reason="AgentClash"))
    assert diagnosis is not None
    assert diagnosis.advice.startswith("Two agents cannot run the same pods")
