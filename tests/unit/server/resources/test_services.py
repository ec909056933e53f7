"""The addresses and ports of Services, and the warnings about them."""

from __future__ import annotations

import asyncio
import json
import random
import re
from ipaddress import IPv4Address
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.api.v1 import ObjectMeta, Service, ServicePort, ServiceSpec
from podtui.manifest.strategies.services import SERVICES
from podtui.server.resources.cluster_services import dns_service
from podtui.server.resources.kubernetes_service import kubernetes_service
from podtui.server.resources.service_addresses import ADDRESSES, NODE_PORTS, Allocation
from podtui.server.status import StatusError
from podtui.store.protocol import RecordList
from podtui.store.resources import Resource

PATH = "/api/v1/namespaces/default/services"
WEB = ServicePort(name="web", port=80, protocol="TCP", targetPort=80)


def service(
    name: str, *addresses: str, ports: tuple[int, ...] = (), kind: str = "ClusterIP"
) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ServiceSpec(
            type=kind,
            clusterIP=addresses[0] if addresses else "",
            clusterIPs=addresses,
            ports=tuple(
                ServicePort(name=f"p{port}", port=port, protocol="TCP", nodePort=port)
                for port in ports
            )
            or (WEB,),
        ),
    )


def allocation(*others: Service) -> Allocation:
    return Allocation("web", others, random.Random(1))


async def create(http: aiohttp.ClientSession, name: str, **spec: Any) -> tuple[Any, list[str]]:
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    async with http.post(PATH, json=body) as response:
        document = json.loads(await response.read())
        assert response.status == 201, document
        return document, response.headers.getall("Warning", [])


async def test_services_that_are_created_at_once_get_different_addresses_and_ports(
    served: Served, http: aiohttp.ClientSession
) -> None:
    pairs = await asyncio.gather(
        *(create(http, f"web-{number}", type="NodePort") for number in range(40))
    )
    specs = [document["spec"] for document, _ in pairs]
    assert len({spec["clusterIP"] for spec in specs}) == 40
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 40
    for spec in specs:
        # The beginning of each range is left to clients that choose.
        assert IPv4Address(spec["clusterIP"]) >= ADDRESSES[256]
        assert spec["ports"][0]["nodePort"] >= NODE_PORTS[86]
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_one_of_several_services_gets_the_address_that_all_of_them_ask_for(
    served: Served, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_records = served.store.list

    async def slow_list(resource: Resource, namespace: str = "") -> RecordList:
        listing = await list_records(resource, namespace)
        await asyncio.sleep(0.01)
        return listing

    monkeypatch.setattr(served.store, "list", slow_list)

    async def code(name: str) -> int:
        spec = {"ports": [{"port": 80}], "clusterIP": "10.96.0.8"}
        async with http.post(PATH, json={"metadata": {"name": name}, "spec": spec}) as response:
            return response.status

    codes = await asyncio.gather(*(code(f"web-{number}") for number in range(4)))
    assert sorted(codes) == [201, 422, 422, 422]


async def test_an_address_is_free_again_when_its_service_is_deleted(
    http: aiohttp.ClientSession,
) -> None:
    await create(http, "one", clusterIP="10.96.0.7")
    async with http.delete(f"{PATH}/one") as response:
        assert response.status == 200
    await create(http, "two", clusterIP="10.96.0.7")


async def test_a_condition_without_a_time_has_null(http: aiohttp.ClientSession) -> None:
    document, _ = await create(http, "web")
    fields = {"type": "A", "status": "True", "reason": "R", "message": ""}
    for time in ({}, {"lastTransitionTime": None}):
        document["status"]["conditions"] = [fields | time]
        async with http.put(f"{PATH}/web/status", json=document) as response:
            document = await response.json()
        assert response.status == 200, document
        assert document["status"]["conditions"] == [fields | {"lastTransitionTime": None}]


def test_the_service_of_the_api_keeps_the_rules() -> None:
    item = kubernetes_service(6443)
    assert list(SERVICES.validate_create(item)) == []
    assert list(SERVICES.validate_update(item, item)) == []
    assert allocation().updated(item, item) == item


@pytest.mark.parametrize("address", ["10.96.0.1"])
def test_the_addresses_of_the_cluster_itself_are_reserved(address: str) -> None:
    text = re.escape(f"{address}: provided IP is already allocated")
    with pytest.raises(StatusError, match=text):
        allocation().created(service("web", address))


def test_the_service_of_names_keeps_the_rules() -> None:
    item = dns_service()
    assert list(SERVICES.validate_create(item)) == []
    assert allocation().updated(item, item) == item


def test_a_full_range_is_an_internal_error() -> None:
    network = list(ADDRESSES)
    all_but_one = [service(str(index), str(ip)) for index, ip in enumerate(network[2:-2])]
    last = allocation(*all_but_one).created(service("web"))
    assert last.spec.clusterIP == "10.96.255.254"
    with pytest.raises(StatusError) as raised:
        allocation(*all_but_one, last).created(service("web"))
    assert raised.value.code == 500
    text = 'failed to allocate a serviceIP for Service "web": range is full'
    assert str(raised.value) == f"Internal error occurred: {text}"
    taken = service("all", "10.96.0.9", ports=tuple(NODE_PORTS), kind="NodePort")
    with pytest.raises(StatusError, match="failed to allocate a nodePort: range is full"):
        allocation(taken).created(service("web", kind="NodePort"))


def test_the_chosen_part_of_a_range_is_used_when_the_rest_is_full() -> None:
    taken = service("most", "10.96.0.9", ports=tuple(NODE_PORTS[86:]), kind="NodePort")
    created = allocation(taken).created(service("web", kind="NodePort"))
    assert created.spec.ports[0].nodePort in NODE_PORTS[:86]
