"""RuntimeClasses over the API, and what the pods of a class get when they are created."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.api.v1 import (
    ObjectMeta,
    Overhead,
    Pod,
    PodSpec,
    RuntimeClass,
    Scheduling,
    ServiceAccount,
    Toleration,
)
from podtui.server.resources.runtime_class import merged_tolerations, with_runtime_class
from podtui.server.status import StatusError

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DNS_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    " validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


async def send(
    http: aiohttp.ClientSession,
    method: str,
    path: str,
    body: Any = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
    code: int = 200,
) -> Any:
    data = None if body is None else json.dumps(body)
    headers = {"Content-Type": kind, "Accept": accept}
    async with http.request(method, path, data=data, headers=headers) as response:
        document = json.loads(await response.read())
        assert response.status == code, document
        return document


@pytest.fixture
async def api(served: Served, http: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """The API with the service account that pods need."""
    account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
    await served.store.put("serviceaccounts", account)
    return http


def class_document(name: str = "kata", handler: str = "runc", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "handler": handler, **fields}


def pod_document(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1"}]
    return {"metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}


async def test_a_class_is_created_read_changed_and_deleted(http: aiohttp.ClientSession) -> None:
    created = await send(http, "POST", CLASSES, class_document(), code=201)
    assert (created["apiVersion"], created["kind"]) == ("node.k8s.io/v1", "RuntimeClass")
    assert created["handler"] == "runc"
    again = await send(http, "POST", CLASSES, class_document(), code=409)
    assert again["message"] == 'runtimeclasses.node.k8s.io "kata" already exists'
    patch = {"metadata": {"annotations": {"patched": "true"}}}
    patched = await send(http, "PATCH", f"{CLASSES}/kata", patch, kind=MERGE)
    patched["metadata"]["annotations"]["updated"] = "true"
    updated = await send(http, "PUT", f"{CLASSES}/kata", patched)
    assert updated["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
    listed = await send(http, "GET", CLASSES)
    assert (listed["kind"], len(listed["items"])) == ("RuntimeClassList", 1)
    table = await send(http, "GET", f"{CLASSES}/kata", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Handler", "Age"]
    assert table["rows"][0]["cells"][:2] == ["kata", "runc"]
    deleted = await send(http, "DELETE", f"{CLASSES}/kata")
    assert (deleted["kind"], deleted["details"]["kind"]) == ("Status", "runtimeclasses")
    missing = await send(http, "GET", f"{CLASSES}/kata", code=404)
    assert missing["message"] == 'runtimeclasses.node.k8s.io "kata" not found'


def message(*fields: tuple[int, bytes]) -> bytes:
    """Encode fields of short texts and messages in protobuf."""
    return b"".join(bytes((number << 3 | 2, len(value))) + value for number, value in fields)


async def test_a_class_is_created_from_protobuf(http: aiohttp.ClientSession) -> None:
    """Go's typed clients send it."""
    overhead = message((1, message((1, b"cpu"), (2, message((1, b"10m"))))))
    toleration = message((1, b"k"), (2, b"Exists"))
    scheduling = message((1, message((1, b"a"), (2, b"b"))), (2, toleration))
    item = message((1, message((1, b"kata"))), (2, b"runc"), (3, overhead), (4, scheduling))
    kind = message((1, b"node.k8s.io/v1"), (2, b"RuntimeClass"))
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    body = b"k8s\x00" + message((1, kind), (2, item))
    async with http.post(CLASSES, data=body, headers=headers) as response:
        created = await response.json()
        assert response.status == 201, created
    assert created["handler"] == "runc"
    assert created["overhead"] == {"podFixed": {"cpu": "10m"}}
    assert created["scheduling"] == {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }


async def test_classes_are_deleted_by_their_labels(http: aiohttp.ClientSession) -> None:
    for name in ("a", "b"):
        document = class_document(name)
        document["metadata"]["labels"] = {"test": name}
        await send(http, "POST", CLASSES, document, code=201)
    await send(http, "DELETE", f"{CLASSES}?labelSelector=test%3Da")
    [kept] = (await send(http, "GET", CLASSES))["items"]
    assert kept["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"handler": ""}, "handler: Required value"),
        ({"handler": "Not/Valid"}, f'handler: Invalid value: "Not/Valid": {DNS_LABEL}'),
        (
            {"overhead": {"podFixed": {"cpu": "-1"}}},
            'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
            (
                'scheduling.tolerations[0].operator: Invalid value: "b": value must be empty when'
                " `operator` is 'Exists'"
            ),
        ),
    ],
)
async def test_an_invalid_class_is_refused(
    http: aiohttp.ClientSession, fields: dict[str, Any], message: str
) -> None:
    refused = await send(http, "POST", CLASSES, class_document() | fields, code=422)
    assert refused["message"] == f'RuntimeClass.node.k8s.io "kata" is invalid: {message}'


async def test_the_handler_of_a_class_is_immutable(http: aiohttp.ClientSession) -> None:
    await send(http, "POST", CLASSES, class_document(), code=201)
    patch = {"handler": "other"}
    refused = await send(http, "PATCH", f"{CLASSES}/kata", patch, kind=MERGE, code=422)
    assert refused["message"].endswith('handler: Invalid value: "other": field is immutable')


async def test_discovery_and_schema_list_the_class(http: aiohttp.ClientSession) -> None:
    groups = (await send(http, "GET", "/apis"))["groups"]
    assert "node.k8s.io" in [group["name"] for group in groups]
    [resource] = (await send(http, "GET", "/apis/node.k8s.io/v1"))["resources"]
    assert (resource["name"], resource["namespaced"]) == ("runtimeclasses", False)
    assert set(resource["verbs"]) == {
        *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    }
    document = await send(http, "GET", "/openapi/v3/apis/node.k8s.io/v1")
    schema = document["components"]["schemas"]["io.k8s.api.node.v1.RuntimeClass"]
    assert set(schema["properties"]) >= {"handler", "overhead", "scheduling"}
    assert all(schema["properties"][name]["description"] for name in schema["properties"])


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_a_pod_of_an_unknown_class_is_rejected(
    api: aiohttp.ClientSession, query: str
) -> None:
    document = pod_document(runtimeClassName="nope")
    refused = await send(api, "POST", f"{PODS}{query}", document, code=403)
    assert refused["reason"] == "Forbidden"
    assert refused["message"] == (
        'pods "web" is forbidden: pod rejected: RuntimeClass "nope" not found'
    )


async def test_a_pod_of_a_deleted_class_is_rejected(api: aiohttp.ClientSession) -> None:
    await send(api, "POST", CLASSES, class_document(), code=201)
    document = pod_document(runtimeClassName="kata")
    created = await send(api, "POST", f"{PODS}?dryRun=All", document, code=201)
    assert "overhead" not in created["spec"]
    await send(api, "DELETE", f"{CLASSES}/kata")
    await send(api, "POST", PODS, document, code=403)


async def test_a_pod_gets_the_overhead_and_the_scheduling_of_its_class(
    api: aiohttp.ClientSession,
) -> None:
    tolerations = [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]
    fields = {
        "overhead": {"podFixed": {"cpu": "10m", "memory": "1Mi"}},
        "scheduling": {"nodeSelector": {"a": "1", "b": "2"}, "tolerations": tolerations},
    }
    await send(api, "POST", CLASSES, class_document(**fields), code=201)
    document = pod_document(runtimeClassName="kata", nodeSelector={"a": "1"})
    spec = (await send(api, "POST", PODS, document, code=201))["spec"]
    assert spec["overhead"] == {"cpu": "10m", "memory": "1Mi"}
    assert spec["nodeSelector"] == {"a": "1", "b": "2"}
    assert tolerations[0] in spec["tolerations"]


async def test_overhead_without_a_class_is_rejected(api: aiohttp.ClientSession) -> None:
    refused = await send(api, "POST", PODS, pod_document(overhead={"cpu": "1"}), code=403)
    assert refused["message"] == (
        'pods "web" is forbidden: pod rejected: Pod Overhead set without corresponding'
        " RuntimeClass defined Overhead"
    )


def pod(**spec: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(containers=(), **spec))


def class_of(
    overhead: dict[str, str] | None = None, scheduling: Scheduling | None = None
) -> RuntimeClass:
    return RuntimeClass(
        handler="runc",
        overhead=None if overhead is None else Overhead(podFixed=overhead),
        scheduling=scheduling,
    )


def test_an_overhead_is_compared_by_amount() -> None:
    same = with_runtime_class(pod(overhead={"cpu": "1000m"}), class_of({"cpu": "1"}))
    assert same.spec.overhead == {"cpu": "1"}
    with pytest.raises(StatusError, match="doesn't match RuntimeClass's defined Overhead"):
        with_runtime_class(pod(overhead={"cpu": "2"}), class_of({"cpu": "1"}))
    with pytest.raises(StatusError, match="set without corresponding RuntimeClass"):
        with_runtime_class(pod(overhead={"cpu": "2"}), class_of())


def test_a_node_selector_that_conflicts_with_the_class_is_rejected() -> None:
    scheduling = Scheduling(nodeSelector={"disk": "ssd"})
    with pytest.raises(StatusError) as refused:
        with_runtime_class(pod(nodeSelector={"disk": "hdd"}), class_of(scheduling=scheduling))
    assert str(refused.value) == (
        'pods "web" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd;'
        " pod.spec.nodeSelector[disk] = hdd"
    )


ALL = Toleration(operator="Exists")
KEY = Toleration(key="k", operator="Exists")
VALUE = Toleration(key="k", operator="Equal", value="v", effect="NoSchedule")
TEN = Toleration(key="k", operator="Exists", effect="NoExecute", tolerationSeconds=10)
SIXTY = Toleration(key="k", operator="Exists", effect="NoExecute", tolerationSeconds=60)
OTHER = Toleration(key="z", operator="Equal", value="v")


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ((OTHER,), (VALUE,), (OTHER, VALUE)),
        ((VALUE,), (VALUE,), (VALUE,)),
        ((VALUE, OTHER), (KEY,), (OTHER, KEY)),
        ((KEY,), (VALUE,), (KEY,)),
        ((TEN,), (SIXTY,), (SIXTY,)),
        ((SIXTY,), (TEN,), (SIXTY,)),
        ((VALUE, KEY, OTHER), (ALL,), (ALL,)),
    ],
)
def test_tolerations_that_another_one_includes_are_left_out(
    first: tuple[Toleration, ...], second: tuple[Toleration, ...], merged: tuple[Toleration, ...]
) -> None:
    assert merged_tolerations(first, second) == merged
