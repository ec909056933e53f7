"""Queueing hints: which change makes a rejected pod worth a retry, by hand and recorded
from kube-scheduler v1.36.2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scheduler_world import HOST, a_node, a_pod, pending

from podtui.api.v1 import Node, Pod
from podtui.scheduler.claims import VOLUME_BINDING, VOLUME_RESTRICTIONS
from podtui.scheduler.filters import Pending
from podtui.scheduler.hints import (
    HINTS,
    Change,
    ClaimChange,
    NodeChange,
    OwnChange,
    PodChange,
    helps,
)
from podtui.scheduler.infos import node_facts, pod_info

TAINT = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST}
        ]
    }
}
NEAR = {"podAffinity": APART["podAntiAffinity"]}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "db"}},
}
DB = {"labels": {"app": "db"}}
DISK = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "disk"}}]}


def node(before: Node | None, after: Node | None) -> NodeChange:
    return NodeChange(before and node_facts(before), after and node_facts(after))


def came(pod: Pod) -> PodChange:
    return PodChange(None, pod_info(pod))


def went(pod: Pod) -> PodChange:
    return PodChange(pod_info(pod), None)


def there(**more: Any) -> Pod:
    return a_pod("there", node="n1", **more)


CASES: list[tuple[str, dict[str, Any], Change, bool]] = [
    ("NodeUnschedulable", {}, node(a_node(spec={"unschedulable": True}), a_node()), True),
    ("NodeUnschedulable", {}, node(a_node(), a_node(cpu="9")), False),
    ("NodeUnschedulable", {}, node(None, a_node()), True),
    ("NodeName", {}, node(None, a_node()), True),
    ("NodeName", {}, node(a_node(), a_node(cpu="9")), False),
    ("TaintToleration", {}, node(a_node(spec=TAINT), a_node()), True),
    ("TaintToleration", {}, node(a_node(), a_node(spec=TAINT)), False),
    ("TaintToleration", {}, went(there()), False),
    ("NodeAffinity", {"nodeSelector": {"a": "b"}}, node(a_node(), a_node(labels={"a": "b"})), True),
    ("NodeAffinity", {"nodeSelector": {"a": "b"}}, node(None, a_node()), False),
    ("NodePorts", {"ports": (80,)}, went(there(ports=(80,))), True),
    ("NodePorts", {"ports": (80,)}, went(there(ports=(81,))), False),
    ("NodePorts", {"ports": (80,)}, node(None, a_node()), True),
    ("NodeResourcesFit", {"cpu": "1"}, went(there()), True),
    ("NodeResourcesFit", {"cpu": "1"}, went(a_pod("pending")), False),
    ("NodeResourcesFit", {"cpu": "3"}, node(a_node(), a_node(cpu="4")), True),
    ("NodeResourcesFit", {"cpu": "5"}, node(a_node(), a_node(cpu="4")), False),
    ("NodeResourcesFit", {"cpu": "1"}, node(a_node(), a_node(memory="9Gi")), False),
    (
        "NodeResourcesFit",
        {"cpu": "1"},
        PodChange(pod_info(there(cpu="2")), pod_info(there(cpu="1"))),
        True,
    ),
    (
        "NodeResourcesFit",
        {"cpu": "1"},
        PodChange(pod_info(there(cpu="1")), pod_info(there(cpu="2"))),
        False,
    ),
    ("VolumeRestrictions", DISK, went(there(**DISK)), True),
    ("VolumeRestrictions", DISK, went(there()), False),
    ("VolumeBinding", {}, node(None, a_node()), True),
    ("VolumeBinding", {}, node(a_node(), a_node(labels={"zone": "a"})), True),
    ("VolumeBinding", {}, node(a_node(), a_node(cpu="9")), False),
    ("PodTopologySpread", {"topologySpreadConstraints": [SPREAD]}, came(there(**DB)), True),
    ("PodTopologySpread", {"topologySpreadConstraints": [SPREAD]}, came(there()), False),
    ("PodTopologySpread", {"topologySpreadConstraints": [SPREAD]}, node(a_node(), None), True),
    (
        "PodTopologySpread",
        {"topologySpreadConstraints": [SPREAD]},
        PodChange(pod_info(there()), pod_info(there(**DB))),
        True,
    ),
    ("InterPodAffinity", {"affinity": APART}, went(there(**DB)), True),
    ("InterPodAffinity", {"affinity": APART}, came(there(**DB)), False),
    ("InterPodAffinity", {"affinity": NEAR}, came(there(**DB)), True),
    ("InterPodAffinity", {"affinity": NEAR}, went(there(**DB)), False),
    ("InterPodAffinity", DB, went(there(affinity=APART)), True),
    ("InterPodAffinity", {"affinity": NEAR}, node(None, a_node()), True),
    ("InterPodAffinity", {}, node(None, a_node()), False),
    (
        "NodeDeclaredFeatures",
        {},
        node(a_node(), a_node(status={"declaredFeatures": ["F"]})),
        True,
    ),
    ("NodeDeclaredFeatures", {}, node(a_node(), a_node(cpu="9")), False),
]


@pytest.mark.parametrize(("plugin", "pod", "change", "wanted"), CASES)
def test_hints(plugin: str, pod: dict[str, Any], change: Change, wanted: bool) -> None:
    assert helps(pending(**pod), plugin, change) is wanted


@pytest.mark.parametrize(
    ("plugin", "update", "wanted"),
    [
        ("TaintToleration", {"tolerations": [{"key": "k", "operator": "Exists"}]}, True),
        ("TaintToleration", {"labels": {"a": "b"}}, False),
        ("NodeUnschedulable", {"tolerations": [{"key": "k", "operator": "Exists"}]}, False),
        ("NodeUnschedulable", {"tolerations": [{"operator": "Exists"}]}, True),
        ("InterPodAffinity", {"labels": {"a": "b"}}, True),
        ("NodeResourcesFit", {"labels": {"a": "b"}}, False),
    ],
)
def test_hints_of_own_updates(plugin: str, update: dict[str, Any], wanted: bool) -> None:
    change = OwnChange(a_pod(), a_pod(**update))
    assert helps(pending(**update), plugin, change) is wanted


def change_of(case: dict[str, Any]) -> Change:
    if case["kind"] == "node":
        nodes = [one and msgspec.convert(one, Node) for one in (case["before"], case["after"])]
        return node(*nodes)
    before, after = (one and msgspec.convert(one, Pod) for one in (case["before"], case["after"]))
    if case["kind"] == "own":
        return OwnChange(before, after)
    return PodChange(before and pod_info(before), after and pod_info(after))


RECORDED = HINTS.keys() - {VOLUME_BINDING}
"""All nodes are one machine: no node helps a pod that waits for its volume."""


def test_recorded_hints() -> None:
    """For random pods and changes, the plugins whose hints say that the pod is worth a retry."""
    useful = set[str]()
    with gzip.open(Path(__file__).with_name("hints.jsonl.gz"), "rt") as lines:
        for number, case in enumerate(map(json.loads, lines)):
            asking = Pending(msgspec.convert(case.get("pod") or case["after"], Pod))
            change = change_of(case)
            found = {plugin for plugin in RECORDED if helps(asking, plugin, change)}
            assert found == RECORDED & set(case["helps"]), number
            useful |= found
    assert useful == RECORDED


def test_a_claim_wakes_the_pods_that_use_it() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    asking = pending(volumes=[volume])
    for plugin in (VOLUME_BINDING, VOLUME_RESTRICTIONS):
        assert helps(asking, plugin, ClaimChange(("default", "data")))
        assert helps(asking, plugin, ClaimChange())
        assert not helps(asking, plugin, ClaimChange(("default", "other")))
