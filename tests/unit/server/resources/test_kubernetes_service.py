"""The Service ``kubernetes`` and its endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from served import Served, put_records

from podtui.clock import SystemClock
from podtui.pki.access_point import AccessPoint
from podtui.server.resources.kubernetes_service import KubernetesService
from podtui.store import Store

pytestmark = pytest.mark.virtual_time
CORE = "/api/v1/namespaces/default"
SERVICE = f"{CORE}/services/kubernetes"
ENDPOINTS = f"{CORE}/endpoints/kubernetes"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SLICE = f"{SLICES}/kubernetes"


def service_of(store: Store, port: int, address: str = "127.0.0.1") -> KubernetesService:
    point = AccessPoint(address, port) if port else None
    return KubernetesService(store, point, SystemClock())


async def send(
    http: aiohttp.ClientSession, method: str, path: str, code: int, body: Any = None
) -> Any:
    async with http.request(method, path, json=body) as response:
        document = json.loads(await response.read())
        assert response.status == code, document
        return document


def without_identity(document: Any) -> Any:
    meta = document["metadata"]
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        assert meta.pop(key)
    for entry in meta.pop("managedFields"):
        assert (entry["manager"], entry["operation"]) == ("kube-apiserver", "Update")
    return document


async def test_the_objects_are_those_of_an_api_server(
    served: Served, http: aiohttp.ClientSession
) -> None:
    """As kubectl prints those of a cluster, except for the endpoint's address."""
    await service_of(served.store, 6443).prepare()
    assert without_identity(await send(http, "GET", SERVICE, 200)) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "name": "kubernetes",
            "namespace": "default",
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    }
    assert without_identity(await send(http, "GET", ENDPOINTS, 200)) == {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            "name": "kubernetes",
            "namespace": "default",
        },
        "subsets": [
            {
                "addresses": [{"ip": "127.0.0.1"}],
                "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            }
        ],
    }
    assert without_identity(await send(http, "GET", SLICE, 200)) == {
        "addressType": "IPv4",
        "apiVersion": "discovery.k8s.io/v1",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        "kind": "EndpointSlice",
        "metadata": {
            "generation": 1,
            "labels": {"kubernetes.io/service-name": "kubernetes"},
            "name": "kubernetes",
            "namespace": "default",
        },
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }


async def test_an_api_on_ipv6_has_an_endpoint_of_that_family(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await service_of(served.store, 6443, "::").prepare()
    found = await send(http, "GET", SLICE, 200)
    assert (found["addressType"], found["endpoints"][0]["addresses"]) == ("IPv6", ["::1"])


async def test_the_service_can_be_changed_until_the_next_start(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await put_records(served.store)
    await service_of(served.store, 6443).prepare()
    service = await send(http, "GET", SERVICE, 200)
    service["metadata"]["labels"]["mine"] = "yes"
    service["spec"]["sessionAffinity"] = "ClientIP"
    changed = await send(http, "PUT", SERVICE, 200, service)
    assert changed["spec"]["sessionAffinity"] == "ClientIP"
    await service_of(served.store, 6443).prepare()
    corrected = await send(http, "GET", SERVICE, 200)
    assert corrected["metadata"]["labels"]["mine"] == "yes"
    assert corrected["metadata"]["uid"] == service["metadata"]["uid"]
    assert corrected["spec"]["sessionAffinity"] == "None"


async def test_a_start_changes_nothing_unless_the_port_is_another(
    served: Served, http: aiohttp.ClientSession
) -> None:
    paths = (SERVICE, ENDPOINTS, SLICE)
    await service_of(served.store, 6443).prepare()
    first = [await send(http, "GET", path, 200) for path in paths]
    await service_of(served.store, 6443).prepare()
    assert [await send(http, "GET", path, 200) for path in paths] == first
    await service_of(served.store, 7443).prepare()
    second = [await send(http, "GET", path, 200) for path in paths]
    for before, after in zip(first, second, strict=True):
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert second[0]["spec"]["ports"][0]["targetPort"] == 7443
    assert second[1]["subsets"][0]["ports"][0]["port"] == 7443
    assert second[2]["ports"][0]["port"] == 7443
    assert second[2]["metadata"]["generation"] == 2
    await service_of(served.store, 0).prepare()
    for path in paths:
        await send(http, "GET", path, 404)


async def test_what_is_deleted_or_changed_comes_back(
    served: Served, http: aiohttp.ClientSession
) -> None:
    service = service_of(served.store, 6443)
    await service.prepare()
    endpoints = await send(http, "GET", ENDPOINTS, 200)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(service.run())
        try:
            await asyncio.sleep(1)
            for path in (SERVICE, ENDPOINTS, SLICE):
                await send(http, "DELETE", path, 200)
                await asyncio.sleep(1)
                await send(http, "GET", path, 200)
            endpoints["subsets"][0]["addresses"][0]["ip"] = "10.9.8.7"
            del endpoints["metadata"]["resourceVersion"], endpoints["metadata"]["uid"]
            await send(http, "PUT", ENDPOINTS, 200, endpoints)
            await asyncio.sleep(1)
            corrected = await send(http, "GET", ENDPOINTS, 200)
            assert corrected["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]
        finally:
            task.cancel()


async def test_services_as_a_table(served: Served, http: aiohttp.ClientSession) -> None:
    await service_of(served.store, 6443).prepare()
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with http.get(f"{CORE}/services", headers=accept) as response:
        table = await response.json()
    [row] = table["rows"]
    cells = row["cells"]
    assert cells[:5] == ["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP"]
    assert len(cells) == len(table["columnDefinitions"])
