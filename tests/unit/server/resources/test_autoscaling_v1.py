"""Autoscalers in the form of ``autoscaling/v1``."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import Served

from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.clock import SystemClock
from podtui.server.encoding.decoding import DecodeError
from podtui.server.resources.autoscaling_v1 import from_v1, to_v1
from podtui.server.resources.namespace_care import NamespaceCare

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SELECTOR = {"matchLabels": {"a": "b"}}
PERCENT = {"type": "Utilization", "averageUtilization": 60}
AVERAGE = {"type": "AverageValue", "averageValue": "5"}
VALUE = {"type": "Value", "value": "7"}
NAMED = {"name": "requests", "selector": SELECTOR}
METRICS: tuple[dict[str, Any], ...] = (
    {"type": "Resource", "resource": {"name": "memory", "target": PERCENT}},
    {"type": "Resource", "resource": {"name": "cpu", "target": AVERAGE}},
    {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "c", "target": PERCENT},
    },
    {"type": "Pods", "pods": {"metric": NAMED, "target": AVERAGE}},
    {
        "type": "Object",
        "object": {"describedObject": TARGET, "metric": {"name": "m"}, "target": VALUE},
    },
    {"type": "Object", "object": {"describedObject": TARGET, "metric": NAMED, "target": AVERAGE}},
    {"type": "External", "external": {"metric": NAMED, "target": VALUE}},
    {"type": "External", "external": {"metric": NAMED, "target": AVERAGE}},
)
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": PERCENT}}
CURRENT: tuple[dict[str, Any], ...] = (
    {"type": ""},
    {
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": 9, "averageValue": "9m"}},
    },
    {"type": "Pods", "pods": {"metric": NAMED, "current": {"averageValue": "3"}}},
)
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Min"}}


def autoscaler(**spec: Any) -> HorizontalPodAutoscaler:
    status = spec.pop("status", {})
    document = {
        "metadata": {"name": "h", "annotations": {"mine": "kept"}},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 5, "minReplicas": 1, **spec},
        "status": {"desiredReplicas": 0, "currentReplicas": 0, **status},
    }
    return msgspec.convert(document, HorizontalPodAutoscaler)


def back(tree: dict[str, Any]) -> HorizontalPodAutoscaler:
    document = from_v1(tree)
    assert document["apiVersion"] == "autoscaling/v1"
    return msgspec.convert({**document, "apiVersion": "", "kind": ""}, HorizontalPodAutoscaler)


@given(
    st.lists(st.sampled_from(METRICS), max_size=3),
    st.booleans(),
    st.lists(st.sampled_from(CURRENT), max_size=3),
    st.sampled_from([None, BEHAVIOR]),
    st.sampled_from([(), ({"type": "AbleToScale", "status": "True", "reason": "Ready"},)]),
)
def test_nothing_is_lost(
    metrics: list[dict[str, Any]],
    cpu: bool,
    current: list[dict[str, Any]],
    behavior: dict[str, Any] | None,
    conditions: tuple[dict[str, Any], ...],
) -> None:
    item = autoscaler(
        metrics=[*metrics, *([CPU] if cpu else [])],
        behavior=behavior,
        status={"currentMetrics": current, "conditions": conditions},
    )
    assert back(json.loads(json.dumps(to_v1(item)))) == item


def test_the_use_of_cpu_has_fields() -> None:
    item = autoscaler(metrics=[METRICS[0], CPU], status={"currentMetrics": [CURRENT[1]]})
    tree = to_v1(item)
    assert tree["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 60,
    }
    assert tree["status"]["currentCPUUtilizationPercentage"] == 9
    annotations = tree["metadata"]["annotations"]
    assert json.loads(annotations[f"{PREFIX}metrics"]) == [
        {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 60}}
    ]
    assert annotations["mine"] == "kept"


@pytest.mark.parametrize("text", ["", "{", "1", '[1, "a"]'])
def test_annotations_that_are_no_metrics_are_ignored(text: str) -> None:
    meta = {
        "name": "h",
        "annotations": {f"{PREFIX}{name}": text for name in ("metrics", "behavior")},
    }
    tree = from_v1({"metadata": meta, "spec": {"maxReplicas": 2}, "status": {}})
    assert tree == {
        "metadata": {"name": "h", "annotations": {}},
        "spec": {"maxReplicas": 2},
        "status": {},
    }


@pytest.mark.parametrize("tree", [{}, {"spec": None, "metadata": None}, {"metadata": {}}])
def test_what_is_no_autoscaler_stays_as_it_is(tree: dict[str, Any]) -> None:
    assert from_v1(tree) == tree


@pytest.mark.parametrize("name", ["metrics", "behavior"])
def test_fields_of_the_other_version_are_refused(name: str) -> None:
    with pytest.raises(DecodeError, match=f'unknown field "spec.{name}"'):
        from_v1({"spec": {name: []}})


async def test_both_versions_are_one_record(served: Served, http: aiohttp.ClientSession) -> None:
    await NamespaceCare(served.store, SystemClock(), lambda: "ca").prepare()
    document = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
    }
    async with http.post(V1, json=document) as response:
        created = await response.json()
    assert (response.status, created["apiVersion"]) == (201, "autoscaling/v1")
    assert created["spec"] == {**document["spec"], "minReplicas": 1}
    async with http.get(f"{V2}/h") as response:
        newer = await response.json()
    target = {"type": "Utilization", "averageUtilization": 70}
    assert newer["apiVersion"] == "autoscaling/v2"
    assert newer["spec"]["metrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    ]
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = json.dumps({"spec": {"targetCPUUtilizationPercentage": 50}})
    async with http.patch(f"{V1}/h", data=patch, headers=headers) as response:
        patched = await response.json()
    assert patched["spec"]["targetCPUUtilizationPercentage"] == 50
    async with http.get("/apis/autoscaling") as response:
        group = await response.json()
    assert [item["version"] for item in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"
