"""Restart policies, rules and counts."""

from __future__ import annotations

import pytest
from pod_builders import created, ctr, down, make_pod, seen, unknown, up

from podtui.kubelet.containers.restart import (
    ExitDecision,
    exit_decision,
    may_restart,
    restart_all_triggers,
    should_restart,
)


def rule(action, operator, *values):
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (None, True),
        (up(), False),
        (created(), True),
        (unknown(), True),
        (down("c", 0), True),
        (down("c", 1), True),
    ],
)
def test_by_state_under_always(observed, expected):
    pod = make_pod()
    assert should_restart(pod, pod.spec.containers[0], observed) is expected


@pytest.mark.parametrize("observed", [None, up(), created(), unknown(), down("c", 1)])
def test_a_pod_marked_for_deletion_starts_nothing(observed):
    pod = make_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert not should_restart(pod, pod.spec.containers[0], observed)


@pytest.mark.parametrize(
    ("rules", "policy", "pod_policy", "code", "expected"),
    [
        # Case 59.
        ([rule("Restart", "In", 42)], "Never", "Never", 42, "Restart"),
        ([rule("Restart", "In", 42)], "Never", "Never", 1, "Stop"),
        ([rule("Restart", "NotIn", 0, 1)], "Never", "Never", 2, "Restart"),
        ([rule("Restart", "NotIn", 0, 1)], "Never", "Never", 1, "Stop"),
        # The first matching rule applies.
        (
            [rule("RestartAllContainers", "In", 9), rule("Restart", "In", 9)],
            "Never",
            "Never",
            9,
            "RestartAllContainers",
        ),
        (
            [rule("Restart", "In", 9), rule("RestartAllContainers", "In", 9)],
            "Never",
            "Never",
            9,
            "Restart",
        ),
        # No match: the container's policy, not the pod's.
        ([rule("Restart", "In", 42)], "Always", "Never", 1, "Restart"),
        ([rule("Restart", "In", 42)], "OnFailure", "Always", 0, "Stop"),
        ([], "Never", "Always", 1, "Stop"),
        ([], "OnFailure", "Never", 1, "Restart"),
        # Rules without a container policy are invalid and ignored.
        ([rule("Restart", "In", 42)], "", "Never", 42, "Stop"),
        ([], "", "OnFailure", 0, "Stop"),
        ([], "", "OnFailure", 3, "Restart"),
        ([], "", "Always", 0, "Restart"),
    ],
)
def test_rules_come_before_policies(rules, policy, pod_policy, code, expected):
    fields = {"restartPolicyRules": rules} | ({"restartPolicy": policy} if policy else {})
    pod = make_pod(ctr(**fields), restartPolicy=pod_policy)
    assert exit_decision(pod, pod.spec.containers[0], code) == ExitDecision(expected)


@pytest.mark.parametrize(
    ("own", "pods", "expected"),
    [
        ("", "Always", True),
        ("", "OnFailure", True),
        ("", "Never", False),
        ("Never", "Always", False),
        ("Always", "Never", True),
    ],
)
def test_may_restart(own, pods, expected):
    fields = {"restartPolicy": own} if own else {}
    pod = make_pod(ctr(**fields), restartPolicy=pods)
    assert may_restart(pod, pod.spec.containers[0]) is expected


def test_restart_triggers_come_from_the_newest_instance():
    again = [rule("RestartAllContainers", "In", 9)]
    pod = make_pod(
        ctr("a", restartPolicy="Never", restartPolicyRules=again),
        ctr("b", restartPolicy="Never", restartPolicyRules=again),
    )
    assert restart_all_triggers(pod, seen(down("a", 9), up("b"))) == ("a",)
    assert restart_all_triggers(pod, seen(up("a", count=1), down("a", 9), up("b"))) == ()
    assert restart_all_triggers(pod, seen(down("a", 1), up("b"))) == ()
    assert restart_all_triggers(make_pod(), seen(down("c", 9))) == ()
