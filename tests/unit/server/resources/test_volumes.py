"""Persistent volumes, claims and storage classes, as a real API server (v1.36.2) serves them."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.clock import SystemClock
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.server.resources.storage_classes import publish_standard_class

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
async def api(served: Served, http: aiohttp.ClientSession) -> aiohttp.ClientSession:
    await NamespaceCare(served.store, SystemClock(), lambda: "ca").prepare()
    return http


def claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "500Mi"}},
            **spec,
        },
    }


def volume(name: str = "pv", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
            **spec,
        },
    }


async def call(
    api: aiohttp.ClientSession, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    async with api.request(method, path, json=body, headers=headers or None) as response:
        return response.status, json.loads(await response.read())


async def test_a_new_claim_is_pending_protected_and_of_the_default_class(
    api: aiohttp.ClientSession, served: Served
) -> None:
    _, plain = await call(api, "POST", CLAIMS, claim("before"))
    assert "storageClassName" not in plain["spec"]
    await publish_standard_class(served.store, SystemClock())
    code, created = await call(api, "POST", CLAIMS, claim())
    assert (code, created["status"]) == (201, {"phase": "Pending"})
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "generation" not in created["metadata"]
    assert created["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "500Mi"}},
        "storageClassName": "standard",
        "volumeMode": "Filesystem",
    }
    _, classless = await call(api, "POST", CLAIMS, claim("none", storageClassName=""))
    assert classless["spec"]["storageClassName"] == ""


async def test_the_standard_class_is_published_once(
    api: aiohttp.ClientSession, served: Served
) -> None:
    await publish_standard_class(served.store, SystemClock())
    async with api.get(CLASSES, headers=TABLE) as response:
        [row] = json.loads(await response.read())["rows"]
    assert row["cells"][:5] == [
        "standard (default)",
        "podtui.dev/directory",
        "Delete",
        "WaitForFirstConsumer",
        True,
    ]
    assert (await call(api, "DELETE", f"{CLASSES}/standard"))[0] == 200
    await publish_standard_class(served.store, SystemClock())
    assert (await call(api, "GET", CLASSES))[1]["items"] == []


async def test_tables(api: aiohttp.ClientSession) -> None:
    reserved = {"namespace": "default", "name": "data"}
    await call(api, "POST", VOLUMES, volume(claimRef=reserved))
    await call(api, "POST", CLAIMS, claim(storageClassName="fast"))
    async with api.get(VOLUMES, headers=TABLE) as response:
        table = json.loads(await response.read())
    cells = table["rows"][0]["cells"]
    assert cells[:9] == [
        "pv",
        "1Gi",
        "RWO,ROX",
        "Retain",
        "Pending",
        "default/data",
        "",
        "<unset>",
        "",
    ]
    assert cells[10] == "Filesystem"
    async with api.get(CLAIMS, headers=TABLE) as response:
        table = json.loads(await response.read())
    assert table["rows"][0]["cells"][:7] == ["data", "Pending", "", "", "", "fast", "<unset>"]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            VOLUMES,
            {"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"}}},
            (
                'PersistentVolume "pv" is invalid: [spec.accessModes: Required value, spec:'
                " Required"
                " value: must specify a volume type]"
            ),
        ),
        (
            VOLUMES,
            volume(persistentVolumeReclaimPolicy="Keep", hostPath={"path": "/a/../b"}),
            (
                'PersistentVolume "pv" is invalid: [spec.persistentVolumeReclaimPolicy: Unsupported'
                ' value: "Keep": supported values: "Delete", "Recycle", "Retain",'
                " spec.hostPath.path:"
                " Invalid value: \"/a/../b\": must not contain '..']"
            ),
        ),
        (
            VOLUMES,
            volume(local={"path": "/a"}),
            (
                'PersistentVolume "pv" is invalid: spec.local: Forbidden: may not specify more'
                " than 1"
                " volume type"
            ),
        ),
        (
            VOLUMES,
            volume(capacity={"storage": "1", "cpu": "1"}),
            (
                'PersistentVolume "pv" is invalid: spec.capacity: Unsupported value:'
                ' {"cpu":"1","storage":"1"}: supported values: "storage"'
            ),
        ),
        (
            CLASSES,
            {"metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": ""},
            (
                'StorageClass.storage.k8s.io "c" is invalid: volumeBindingMode: Unsupported value:'
                ' "": supported values: "Immediate", "WaitForFirstConsumer"'
            ),
        ),
        (
            CLAIMS,
            claim(resources={}),
            'PersistentVolumeClaim "data" is invalid: spec.resources[storage]: Required value',
        ),
        (
            CLASSES,
            {"metadata": {"name": "c"}, "provisioner": "a b", "volumeBindingMode": "Late"},
            (
                'StorageClass.storage.k8s.io "c" is invalid: [provisioner: Invalid value: "a'
                ' b": name part must'
                " consist of alphanumeric characters, '-', '_' or '.', and must start and end"
                " with an"
                " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex"
                " used for"
                " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), volumeBindingMode:"
                ' Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"]'
            ),
        ),
    ],
)
async def test_refused(
    api: aiohttp.ClientSession, path: str, body: dict[str, Any], message: str
) -> None:
    code, answer = await call(api, "POST", path, body)
    assert (code, answer["message"]) == (422, message)


async def test_the_source_of_a_volume_is_immutable(api: aiohttp.ClientSession) -> None:
    await call(api, "POST", VOLUMES, volume())
    patch = {"spec": {"hostPath": {"path": "/other"}}}
    code, answer = await call(api, "PATCH", f"{VOLUMES}/pv", patch, **MERGE)
    assert code == 422
    assert "spec.persistentvolumesource is immutable after creation\n" in answer["message"]
    assert '-  "Path": "/data",\n+  "Path": "/other",\n' in answer["message"]


async def test_the_time_of_a_phase_is_set(api: aiohttp.ClientSession) -> None:
    _, created = await call(api, "POST", VOLUMES, volume())
    assert created["status"]["lastPhaseTransitionTime"] == created["metadata"]["creationTimestamp"]
    assert created["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    patch = {"status": {"phase": "Available"}}
    _, changed = await call(api, "PATCH", f"{VOLUMES}/pv/status", patch, **MERGE)
    assert changed["status"]["phase"] == "Available"
    assert changed["status"]["lastPhaseTransitionTime"]


async def test_changes_of_a_bound_claim(api: aiohttp.ClientSession, served: Served) -> None:
    """The messages are recorded from a real API server."""
    await publish_standard_class(served.store, SystemClock())
    path = f"{CLAIMS}/data"
    await call(api, "POST", CLAIMS, claim(storageClassName=""))

    async def change(**spec: Any) -> tuple[int, str]:
        code, answer = await call(api, "PATCH", path, {"spec": spec}, **MERGE)
        return code, answer.get("message", "")

    def size(text: str) -> dict[str, Any]:
        return {"requests": {"storage": text}}

    assert (await change(volumeName="pv"))[0] == 200
    assert (await change(resources=size("800Mi")))[0] == 422
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    assert (await call(api, "PATCH", f"{path}/status", status, **MERGE))[0] == 200
    assert await change(resources=size("100Mi")) == (
        422,
        (
            'PersistentVolumeClaim "data" is invalid: spec.resources.requests.storage:'
            " Forbidden: field"
            " can not be less than status.capacity"
        ),
    )
    assert await change(resources=size("800Mi")) == (
        403,
        (
            'persistentvolumeclaims "data" is forbidden: only dynamically provisioned pvc can be'
            " resized and the storageclass that provisions the pvc must support resize"
        ),
    )
    assert await change(accessModes=["ReadWriteMany"]) == (
        422,
        (
            'PersistentVolumeClaim "data" is invalid: spec: Forbidden: spec is immutable after'
            " creation"
            " except resources.requests and volumeAttributesClassName for bound claims\n"
            '@@ -1,6 +1,6 @@\n {\n  "AccessModes": [\n-  "ReadWriteOnce"\n+  "ReadWriteMany"\n '
            " ],\n"
            '  "Selector": null,\n  "Resources": {\n'
        ),
    )


async def test_a_claim_of_a_class_that_allows_it_may_grow(
    api: aiohttp.ClientSession, served: Served
) -> None:
    await publish_standard_class(served.store, SystemClock())
    await call(api, "POST", CLAIMS, claim(volumeName="pv"))
    status = {"status": {"phase": "Bound", "capacity": {"storage": "500Mi"}}}
    await call(api, "PATCH", f"{CLAIMS}/data/status", status, **MERGE)
    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    code, changed = await call(api, "PATCH", f"{CLAIMS}/data", patch, **MERGE)
    assert code == 200
    assert changed["spec"]["resources"]["requests"] == {"storage": "2Gi"}


async def test_the_two_fields_of_a_data_source(api: aiohttp.ClientSession) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "other"}
    _, created = await call(api, "POST", CLAIMS, claim(dataSource=source))
    assert created["spec"]["dataSourceRef"] == source
    unknown = {"apiGroup": "example.com", "kind": "Backup", "name": "b"}
    _, created = await call(api, "POST", CLAIMS, claim("b", dataSource=unknown))
    assert "dataSource" not in created["spec"]
    _, created = await call(api, "POST", CLAIMS, claim("c", dataSourceRef=unknown))
    assert created["spec"]["dataSource"] == unknown
    elsewhere = {**unknown, "namespace": "other"}
    _, created = await call(api, "POST", CLAIMS, claim("d", dataSourceRef=elsewhere))
    assert created["spec"].keys().isdisjoint({"dataSource", "dataSourceRef"})


async def test_the_class_of_a_claim_without_a_class_is_immutable(
    api: aiohttp.ClientSession,
) -> None:
    await call(api, "POST", CLAIMS, claim(storageClassName=""))
    await call(api, "POST", CLAIMS, claim("open"))
    patch = {"spec": {"storageClassName": "q"}}
    code, answer = await call(api, "PATCH", f"{CLAIMS}/data", patch, **MERGE)
    assert code == 422
    assert '- "StorageClassName": "",\n+ "StorageClassName": "q",\n' in answer["message"]
    assert (await call(api, "PATCH", f"{CLAIMS}/open", patch, **MERGE))[0] == 200
