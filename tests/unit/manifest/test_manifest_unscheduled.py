"""Fields for the scheduler are accepted with a warning."""

from __future__ import annotations

import pytest
import yaml

from podtui.api.local import Severity
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.result import ReadResult

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


def read(**spec: object) -> ReadResult:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec},
    }
    return read_manifest("/m/web.yaml", yaml.safe_dump(tree).encode(), node_name="n1")


def warned(result: ReadResult) -> dict[str, str]:
    assert result.pods, result.diagnostics
    assert all(one.severity is Severity.WARNING for one in result.diagnostics)
    assert all(one.code == "NoEffect" and one.line for one in result.diagnostics)
    return {one.field: one.message for one in result.diagnostics}


def test_another_node() -> None:
    result = read(nodeName="elsewhere")
    assert warned(result) == {
        "spec.nodeName": (
            "has no effect: a static pod runs on the node that reads its manifest, n1"
        )
    }
    assert result.pods[0].spec.nodeName == "n1"
    assert warned(read(nodeName="n1")) == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
                }
            },
            "spec.affinity.podAffinity",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": TERM}
                        ]
                    }
                }
            },
            "spec.affinity.podAntiAffinity",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": SSD}
                        ]
                    }
                }
            },
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        ),
        ({"topologySpreadConstraints": [SPREAD]}, "spec.topologySpreadConstraints"),
        ({"schedulerName": "mine"}, "spec.schedulerName"),
        ({"schedulingGroup": {"podGroupName": "all"}}, "spec.schedulingGroup"),
    ],
)
def test_scheduler_fields_are_reported_as_ignored(spec: dict[str, object], field: str) -> None:
    assert warned(read(**spec)) == {field: "has no effect: static pods are not scheduled"}


def test_tolerations() -> None:
    assert warned(read(tolerations=[{"operator": "Exists"}])) == {
        "spec.tolerations": "has no effect: static pods are not affected by taints"
    }


def test_preemption_policy() -> None:
    assert "spec.preemptionPolicy" in warned(read(preemptionPolicy="Never"))


def test_known_priority_classes() -> None:
    assert warned(read(priorityClassName="system-node-critical")) == {}
    assert (
        "set priority to a number instead"
        in warned(read(priorityClassName="mine"))["spec.priorityClassName"]
    )


def test_huge_pages_are_counted_but_not_enforced() -> None:
    amounts = {"limits": {"hugepages-2Mi": "4Mi", "memory": "64Mi"}}
    container = {"name": "c", "image": "busybox:1", "resources": amounts}
    (field,) = warned(read(containers=[container]))
    assert field == "spec.containers[0].resources.limits.hugepages-2Mi"


def test_required_node_affinity_has_no_warning() -> None:
    required = {"nodeSelectorTerms": [SSD]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        "podAffinity": {},
    }
    assert warned(read(affinity=affinity, nodeSelector={"disk": "ssd"})) == {}
    assert warned(read()) == {}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"schedulingGates": [{"name": "later"}]},
            "cannot be set until all schedulingGates have been cleared",
        ),
        (
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
            "static pods may not reference resourceclaims",
        ),
        (
            {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
                "containers": [
                    {
                        "name": "c",
                        "image": "busybox:1",
                        "resources": {"claims": [{"name": "gpu"}]},
                    }
                ],
            },
            "static pods may not reference resourceclaims",
        ),
    ],
)
def test_fields_forbidden_in_static_pods(spec: dict[str, object], words: str) -> None:
    result = read(**spec)
    assert not result.pods
    assert words in " ".join(one.message for one in result.diagnostics)


def test_a_manifest_has_no_ephemeral_containers() -> None:
    result = read(ephemeralContainers=[{"name": "d", "image": "busybox:1"}])
    assert not result.pods
    assert any("cannot be set on create" in one.message for one in result.diagnostics)
    twice = [{"name": "c", "image": "busybox:1"}] * 2
    assert any("Duplicate value" in one.message for one in read(containers=twice).diagnostics)
