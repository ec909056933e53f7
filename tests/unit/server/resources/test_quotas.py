"""ResourceQuotas and LimitRanges, as a real API server (v1.36.2) serves and enforces them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.clock import SystemClock
from podtui.server.resources.namespace_care import NamespaceCare

NAMESPACE = "/api/v1/namespaces/default"
QUOTAS, LIMITS = f"{NAMESPACE}/resourcequotas", f"{NAMESPACE}/limitranges"
PODS, CLAIMS = f"{NAMESPACE}/pods", f"{NAMESPACE}/persistentvolumeclaims"
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
RANGE = [
    {
        "type": "Container",
        "default": {"cpu": "200m", "memory": "64Mi"},
        "defaultRequest": {"cpu": "100m"},
        "max": {"cpu": "500m", "memory": "256Mi"},
        "min": {"cpu": "10m"},
    },
    {"type": "Pod", "max": {"cpu": "1"}},
]


@pytest.fixture
async def api(served: Served, http: aiohttp.ClientSession) -> aiohttp.ClientSession:
    await NamespaceCare(served.store, SystemClock(), lambda: "ca").prepare()
    return http


async def call(
    api: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    async with api.request(method, path, json=body, headers=headers or None) as response:
        return response.status, json.loads(await response.read())


def pod(name: str, resources: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": resources or {}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def limits(name: str, *items: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": items}}


async def quota(
    api: aiohttp.ClientSession,
    hard: dict[str, str],
    used: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """Create the quota q with a status, as its controller writes it."""
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    code, created = await call(api, "POST", QUOTAS, body)
    assert code == 201, created
    status = {"hard": hard, "used": {**dict.fromkeys(hard, "0"), **(used or {})}}
    code, written = await call(api, "PATCH", f"{QUOTAS}/q/status", {"status": status}, **MERGE)
    assert code == 200, written


async def used(api: aiohttp.ClientSession) -> dict[str, str]:
    _, item = await call(api, "GET", f"{QUOTAS}/q")
    return item["status"]["used"]


async def refusal(api: aiohttp.ClientSession, path: str, body: Any) -> str:
    code, answer = await call(api, "POST", path, body)
    assert code in (403, 422), answer
    return answer["message"]


# --- limit ranges


async def test_defaults_of_a_limit_range_follow_from_each_other(
    api: aiohttp.ClientSession,
) -> None:
    code, created = await call(api, "POST", LIMITS, limits("lr", *RANGE))
    assert (code, created["spec"]["limits"][0]) == (
        201,
        {
            **RANGE[0],
            "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
        },
    )
    _, other = await call(
        api,
        "POST",
        LIMITS,
        limits("other", {"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}),
    )
    assert other["spec"]["limits"][0]["default"] == {"cpu": "1"}
    assert other["spec"]["limits"][0]["defaultRequest"] == {"cpu": "1", "memory": "1Mi"}
    _, table = await call(api, "GET", LIMITS, **TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]


async def test_containers_get_the_defaults(api: aiohttp.ClientSession) -> None:
    await call(api, "POST", LIMITS, limits("lr", *RANGE))
    code, created = await call(api, "POST", PODS, pod("a"))
    assert (code, created["spec"]["containers"][0]["resources"]) == (
        201,
        {
            "limits": {"cpu": "200m", "memory": "64Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        },
    )
    assert created["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container c;"
        " cpu, memory limit for container c"
    )


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        (
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            (
                "[maximum cpu usage per Container is 500m, but limit is 2, maximum memory usage per"
                " Container is 256Mi, but limit is 1Gi, maximum cpu usage per Pod is 1, but"
                " limit is 2]"
            ),
        ),
        (
            {"requests": {"cpu": "1m"}, "limits": {"cpu": "20m"}},
            "minimum cpu usage per Container is 10m, but request is 1m",
        ),
    ],
)
async def test_pods_outside_the_limits_are_refused(
    resources: Any, why: str, api: aiohttp.ClientSession
) -> None:
    await call(api, "POST", LIMITS, limits("lr", *RANGE))
    assert await refusal(api, PODS, pod("b", resources)) == f'pods "b" is forbidden: {why}'


async def test_ratios_and_amounts_that_are_missing(api: aiohttp.ClientSession) -> None:
    ratio = {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    await call(api, "POST", LIMITS, limits("lr", ratio))
    assert await refusal(api, PODS, pod("b")) == (
        'pods "b" is forbidden: [minimum memory usage per Pod is 1Mi.  No request is specified, cpu'
        " max limit to request ratio per Pod is 2, but no request is specified or request is 0]"
    )
    resources = {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "3"}}
    assert await refusal(api, PODS, pod("b", resources)) == (
        'pods "b" is forbidden: cpu max limit to request ratio per Pod is 2, but provided ratio is'
        " 3.000000"
    )


async def test_the_storage_of_claims_is_limited(api: aiohttp.ClientSession) -> None:
    bounds = {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}
    await call(api, "POST", LIMITS, limits("lr", bounds))
    assert await refusal(api, CLAIMS, claim("3Gi")) == (
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim'
        " is 2Gi, but request is 3Gi"
    )
    assert await refusal(api, CLAIMS, claim("1Mi")) == (
        'persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim'
        " is 1Gi, but request is 1Mi"
    )


async def test_a_resize_keeps_the_limits(api: aiohttp.ClientSession) -> None:
    await call(api, "POST", PODS, pod("a", {"requests": {"cpu": "100m"}}))
    await call(api, "POST", LIMITS, limits("lr", {"type": "Container", "min": {"cpu": "10m"}}))
    smaller = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}}
    code, answer = await call(api, "PATCH", f"{PODS}/a/resize", smaller, **STRATEGIC)
    assert (code, answer["message"]) == (
        403,
        'pods "a" is forbidden: minimum cpu usage per Container is 10m, but request is 1m',
    )


def claim(size: str, name: str = "c") -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


async def test_limits_that_contradict_each_other(api: aiohttp.ClientSession) -> None:
    bad = {"type": "Container", "max": {"cpu": "100m"}, "min": {"cpu": "200m"}}
    assert await refusal(api, LIMITS, limits("bad", bad)) == (
        'LimitRange "bad" is invalid: [spec.limits[0].min[cpu]: Invalid value: "200m": min value'
        " 200m is greater than max value 100m, spec.limits[0].defaultRequest[cpu]: Invalid value:"
        ' "100m": min value 200m is greater than default request value 100m,'
        ' spec.limits[0].default[cpu]: Invalid value: "200m": min value 200m is greater than'
        " default value 100m]"
    )
    pods = {"type": "Pod", "default": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "500m"}}
    assert await refusal(api, LIMITS, limits("bad", pods, {"type": "Pod"})) == (
        'LimitRange "bad" is invalid: [spec.limits[0].default: Forbidden: may not be specified'
        " when `type` is 'Pod', spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\":"
        ' ratio 500m is less than 1, spec.limits[1].type: Duplicate value: "Pod"]'
    )
    assert await refusal(api, LIMITS, limits("bad", {"type": "PersistentVolumeClaim"})) == (
        'LimitRange "bad" is invalid: spec.limits[0].limits: Required value: either minimum or'
        " maximum storage value is required, but neither was provided"
    )


# --- quotas


async def test_a_new_quota_has_no_status_and_no_generation(api: aiohttp.ClientSession) -> None:
    body = {
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2", "limits.cpu": "1"}},
        "status": {"hard": {"pods": "9"}},
    }
    _, created = await call(api, "POST", QUOTAS, body)
    assert created["status"] == {}
    assert "generation" not in created["metadata"]
    status = {"hard": {"pods": "2", "limits.cpu": "1"}, "used": {"pods": "1", "limits.cpu": "0"}}
    await call(api, "PATCH", f"{QUOTAS}/q/status", {"status": status}, **MERGE)
    _, table = await call(api, "GET", QUOTAS, **TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Request", "Limit", "Age"]
    assert table["rows"][0]["cells"][:3] == ["q", "pods: 1/2", "limits.cpu: 0/1"]
    _, deleted = await call(api, "DELETE", f"{QUOTAS}/q")
    assert deleted["kind"] == "ResourceQuota"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"hard": {"foo": "1", "pods": "-1"}},
            (
                '[spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully'
                ' qualified, spec.hard[foo]: Invalid value: "foo": must be a standard resource for'
                ' quota, spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0]'
            ),
        ),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
            (
                '[spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope'
                ' applied to resource, spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]:'
                " conflicting scopes]"
            ),
        ),
        (
            {
                "hard": {"pods": "1"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]
                },
            },
            (
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one"
                " value when `operator` is 'In' or 'NotIn' for scope selector"
            ),
        ),
    ],
)
async def test_invalid_quotas(spec: Any, why: str, api: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": "b"}, "spec": spec}
    assert await refusal(api, QUOTAS, body) == f'ResourceQuota "b" is invalid: {why}'


async def test_pods_beyond_a_quota_are_refused(api: aiohttp.ClientSession) -> None:
    await quota(api, {"pods": "2", "requests.cpu": "1"})
    assert await refusal(api, PODS, pod("a")) == (
        'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: c'
    )
    for name in ("a", "b"):
        code, _ = await call(api, "POST", PODS, pod(name, {"requests": {"cpu": "100m"}}))
        assert code == 201
    assert await used(api) == {"pods": "2", "requests.cpu": "200m"}
    assert await refusal(api, PODS, pod("c", {"requests": {"cpu": "1"}})) == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1, used:'
        " pods=2,requests.cpu=200m, limited: pods=2,requests.cpu=1"
    )


async def test_pods_created_at_the_same_time_do_not_share_the_rest(
    api: aiohttp.ClientSession,
) -> None:
    await quota(api, {"pods": "3"})
    answers = await asyncio.gather(
        *(call(api, "POST", PODS, pod(f"p{number}")) for number in range(10))
    )
    assert sorted(code for code, _ in answers) == [201] * 3 + [403] * 7
    assert await used(api) == {"pods": "3"}


async def test_a_deleted_pod_gives_its_share_back_at_once(api: aiohttp.ClientSession) -> None:
    await quota(api, {"pods": "1"})
    await call(api, "POST", PODS, pod("a"))
    await call(api, "DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    code, _ = await call(api, "POST", PODS, pod("b"))
    assert code == 201


async def test_a_dry_run_is_checked_and_not_charged(api: aiohttp.ClientSession) -> None:
    await quota(api, {"pods": "1"})
    code, _ = await call(api, "POST", f"{PODS}?dryRun=All", pod("a"))
    assert (code, await used(api)) == (201, {"pods": "0"})


async def test_a_quota_without_usage_refuses_everything(api: aiohttp.ClientSession) -> None:
    await quota(api, {"pods": "1"})
    await call(api, "PATCH", f"{QUOTAS}/q/status", {"status": {"used": {"pods": None}}}, **MERGE)
    assert await refusal(api, PODS, pod("a")) == (
        'pods "a" is forbidden: status unknown for quota: q, resources: pods'
    )


async def test_objects_are_counted(api: aiohttp.ClientSession) -> None:
    await quota(api, {"count/configmaps": "2", "configmaps": "3"}, {"count/configmaps": "1"})
    path = f"{NAMESPACE}/configmaps"
    assert (await call(api, "POST", path, {"metadata": {"name": "a"}}))[0] == 201
    assert await refusal(api, path, {"metadata": {"name": "b"}}) == (
        'configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, used:'
        " count/configmaps=2, limited: count/configmaps=2"
    )


async def test_objects_of_groups_are_counted(api: aiohttp.ClientSession) -> None:
    await quota(api, {"count/leases.coordination.k8s.io": "0"})
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert await refusal(api, path, {"metadata": {"name": "a"}}) == (
        'leases.coordination.k8s.io "a" is forbidden: exceeded quota: q, requested:'
        " count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=0, limited:"
        " count/leases.coordination.k8s.io=0"
    )


async def test_a_service_that_becomes_a_node_port_is_charged(api: aiohttp.ClientSession) -> None:
    await quota(api, {"services": "1", "services.nodeports": "0"})
    path = f"{NAMESPACE}/services"
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    assert (await call(api, "POST", path, body))[0] == 201
    code, answer = await call(api, "PATCH", f"{path}/s", {"spec": {"type": "NodePort"}}, **MERGE)
    assert (code, answer["message"]) == (
        403,
        (
            'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=1, used:'
            " services.nodeports=0, limited: services.nodeports=0"
        ),
    )


async def test_storage_is_counted(api: aiohttp.ClientSession) -> None:
    await quota(api, {"requests.storage": "1Gi", "persistentvolumeclaims": "2"})
    assert (await call(api, "POST", CLAIMS, claim("600Mi")))[0] == 201
    assert await used(api) == {"persistentvolumeclaims": "1", "requests.storage": "600Mi"}
    assert await refusal(api, CLAIMS, claim("600Mi", "d")) == (
        'persistentvolumeclaims "d" is forbidden: exceeded quota: q, requested:'
        " requests.storage=600Mi, used: requests.storage=600Mi, limited: requests.storage=1Gi"
    )


async def test_a_larger_pod_is_charged(api: aiohttp.ClientSession) -> None:
    await quota(api, {"requests.cpu": "1"})
    await call(api, "POST", PODS, pod("a", {"requests": {"cpu": "500m"}}))
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    code, answer = await call(api, "PATCH", f"{PODS}/a/resize", larger, **STRATEGIC)
    assert (code, answer["message"]) == (
        403,
        (
            'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used:'
            " requests.cpu=500m, limited: requests.cpu=1"
        ),
    )


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("BestEffort", {}, {"resources": {"requests": {"cpu": "1m"}}}),
        ("NotBestEffort", {"resources": {"requests": {"cpu": "1m"}}}, {}),
        ("Terminating", {"activeDeadlineSeconds": 9}, {}),
        ("NotTerminating", {}, {"activeDeadlineSeconds": 9}),
    ],
)
async def test_only_pods_of_the_scope_are_counted(
    scope: str, inside: Any, outside: Any, api: aiohttp.ClientSession
) -> None:
    await quota(api, {"pods": "0"}, scopes=[scope])
    assert "exceeded quota" in await refusal(api, PODS, pod("a", **inside))
    assert (await call(api, "POST", PODS, pod("b", **outside)))[0] == 201
