"""All diagnoses of objects together: names, what is reported, and that none fails."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from why_objects import crashing_pod, inventory, make, ready_pod, template

from podtui.why.inventory import NOUNS, find_noun, object_name
from podtui.why.objects import diagnose_object, find_objects, is_explained, unwell
from podtui.why.report import Report, render_json, render_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("deploy", "Deployment"),
        ("Deployment", "Deployment"),
        ("deployments", "Deployment"),
        ("deployments.apps", "Deployment"),
        ("deployments.v1.apps", "Deployment"),
        ("svc", "Service"),
        ("ingresses.networking.k8s.io", "Ingress"),
        ("ingresses.v1.networking.k8s.io", "Ingress"),
        ("po", "Pod"),
        ("cj", "CronJob"),
        ("pvc", "PersistentVolumeClaim"),
    ],
)
def test_a_kind_is_found_by_the_names_of_kubectl(text: str, kind: str) -> None:
    noun = find_noun(text)
    assert noun is not None
    assert noun.struct.__name__ == kind


@pytest.mark.parametrize("text", ["", "deployments.batch", "default", "deploy.", "secrets"])
def test_other_words_are_no_kind(text: str) -> None:
    noun = find_noun(text)
    assert noun is None or text == "deploy."


def test_every_kind_with_a_name_is_explained() -> None:
    for noun in NOUNS:
        if noun.singular != "pod":
            assert is_explained(make(noun.struct.__name__, "x", **_least(noun.struct.__name__)))


def _least(kind: str) -> dict[str, Any]:
    """Return what an object of a kind cannot be without."""
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}
    ref = {"kind": "Deployment", "name": "web"}
    scales = {"maxReplicas": 1, "scaleTargetRef": ref}
    templated = {"template": template()}
    return {
        "CronJob": {"spec": cron}, "HorizontalPodAutoscaler": {"spec": scales},
        "Deployment": {"spec": templated}, "ReplicaSet": {"spec": templated},
        "StatefulSet": {"spec": templated}, "DaemonSet": {"spec": templated},
        "Job": {"spec": templated},
    }.get(kind, {})  # fmt: skip


def test_without_a_namespace_the_default_one_is_preferred() -> None:
    noun = find_noun("deploy")
    assert noun is not None
    here = make("Deployment", "web", spec={"template": template()})
    there = make("Deployment", "web", meta={"namespace": "shop", "uid": "u2"},
                 spec={"template": template()})  # fmt: skip
    both, only = inventory(here, there), inventory(there)
    assert find_objects(both, noun, "web") == [here]
    assert find_objects(both, noun, "web", "shop") == [there]
    assert find_objects(only, noun, "web") == [there]


def test_an_object_that_an_owner_explains_is_reported_once() -> None:
    deployment = make("Deployment", "web", spec={"replicas": 1, "template": template()},
                      status={"replicas": 1, "updatedReplicas": 1})  # fmt: skip
    owned = make("ReplicaSet", "web-1", owner=deployment, spec={"replicas": 1,
                 "template": template()}, status={"replicas": 1})  # fmt: skip
    items = inventory(deployment, owned, crashing_pod("web-1-a", owned))
    assert [object_name(item) for item, _ in unwell(items)] == ["deploy/web"]


def test_what_is_as_desired_or_waits_for_the_user_is_not_reported() -> None:
    well = make("Deployment", "web", spec={"replicas": 0, "template": template()})
    suspended = make("Job", "job", spec={"suspend": True, "template": template()})
    assert list(unwell(inventory(well, suspended))) == []


def test_a_report_shows_its_parts_indented() -> None:
    item = make("ReplicaSet", "web", spec={"replicas": 2, "template": template()},
                status={"replicas": 2})  # fmt: skip
    pods = [crashing_pod("web-a", item), crashing_pod("web-b", item)]
    diagnosis = diagnose_object(inventory(item, *pods), item)
    lines = render_text([Report("rs/web", diagnosis)]).splitlines()
    assert lines[0] == "✖ rs/web  failing"
    assert "    ✖ pod/web-a and 1 more  failing" in lines
    [data] = render_json([Report("rs/web", diagnosis)])
    assert data["parts"][0]["name"] == "pod/web-a"
    assert data["parts"][0]["more"] == ["pod/web-b"]


COUNTS = st.integers(0, 3)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Progressing", "Available", "ReplicaFailure", "Failed",
                                     "Complete", "FailureTarget", "ScalingActive",
                                     "AbleToScale"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": st.sampled_from(["", "ProgressDeadlineExceeded", "FailedCreate",
                                       "BackoffLimitExceeded", "DeploymentPaused"]),
            "message": st.text(max_size=20),
            "lastTransitionTime": st.just("2026-11-20T12:00:00Z"),
        }
    ),
    max_size=3,
)  # fmt: skip
STATUS = st.fixed_dictionaries(
    {"conditions": CONDITIONS, "replicas": COUNTS},
    optional={
        "updatedReplicas": COUNTS, "availableReplicas": COUNTS, "failed": COUNTS, "active": COUNTS,
        "succeeded": COUNTS, "phase": st.sampled_from(["Pending", "Bound", "Lost", "Released"]),
        "updateRevision": st.sampled_from(["", "a"]), "desiredNumberScheduled": COUNTS,
        "observedGeneration": COUNTS, "desiredReplicas": COUNTS,
        "currentNumberScheduled": COUNTS, "numberMisscheduled": COUNTS, "numberReady": COUNTS,
    },
)  # fmt: skip
META = st.fixed_dictionaries(
    {}, optional={"generation": COUNTS, "deletionTimestamp": st.just("2026-11-20T12:00:00Z")}
)
SPEC = st.fixed_dictionaries(
    {}, optional={"replicas": COUNTS, "paused": st.booleans(), "suspend": st.booleans(),
                  "selector": st.just({"app": "x"}), "volumeName": st.just("v"),
                  "storageClassName": st.sampled_from(["", "x"])},
)  # fmt: skip
SELECTORLESS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job",
                "PersistentVolumeClaim", "PersistentVolume")  # fmt: skip


@examples(500)
@given(st.sampled_from([n.struct.__name__ for n in NOUNS[1:]]), META, SPEC, STATUS, COUNTS)
def test_a_diagnosis_never_fails_and_never_ends_without_words(
    kind: str, meta: Any, spec: Any, status: Any, pods: int
) -> None:
    least = _least(kind)
    if kind in SELECTORLESS:
        spec = {key: value for key, value in spec.items() if key != "selector"}
    if kind == "CronJob":
        # A list of references, not a number.
        status = {key: value for key, value in status.items() if key != "active"}
    item = make(kind, "x", meta=meta, status=status, **{**least,
                "spec": {**least.get("spec", {}), **spec}})  # fmt: skip
    owned = [(ready_pod, crashing_pod)[n % 2](f"x-{n}", item) for n in range(pods)]
    diagnosis = diagnose_object(inventory(item, *owned), item)
    assert diagnosis.title
    assert diagnosis.state
    assert diagnosis.health is not None
    assert not diagnosis.title[0].islower()
    assert all(diagnosis.sentences)
    render_text([Report("x", diagnosis)])
