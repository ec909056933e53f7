"""The status of ResourceQuotas, and what objects use of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from set_world import MemoryApi, Time

from podtui.api.quota_usage import RESOURCES, ApiObject, matches_scopes, texts, usage
from podtui.api.v1 import (
    ConfigMap,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    ResourceQuotaSpec,
    Service,
)
from podtui.client.cache import Cache
from podtui.controllers.quotas import QuotaController, quota_status

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY = ("ns", "q")


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None) -> ResourceQuota:
    tree = {
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"hard": hard},
        "status": {"used": used or {}},
    }
    return msgspec.convert(tree, ResourceQuota)


def pod(name: str = "p", phase: str = "Running", **spec: Any) -> Pod:
    container = {"name": "c", "image": "x", "resources": spec.pop("resources", {})}
    tree = {
        "metadata": {"name": name, "namespace": "ns", **spec.pop("metadata", {})},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(tree, Pod)


def status_of(item: ResourceQuota, *objects: ApiObject) -> dict[str, str]:
    def items(resource: str) -> Iterable[ApiObject]:
        return [each for each in objects if RESOURCES[type(each)] == resource]

    return quota_status(item, items, NOW).used


def test_unused_names_are_zero_and_names_of_no_kind_are_kept() -> None:
    hard = {"pods": "1", "requests.cpu": "1", "count/things.example.com": "3", "x/y": "1"}
    used = {"count/things.example.com": "2", "gone": "1"}
    assert status_of(quota(hard, used)) == {
        "count/things.example.com": "2",
        "pods": "0",
        "requests.cpu": "0",
    }


def test_ended_pods_are_objects_but_use_nothing() -> None:
    hard = {"pods": "9", "count/pods": "9", "cpu": "9"}
    resources = {"requests": {"cpu": "100m"}}
    late = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    pods = (
        pod("a", resources=resources),
        pod("b", "Succeeded", resources=resources),
        pod("c", resources=resources, metadata=late),
    )
    assert status_of(quota(hard), *pods) == {"count/pods": "3", "cpu": "100m", "pods": "1"}


def test_requests_and_limits_of_a_pod() -> None:
    resources = {
        "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi", "a.com/gpu": "2"},
        "limits": {"cpu": "2", "hugepages-2Mi": "2Mi", "a.com/gpu": "2"},
    }
    assert texts(usage(pod(resources=resources), NOW)) == {
        "count/pods": "1",
        "cpu": "1",
        "hugepages-2Mi": "2Mi",
        "limits.cpu": "2",
        "memory": "1Gi",
        "pods": "1",
        "requests.a.com/gpu": "2",
        "requests.cpu": "1",
        "requests.hugepages-2Mi": "2Mi",
        "requests.memory": "1Gi",
    }


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({"type": "ClusterIP"}, "0", "0"),
        ({"type": "NodePort"}, "2", "0"),
        ({"type": "LoadBalancer"}, "2", "1"),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "1", "1"),
    ],
)
def test_ports_of_services(spec: Any, ports: str, balancers: str) -> None:
    tree = {"spec": {"ports": [{"port": 1}, {"port": 2, "nodePort": 30001}], **spec}}
    assert texts(usage(msgspec.convert(tree, Service), NOW)) == {
        "count/services": "1",
        "services": "1",
        "services.loadbalancers": balancers,
        "services.nodeports": ports,
    }


def test_storage_is_counted_for_its_class_as_well() -> None:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    claim = msgspec.convert({"spec": spec}, PersistentVolumeClaim)
    assert texts(usage(claim, NOW)) == {
        "count/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
        "persistentvolumeclaims": "1",
        "requests.storage": "1Gi",
    }


@pytest.mark.parametrize(
    ("operator", "values", "name", "expected"),
    [
        ("Exists", [], "high", True),
        ("Exists", [], "", False),
        ("DoesNotExist", [], "", True),
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("NotIn", ["high"], "", True),
    ],
)
def test_priority_classes_as_scopes(
    operator: str, values: list[str], name: str, expected: bool
) -> None:
    selector = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    spec = msgspec.convert({"scopeSelector": {"matchExpressions": [selector]}}, ResourceQuotaSpec)
    assert matches_scopes(spec, pod(priorityClassName=name)) is expected


def test_objects_without_scopes_do_not_count_in_a_quota_with_scopes() -> None:
    spec = msgspec.convert({"scopes": ["NotTerminating"]}, ResourceQuotaSpec)
    assert not matches_scopes(spec, msgspec.convert({}, Service))
    assert matches_scopes(spec, pod())


async def test_the_status_follows_spec_and_objects() -> None:
    time, cache = Time(), Cache()
    api = MemoryApi(cache, time.now)
    controller = QuotaController(cache, api, time)
    for kind in controller.kinds:
        cache.add_kind(kind)
    api.put(quota({"pods": "2"}))
    running = api.put(pod("a"))
    assert await controller.sync(KEY) is not None
    stored = await api.get(ResourceQuota, *KEY)
    assert (stored.status.hard, stored.status.used) == ({"pods": "2"}, {"pods": "1"})
    cache.remove(running)
    await controller.sync(KEY)
    assert (await api.get(ResourceQuota, *KEY)).status.used == {"pods": "0"}
    await controller.sync(KEY)
    assert api.writes == ["update status ResourceQuota q"] * 2


def test_only_quotas_that_count_an_object_follow_it() -> None:
    cache = Cache()
    time = Time()
    controller = QuotaController(cache, MemoryApi(cache, time.now), time)
    for kind in controller.kinds:
        cache.add_kind(kind)
    cache.put(quota({"pods": "2"}))
    configuration = ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"))
    assert [*controller.kinds[Pod](pod())] == [KEY]
    assert [*controller.kinds[ConfigMap](configuration)] == []
