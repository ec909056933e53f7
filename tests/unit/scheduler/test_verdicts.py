"""Verdicts: recorded ones of kube-scheduler v1.36.2, and the cases behind them one by one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from scheduler_world import (
    HOST,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_volume,
    claims_of,
    pending,
    snapshot,
    with_claims,
)

from podtui.api.claims import SELECTED_NODE
from podtui.api.v1 import Node, PersistentVolumeClaimStatus, Pod
from podtui.scheduler.claims import NO_ACCESS, NO_VOLUME, VOLUME_GONE, ClaimPlan
from podtui.scheduler.cycle import ScheduleResult, schedule
from podtui.scheduler.filters import CLAIM_IN_USE, Pending

RECORDED = Path(__file__).with_name("verdicts.jsonl.gz")
NO_CLAIMS = "no new claims to deallocate, preemption:"
NO_HELP = f"{NO_CLAIMS} 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def recorded() -> Iterator[dict[str, Any]]:
    """Yield random clusters, each with the verdict of kube-scheduler's own plugins."""
    with gzip.open(RECORDED, "rt") as lines:
        yield from map(json.loads, lines)


def test_recorded_verdicts() -> None:
    kinds = {"scored": 0, "only": 0, "preempted": 0, "refused": 0}
    for number, case in enumerate(recorded()):
        pods = [msgspec.convert(one, Pod) for one in case["pods"]]
        found = schedule(
            Pending(msgspec.convert(case["pod"], Pod)),
            snapshot(
                *(msgspec.convert(one, Node) for one in case["nodes"]),
                pods=tuple(pods),
                nominated=tuple(msgspec.convert(one, Pod) for one in case.get("nominated", ())),
                **{
                    one["metadata"]["name"]: one["metadata"].get("labels", {})
                    for one in case["namespaces"]
                },
            ),
        )
        wanted = case["verdict"]
        assert found.message == wanted.get("message", ""), number
        assert sorted(found.plugins) == (wanted.get("plugins") or []), number
        assert found.nominated == wanted.get("nominated"), number
        assert found.scores == wanted.get("scores", {}), number
        assert bool(found.node) == ("nodes" in wanted), number
        if found.node:
            assert found.node in wanted["nodes"], number
        # A victim that is being deleted already is not deleted again.
        doomed = {pod.metadata.name for pod in pods if pod.metadata.deletionTimestamp}
        victims = sorted({one.name for one in found.victims} - doomed)
        assert victims == wanted.get("victims", []), number
        kind = "scored" if found.scores else "only" if found.node else ""
        kinds[kind or ("preempted" if victims else "refused")] += 1
    assert all(count >= 20 for count in kinds.values()), kinds


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"cpu": "900"}, "1 Insufficient cpu"),
        ({"nodeSelector": {"disk": "ssd"}}, "1 node(s) didn't match Pod's node affinity/selector"),
        ({"ports": (80,)}, "1 node(s) didn't have free ports for the requested pod ports"),
    ],
)
def test_a_pod_that_fits_nowhere(pod: dict[str, Any], reason: str) -> None:
    there = a_pod("there", node="n1", ports=(80,))
    found = schedule(pending(**pod), snapshot(a_node(), pods=(there,)))
    assert found.node == ""
    assert found.message.startswith(f"0/1 nodes are available: {reason}. {NO_CLAIMS}")


def test_message_for_a_too_large_pod() -> None:
    found = schedule(pending(cpu="900"), snapshot(a_node()))
    assert found.message == f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
    assert found.nominated == ""


def test_message_for_a_cordoned_node() -> None:
    node = a_node(spec={"unschedulable": True})
    found = schedule(pending(), snapshot(node))
    assert found.message == f"0/1 nodes are available: 1 node(s) were unschedulable. {NO_HELP}"
    assert found.plugins == {"NodeUnschedulable"}
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert schedule(pending(tolerations=[toleration]), snapshot(node)).node == "n1"


def test_message_without_nodes() -> None:
    found = schedule(pending(), snapshot())
    assert (found.message, found.plugins) == ("no nodes available to schedule pods", frozenset())


def test_reasons_are_counted_and_sorted() -> None:
    nodes = (a_node("n1"), a_node("n2"), a_node("n3", spec={"unschedulable": True}))
    found = schedule(pending(cpu="3"), snapshot(*nodes))
    assert found.message.startswith(
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. "
    )


def test_a_missing_claim() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    found = schedule(pending(volumes=[volume]), snapshot(a_node()))
    assert found.message == (
        '0/1 nodes are available: persistentvolumeclaim "disk" not found. not found'
    )


LOST = PersistentVolumeClaimStatus(phase="Lost")
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ELSEWHERE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n2"]}]}
        ]
    }
}


def verdict(*items: Any, pods: tuple[Pod, ...] = (), **more: Any) -> ScheduleResult:
    """Schedule a pod with the claim ``disk`` on the only node."""
    pod = pending(volumes=with_claims("disk"), **more)
    return schedule(pod, replace(snapshot(a_node(), pods=pods), claims=claims_of(*items)))


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ((a_claim(), a_class(mode="Immediate")), UNBOUND),
        ((a_claim(), a_class(provisioner="example.com/p", mode="Immediate")), UNBOUND),
        ((a_claim(),), UNBOUND),  # The class does not exist.
        ((a_claim(storageClassName=""),), UNBOUND),
        (
            (a_claim(volumeName="pv", metadata=DELETED), a_volume()),
            'persistentvolumeclaim "disk" is being deleted',
        ),
        (
            (structs.replace(a_claim(volumeName="pv"), status=LOST),),
            'persistentvolumeclaim "disk" bound to non-existent persistentvolume "pv"',
        ),
        ((a_claim(volumeName="pv"),), f"1 {VOLUME_GONE}"),
        ((a_claim(volumeName="pv"), a_volume(nodeAffinity=ELSEWHERE)), f"1 {NO_ACCESS}"),
        ((a_claim(), a_class()), f"1 {NO_VOLUME}"),
        ((a_claim(size="2Gi"), a_class(), a_volume()), f"1 {NO_VOLUME}"),
        ((a_claim(), a_class(), a_volume(accessModes=["ReadOnlyMany"])), f"1 {NO_VOLUME}"),
        ((a_claim(), a_class(), a_volume(nodeAffinity=ELSEWHERE)), f"1 {NO_VOLUME}"),
        (
            (a_claim(annotations={SELECTED_NODE: "n2"}), a_class(provisioner="example.com/p")),
            f"1 {NO_VOLUME}",
        ),
        (
            (
                a_claim(),
                a_class(
                    provisioner="example.com/p",
                    allowedTopologies=[
                        {"matchLabelExpressions": [{"key": HOST, "values": ["n2"]}]}
                    ],
                ),
            ),
            f"1 {NO_VOLUME}",
        ),
    ],
)
def test_why_a_claim_keeps_a_pod_from_the_node(items: tuple[Any, ...], reason: str) -> None:
    result = verdict(*items)
    assert result.message.startswith(f"0/1 nodes are available: {reason}.")
    assert result.plugins == {"VolumeBinding"}


def test_a_pod_whose_claims_are_bound() -> None:
    result = verdict(a_claim(volumeName="pv"), a_volume())
    assert (result.node, result.claims) == ("n1", ClaimPlan())


def test_the_smallest_volume_that_the_node_reaches_is_reserved() -> None:
    here = msgspec.to_builtins(ELSEWHERE)
    here["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = ["n1"]
    volumes = (
        a_volume("large", "3Gi"),
        a_volume("far", "1Gi", nodeAffinity=ELSEWHERE),
        a_volume("near", "2Gi", nodeAffinity=here),
        a_volume("other", "1Gi", storageClassName="d"),
    )
    result = verdict(a_claim(), a_class(), *volumes)
    assert result.node == "n1"
    ((chosen, claim),) = result.claims.reservations
    assert (chosen.metadata.name, claim.metadata.name) == ("near", "disk")


def test_a_volume_that_is_reserved_for_the_claim_comes_first() -> None:
    ref = {"namespace": "default", "name": "disk"}
    mine = a_volume("mine", "9Gi", claimRef=ref)
    ((chosen, _),) = verdict(a_claim(), a_class(), a_volume(), mine).claims.reservations
    assert chosen.metadata.name == "mine"
    far = a_volume("mine", "9Gi", claimRef=ref, nodeAffinity=ELSEWHERE)
    assert NO_VOLUME in verdict(a_claim(), a_class(), a_volume(), far).message


def test_two_claims_of_a_pod_get_different_volumes() -> None:
    pod = pending(volumes=with_claims("large", "small"))
    items = (a_class(), a_claim("large", "2Gi"), a_claim("small"), a_volume("p", "2Gi"))
    world = snapshot(a_node())
    refused = schedule(pod, replace(world, claims=claims_of(*items)))
    assert NO_VOLUME in refused.message
    fits = schedule(pod, replace(world, claims=claims_of(*items, a_volume("q", "2Gi"))))
    pairs = [(v.metadata.name, c.metadata.name) for v, c in fits.claims.reservations]
    assert pairs == [("p", "small"), ("q", "large")]


def test_a_claim_without_a_volume_is_provisioned_for_the_node() -> None:
    result = verdict(a_claim(), a_class(provisioner="example.com/p"))
    assert result.node == "n1"
    assert [claim.metadata.name for claim in result.claims.provisions] == ["disk"]


def test_one_pod_at_a_time_uses_an_exclusive_claim() -> None:
    exclusive = a_claim(volumeName="pv", accessModes=["ReadWriteOncePod"])
    user = a_pod("user", node="n1", volumes=with_claims("disk"))
    result = verdict(exclusive, a_volume(), pods=(user,))
    assert result.message.startswith(f"0/1 nodes are available: 1 {CLAIM_IN_USE}.")
    assert result.plugins == {"VolumeRestrictions"}
    # Several pods on a node may use a claim of any other mode.
    assert verdict(a_claim(volumeName="pv"), a_volume(), pods=(user,)).node == "n1"
    elsewhere = a_pod("user", node="n1", volumes=with_claims("disk"), metadata={"namespace": "o"})
    assert verdict(exclusive, a_volume(), pods=(elsewhere,)).node == "n1"
    preempting = verdict(exclusive, a_volume(), pods=(user,), priority=100)
    assert [victim.name for victim in preempting.victims] == ["user"]


def test_an_ephemeral_claim_belongs_to_its_pod() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volume = {"name": "disk", "ephemeral": {"volumeClaimTemplate": template}}
    pod = pending(volumes=[volume])
    missing = schedule(pod, snapshot(a_node()))
    assert "waiting for ephemeral volume controller to create the" in missing.message
    foreign = claims_of(a_claim("web-disk", volumeName="pv"), a_volume())
    result = schedule(pod, replace(snapshot(a_node()), claims=foreign))
    assert "PVC default/web-disk was not created for pod default/web (pod is not owner)" in (
        result.message
    )


def test_the_emptier_node_is_chosen() -> None:
    busy = a_pod("busy", cpu="1", node="n1")
    found = schedule(pending(cpu="500m"), snapshot(a_node("n1"), a_node("n2"), pods=(busy,)))
    assert found.node == "n2"
    assert found.scores["n2"] > found.scores["n1"]


def test_anti_affinity_keeps_one_pod_per_host() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    first = a_pod("first", labels={"app": "db"}, node="n1", affinity=apart)
    alone = snapshot(a_node("n1"), pods=(first,))
    found = schedule(pending(labels={"app": "db"}, affinity=apart), alone)
    assert "1 node(s) didn't match pod anti-affinity rules" in found.message
    found = schedule(pending(labels={"app": "db"}), alone)
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in found.message
    both = snapshot(a_node("n1"), a_node("n2"), pods=(first,))
    assert schedule(pending(labels={"app": "db"}, affinity=apart), both).node == "n2"


def test_preemption_selects_the_lowest_priorities() -> None:
    old = a_pod("old", cpu="1", node="n1", status={"startTime": "2026-01-01T00:00:00Z"})
    new = a_pod("new", cpu="1", node="n1", status={"startTime": "2026-01-02T00:00:00Z"})
    found = schedule(pending(cpu="1", priority=10), snapshot(a_node(), pods=(old, new)))
    assert (found.nominated, [one.name for one in found.victims]) == ("n1", ["new"])
    assert found.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_no_preemption_of_equals() -> None:
    there = a_pod("there", cpu="2", node="n1")
    found = schedule(pending(cpu="1"), snapshot(a_node(), pods=(there,)))
    assert found.victims == ()
    assert found.message.endswith("1 No preemption victims found for incoming pod.")


def test_a_pod_that_never_preempts() -> None:
    there = a_pod("there", cpu="2", node="n1")
    asking = pending(cpu="1", priority=10, preemptionPolicy="Never")
    found = schedule(asking, snapshot(a_node(), pods=(there,)))
    assert found.message.endswith(f"{NO_CLAIMS} not eligible due to preemptionPolicy=Never.")
    assert found.nominated is None


def test_a_pod_waits_for_its_victims() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ending = a_pod(
        "ending",
        cpu="2",
        node="n1",
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"conditions": [condition]},
    )
    asking = pending(cpu="1", priority=10, status={"nominatedNodeName": "n1"})
    found = schedule(asking, snapshot(a_node(), pods=(ending,)))
    assert found.message.endswith("not eligible due to a terminating pod on the nominated node.")


def test_a_node_is_kept_free_for_a_nominated_pod() -> None:
    waiting = a_pod("waiting", cpu="2", priority=10, status={"nominatedNodeName": "n1"})
    cluster = snapshot(a_node(), nominated=(waiting,))
    assert schedule(pending(cpu="1"), cluster).node == ""
    assert schedule(pending(cpu="1", priority=11), cluster).node == "n1"
