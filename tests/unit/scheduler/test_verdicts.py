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
from scheduler_world import HOST, a_node, a_pod, pending, snapshot

from podtui.api.storage import StorageClass
from podtui.api.v1 import Node, PersistentVolumeClaim, Pod
from podtui.scheduler.claims import Claims, by_key
from podtui.scheduler.cycle import schedule
from podtui.scheduler.filters import Pending

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


def claim(phase: str, **changes: Any) -> PersistentVolumeClaim:
    document = {
        "metadata": {"name": "disk", "namespace": "default"},
        "spec": {"storageClassName": "c"},
        "status": {"phase": phase},
    }
    return msgspec.convert({**document, **changes}, PersistentVolumeClaim)


DELETED = {
    "name": "disk",
    "namespace": "default",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("item", "mode", "reason"),
    [
        (claim("Bound"), "Immediate", ""),
        (claim("Pending"), "WaitForFirstConsumer", ""),
        (claim("Pending"), "Immediate", "pod has unbound immediate PersistentVolumeClaims"),
        (
            claim("Bound", metadata=DELETED),
            "Immediate",
            'persistentvolumeclaim "disk" is being deleted',
        ),
        (
            claim("Lost", spec={"volumeName": "pv"}),
            "Immediate",
            'persistentvolumeclaim "disk" bound to non-existent persistentvolume "pv"',
        ),
    ],
)
def test_the_state_of_a_claim(item: PersistentVolumeClaim, mode: str, reason: str) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    classes = {"c": StorageClass(provisioner="p", volumeBindingMode=mode)}
    world = replace(snapshot(a_node()), claims=Claims(by_key([item]), classes))
    found = schedule(pending(volumes=[volume]), world)
    if reason:
        assert found.message.startswith(f"0/1 nodes are available: {reason}.")
    else:
        assert found.node


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
