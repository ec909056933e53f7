"""Labels with which a node fits a pod."""

from __future__ import annotations

from typing import Any

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from why_objects import make, template, unschedulable_pod

from podtui.api.selectors import node_matches
from podtui.why import Facts, diagnose
from podtui.why.node_labels import NODE_OWN_LABELS, label_command, labels_to_fit

KEYS = st.sampled_from(["disk", "zone", "kubernetes.io/os", "gpu"])
VALUES = st.sampled_from(["ssd", "a", "b", "1", "7", "linux"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
REQUIREMENTS = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        "values": [] if operator.endswith("Exist") or operator == "Exists" else values,
    },
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(VALUES, min_size=1, max_size=2),
)
TERMS = st.lists(
    st.builds(lambda r: {"matchExpressions": r}, st.lists(REQUIREMENTS, max_size=3)), max_size=2
)


def pod(selector: Any, terms: list[Any]) -> Any:
    spec = template()["spec"] | {"nodeSelector": selector}
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return make("Pod", "web", spec=spec)


@examples(300)
@given(LABELS, TERMS, LABELS)
def test_a_node_with_the_labels_fits(selector: Any, terms: list[Any], labels: Any) -> None:
    wanted, node = pod(selector, terms), make("Node", "n1", labels=labels)
    added = labels_to_fit(wanted, node)
    if node_matches(wanted, "n1", labels):
        assert added == ()
    if added:
        assert node_matches(wanted, "n1", {**labels, **dict(added)})
        assert not dict(added).keys() & NODE_OWN_LABELS
        assert all(labels.get(key) != value for key, value in added)


@examples(100)
@given(st.dictionaries(st.sampled_from(["disk", "zone", "gpu"]), VALUES, min_size=1), LABELS)
def test_a_selector_alone_is_always_satisfied_by_labels(selector: Any, labels: Any) -> None:
    node = make("Node", "n1", labels=labels)
    lacking = {key: value for key, value in selector.items() if labels.get(key) != value}
    assert dict(labels_to_fit(pod(selector, []), node)) == lacking


def test_another_value_of_a_label_has_to_overwrite_it() -> None:
    node = make("Node", "n1", labels={"disk": "hdd"})
    assert label_command(node, (("disk", "ssd"),)) == (
        "Label the node: kubectl label node n1 disk=ssd --overwrite"
    )


def test_the_diagnosis_of_an_unschedulable_pod_has_the_labels() -> None:
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    item = unschedulable_pod("web", message, nodeSelector={"disk": "ssd"})
    diagnosis = diagnose(Facts(pod=item, now=0, node=make("Node", "n1")))
    assert diagnosis.node_labels == (("disk", "ssd"),)
    assert "kubectl label node n1 disk=ssd" in diagnosis.advice


def test_a_label_of_the_kubelet_is_not_suggested() -> None:
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    item = unschedulable_pod("web", message, nodeSelector={"kubernetes.io/os": "windows"})
    diagnosis = diagnose(Facts(pod=item, now=0, node=make("Node", "n1")))
    assert diagnosis.node_labels == ()
    assert "kubectl label" not in diagnosis.advice
