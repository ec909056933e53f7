"""Diagnoses of Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

import pytest
from why_objects import (
    crashing_pod,
    event,
    inventory,
    make,
    ready_pod,
    starting_pod,
    template,
    unschedulable_pod,
)

from podtui.why import Diagnosis, Health, Kind
from podtui.why.objects import diagnose_object
from podtui.why.workloads import node_obstacle

QUOTA = (
    'pods "web-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2,'
    " limited: pods=2"
)


def deployment(*conditions: dict[str, Any], name: str = "web", status: dict[str, Any] | None = None,
               **spec: Any) -> Any:  # fmt: skip
    return make(
        "Deployment", name, meta={"generation": 2},
        spec={"replicas": 2, "selector": {"matchLabels": {"app": name}},
              "template": template({"app": name}), "progressDeadlineSeconds": 600, **spec},
        status={"observedGeneration": 2, "conditions": list(conditions), **(status or {})},
    )  # fmt: skip


def replica_set(owner: Any, name: str, revision: int = 1, **status: Any) -> Any:
    return make(
        "ReplicaSet", name, owner=owner,
        meta={"annotations": {"deployment.kubernetes.io/revision": str(revision)}},
        spec={"replicas": 2, "template": template()}, status={"replicas": 2, **status},
    )  # fmt: skip


def condition(
    name: str, status: str, reason: str, message: str = "", **more: str
) -> dict[str, Any]:
    return {"type": name, "status": status, "reason": reason, "message": message, **more}


def counts(updated: int, available: int, total: int | None = None) -> dict[str, int]:
    total = updated if total is None else total
    return {"updatedReplicas": updated, "availableReplicas": available, "replicas": total}


def why(item: Any, *others: Any) -> Diagnosis:
    return diagnose_object(inventory(item, *others), item)


def test_a_complete_deployment_is_as_desired() -> None:
    diagnosis = why(deployment(status=counts(2, 2)))
    assert (diagnosis.kind, diagnosis.health) == (Kind.NONE, Health.RUNNING)
    assert diagnosis.title == "All 2 pods are up to date and available."


def test_a_deployment_without_replicas_is_scaled_to_0() -> None:
    assert why(deployment(replicas=0)).state == "scaled to 0"


def test_a_stuck_rollout_names_the_condition_the_pods_and_the_way_back() -> None:
    item = deployment(
        condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
        status=counts(1, 2, 3),
    )
    old, new = replica_set(item, "web-1"), replica_set(item, "web-2", 2)
    bad = crashing_pod("web-2-a", new)
    diagnosis = why(item, old, new, ready_pod("web-1-a", old), ready_pod("web-1-b", old), bad)
    assert diagnosis.cause == "ProgressDeadlineExceeded"
    assert diagnosis.kind is Kind.FAILURE
    assert "1 of 2 pods updated, 2 available, 2 of an earlier revision." in diagnosis.sentences
    assert [part.name for part in diagnosis.parts] == ["pod/web-2-a"]
    assert "code 3" in diagnosis.parts[0].diagnosis.title
    assert "kubectl rollout undo deploy/web -n default" in diagnosis.advice
    assert diagnosis.evidence[0].text == "Progressing: ProgressDeadlineExceeded: timed out"


def test_pods_with_the_same_cause_are_one_part() -> None:
    item = deployment(status=counts(2, 0))
    owned = replica_set(item, "web-1")
    pods = [crashing_pod(f"web-1-{letter}", owned) for letter in "abc"]
    diagnosis = why(item, owned, *pods)
    assert diagnosis.cause == "FewerAvailable"
    assert diagnosis.health is Health.FAILING
    [part] = diagnosis.parts
    assert (part.name, part.more) == ("pod/web-1-a", ("pod/web-1-b", "pod/web-1-c"))


def test_failures_come_before_waits() -> None:
    item = deployment(status=counts(2, 0))
    owned = replica_set(item, "web-1")
    diagnosis = why(item, owned, starting_pod("web-1-a", owned), crashing_pod("web-1-b", owned))
    assert [part.name for part in diagnosis.parts] == ["pod/web-1-b", "pod/web-1-a"]


def test_a_rollout_in_progress_only_waits() -> None:
    item = deployment(
        condition("Progressing", "True", "ReplicaSetUpdated",
                  lastUpdateTime="2026-11-20T11:59:00Z"),
        status=counts(1, 2, 3),
    )  # fmt: skip
    new = replica_set(item, "web-2", 2)
    diagnosis = why(item, new, starting_pod("web-2-a", new))
    assert (diagnosis.cause, diagnosis.kind) == ("RollingOut", Kind.WAIT)
    assert "The progress deadline is in 9m." in diagnosis.sentences


def test_ready_pods_wait_for_min_ready_seconds() -> None:
    item = deployment(status=counts(1, 0), replicas=1, minReadySeconds=3600)
    owned = replica_set(item, "web-1")
    diagnosis = why(item, owned, ready_pod("web-1-a", owned, since="2026-11-20T11:59:00Z"))
    text = "web-1-a is ready, and count as available after minReadySeconds (3600 s)."
    assert text.replace("count", "counts") in diagnosis.sentences


def test_a_paused_deployment_says_how_to_resume_it() -> None:
    diagnosis = why(deployment(paused=True, status=counts(0, 2, 2)))
    assert (diagnosis.cause, diagnosis.state) == ("Paused", "paused")
    assert diagnosis.advice == "kubectl rollout resume deploy/web -n default"


def test_a_complete_paused_deployment_is_as_desired() -> None:
    diagnosis = why(deployment(paused=True, status=counts(2, 2)))
    assert diagnosis.kind is Kind.NONE
    assert diagnosis.sentences == ("It is paused: changes of its pod template are not rolled out.",)


def test_recreate_waits_for_terminating_pods() -> None:
    item = deployment(strategy={"type": "Recreate"}, status=counts(0, 0, 0))
    old, new = replica_set(item, "web-1"), replica_set(item, "web-2", 2)
    meta = {"deletionTimestamp": "2026-11-20T12:00:20Z"}
    diagnosis = why(item, old, new, ready_pod("web-1-a", old, meta=meta))
    assert diagnosis.cause == "RecreateWaits"
    assert diagnosis.sentences == (
        "Still terminating: web-1-a.", "Their grace period ends in 20s.",
    )  # fmt: skip


def test_a_quota_is_named_with_its_usage() -> None:
    quota = make("ResourceQuota", "few", status={"hard": {"pods": "2"}, "used": {"pods": "2"}})
    diagnosis = why(deployment(condition("ReplicaFailure", "True", "FailedCreate", QUOTA)), quota)
    assert diagnosis.cause == "QuotaExceeded"
    assert "pods: 2 of 2 used, 1 more requested." in diagnosis.sentences
    assert "Used now: pods 2 of 2." in diagnosis.sentences


def test_an_unobserved_change_is_reported_as_such() -> None:
    item = make("Deployment", "web", meta={"generation": 2}, spec={"template": template()})
    diagnosis = why(item)
    assert (diagnosis.cause, diagnosis.kind) == ("NotObserved", Kind.WAIT)


def test_a_deleted_object_names_its_finalizers() -> None:
    meta = {"deletionTimestamp": "2026-11-20T12:00:00Z", "finalizers": ["foregroundDeletion"]}
    item = make("Deployment", "web", meta=meta, spec={"template": template()})
    diagnosis = why(item)
    assert diagnosis.kind is Kind.TERMINATION
    assert diagnosis.sentences == ("It waits for its finalizers: foregroundDeletion.",)


def test_a_replica_set_names_its_deployment() -> None:
    item = deployment(status=counts(2, 2))
    owned = replica_set(item, "web-1", availableReplicas=2)
    assert why(owned, item).sentences == ("It belongs to deploy/web.",)


def test_a_replica_set_with_fewer_pods_explains_them() -> None:
    item = make("ReplicaSet", "web", spec={"replicas": 2, "template": template()},
                status={"replicas": 2, "availableReplicas": 1})  # fmt: skip
    diagnosis = why(item, ready_pod("web-a", item), crashing_pod("web-b", item))
    assert diagnosis.title == "1 of 2 pods available, 2 exist."
    assert [part.name for part in diagnosis.parts] == ["pod/web-b"]


def test_a_replication_controller_is_explained_too() -> None:
    item = make("ReplicationController", "rc", spec={"replicas": 1},
                status={"replicas": 1, "availableReplicas": 1})  # fmt: skip
    assert why(item).title == "The pod is available."


# --- StatefulSets


def stateful_set(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    return make("StatefulSet", "db", spec={"replicas": 3, "template": template(), **spec},
                status={"replicas": 1, **(status or {})})  # fmt: skip


def test_an_ordered_stateful_set_waits_for_the_first_pod_that_is_not_ready() -> None:
    item = stateful_set()
    diagnosis = why(item, ready_pod("db-0", item), crashing_pod("db-1", item))
    assert diagnosis.cause == "OrderedWait"
    assert diagnosis.title == "It waits for the pod db-1 (1 of 3 pods available)."
    assert "db-2 will be created" in diagnosis.sentences[0]
    assert diagnosis.parts[0].name == "pod/db-1"


def test_a_parallel_stateful_set_waits_for_no_order() -> None:
    item = stateful_set(podManagementPolicy="Parallel")
    pods = [ready_pod("db-0", item), starting_pod("db-1", item), starting_pod("db-2", item)]
    diagnosis = why(item, *pods)
    assert (diagnosis.cause, diagnosis.kind) == ("FewerAvailable", Kind.WAIT)


def test_ordinals_begin_where_the_spec_says() -> None:
    item = stateful_set(replicas=1, ordinals={"start": 5})
    assert why(item, ready_pod("db-5", item)).kind is Kind.NONE
    assert why(item).title == "The pod db-5 does not exist yet (0 of 1 pod available)."


def test_a_stateful_set_explains_why_its_pod_cannot_be_created() -> None:
    item = stateful_set()
    text = f"create Pod db-0 in StatefulSet db failed error: {QUOTA}"
    assert why(item, event(item, "FailedCreate", text)).cause == "QuotaExceeded"
    created = event(item, "SuccessfulCreate", "create Pod db-0", at="2026-11-20T12:00:05Z")
    assert why(item, event(item, "FailedCreate", text), created).cause != "QuotaExceeded"


def test_surplus_pods_end_in_order() -> None:
    item = stateful_set(replicas=1)
    diagnosis = why(item, *(ready_pod(f"db-{n}", item) for n in range(3)))
    assert diagnosis.title == "It is scaling down to 1 pod: db-2, db-1 still to end."


def test_two_surplus_pods_that_are_not_available_block_each_other() -> None:
    item = stateful_set(replicas=1)
    zero, one = ready_pod("db-0", item), crashing_pod("db-1", item)
    diagnosis = why(item, zero, one, crashing_pod("db-2", item))
    assert (diagnosis.cause, diagnosis.kind) == ("ScaleDownBlocked", Kind.FAILURE)
    assert diagnosis.title == ("It cannot scale down to 1 pod: neither db-2 nor db-1 is available.")
    assert diagnosis.advice == "Delete it: kubectl delete pod db-1 -n default"
    assert why(item, zero, ready_pod("db-1", item), crashing_pod("db-2", item)).cause == (
        "ScalingDown"
    )


@pytest.mark.parametrize(
    ("strategy", "cause", "kind"),
    [
        ({"type": "OnDelete"}, "OnDelete", Kind.WAIT),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, "AsDesired", Kind.NONE),
        ({"type": "RollingUpdate"}, "RollingOut", Kind.WAIT),
    ],
)
def test_pods_of_an_earlier_revision_depend_on_the_strategy(
    strategy: dict[str, Any], cause: str, kind: Kind
) -> None:
    item = stateful_set({"updateRevision": "db-2"}, updateStrategy=strategy)
    labels = {"controller-revision-hash": "db-1"}
    diagnosis = why(item, *(ready_pod(f"db-{n}", item, labels=labels) for n in range(3)))
    assert (diagnosis.cause, diagnosis.kind) == (cause, kind)


def test_a_broken_pod_of_an_earlier_revision_has_to_be_deleted() -> None:
    item = stateful_set({"updateRevision": "db-3"})
    stale = crashing_pod("db-2", item, labels={"controller-revision-hash": "db-2"})
    diagnosis = why(item, ready_pod("db-0", item), ready_pod("db-1", item), stale)
    assert "kubectl delete pod db-2 -n default" in diagnosis.advice


# --- DaemonSets


def daemon_set(wanted: int, available: int, **spec: Any) -> Any:
    status = {"currentNumberScheduled": wanted, "desiredNumberScheduled": wanted,
              "numberMisscheduled": 0, "numberReady": available, "numberAvailable": available,
              "updatedNumberScheduled": wanted}  # fmt: skip
    return make("DaemonSet", "agent", spec={"template": template(**spec)}, status=status)


def node(**labels: str) -> Any:
    return make("Node", "n1", labels=labels)


def test_a_daemon_set_without_a_node_names_the_label_and_the_command() -> None:
    diagnosis = why(daemon_set(0, 0, nodeSelector={"gpu": "yes"}), node())
    assert (diagnosis.cause, diagnosis.health) == ("NoNodeFits", Health.PENDING)
    assert diagnosis.sentences == ("No pod on n1: the node lacks the label gpu=yes.",)
    assert diagnosis.node_labels == (("gpu", "yes"),)
    assert diagnosis.advice == "Label the node: kubectl label node n1 gpu=yes"


def test_a_daemon_set_names_the_taint() -> None:
    taints = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    tainted = make("Node", "n1", spec={"taints": taints})
    diagnosis = why(daemon_set(0, 0), tainted)
    text = "No pod on n1: it does not tolerate the taint dedicated=db:NoSchedule."
    assert diagnosis.sentences == (text,)


@pytest.mark.parametrize(
    ("key", "effect", "fits"),
    [
        ("node.kubernetes.io/not-ready", "NoExecute", True),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", True),
        ("node.kubernetes.io/unschedulable", "NoSchedule", True),
        ("other", "NoSchedule", False),
        ("other", "PreferNoSchedule", True),
    ],
)
def test_daemon_pods_tolerate_the_taints_of_conditions(key: str, effect: str, fits: bool) -> None:
    tainted = make("Node", "n1", spec={"taints": [{"key": key, "effect": effect}]})
    item = daemon_set(1, 1)
    assert (node_obstacle(item.spec.template.spec, tainted) == "") is fits


def test_a_daemon_set_with_a_failing_pod_explains_it() -> None:
    item = daemon_set(1, 0)
    diagnosis = why(item, node(), crashing_pod("agent-x", item))
    assert diagnosis.title == "Its pods are available on 0 of 1 node."
    assert diagnosis.parts[0].name == "pod/agent-x"


# --- pods


def test_a_pod_names_its_owners() -> None:
    item = deployment(status=counts(1, 1))
    owned = replica_set(item, "web-1")
    pod = crashing_pod("web-1-a", owned)
    assert why(pod, item, owned).sentences[-1] == "It belongs to rs/web-1 of deploy/web."


def test_a_pod_that_waits_for_a_claim_explains_the_claim() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
    claim = make("PersistentVolumeClaim", "data", spec={"storageClassName": "fast"},
                 status={"phase": "Pending"})  # fmt: skip
    diagnosis = why(unschedulable_pod("db", message, volumes=[volume]), claim)
    assert "not found" not in diagnosis.title
    assert [(part.name, part.diagnosis.cause) for part in diagnosis.parts] == [
        ("pvc/data", "ClassMissing")
    ]
