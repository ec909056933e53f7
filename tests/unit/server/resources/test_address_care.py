"""ServiceCIDRs, and the IPAddresses of Services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.clock import SystemClock
from podtui.server.resources.address_care import AddressCare
from podtui.server.resources.cluster_services import publish_dns_service

pytestmark = pytest.mark.virtual_time
GROUP = "/apis/networking.k8s.io/v1"
CIDRS = f"{GROUP}/servicecidrs"
ADDRESSES = f"{GROUP}/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARENT = {"group": "mygroup", "resource": "myresources", "namespace": "foo", "name": "bar"}
IN_USE = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new"
    " ServiceCIDR"
)


@pytest.fixture
async def care(served: Served) -> AsyncIterator[None]:
    """Run the care as an agent does."""
    care = AddressCare(served.store, SystemClock())
    await publish_dns_service(served.store, SystemClock())
    await care.prepare()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(care.run())
        yield
        task.cancel()


async def send(
    http: aiohttp.ClientSession, method: str, path: str, code: int, body: Any = None
) -> Any:
    async with http.request(method, path, json=body) as response:
        document = json.loads(await response.read())
        assert response.status == code, document
        return document


def cidr(name: str, *ranges: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"cidrs": ranges}}


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"generateName": "web-"}, "spec": {"ports": [{"port": 80}], **spec}}


async def names(http: aiohttp.ClientSession, path: str) -> list[str]:
    await asyncio.sleep(1)
    return [item["metadata"]["name"] for item in (await send(http, "GET", path, 200))["items"]]


async def ready(http: aiohttp.ClientSession, name: str) -> tuple[str, str, str]:
    await asyncio.sleep(1)
    (condition,) = (await send(http, "GET", f"{CIDRS}/{name}/status", 200))["status"]["conditions"]
    assert condition["type"] == "Ready"
    assert condition["lastTransitionTime"]
    return condition["status"], condition["reason"], condition["message"]


async def test_the_default_range_is_that_of_an_api_server(
    care: None, http: aiohttp.ClientSession
) -> None:
    item = await send(http, "GET", f"{CIDRS}/kubernetes", 200)
    assert item["metadata"]["finalizers"] == ["networking.k8s.io/service-cidr-finalizer"]
    assert item["spec"] == {"cidrs": ["10.96.0.0/16"]}
    assert await ready(http, "kubernetes") == ("True", "", "Kubernetes Service CIDR is ready")
    async with http.get(CIDRS, headers=TABLE) as response:
        table = await response.json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "CIDRs", "Age"]
    assert table["rows"][0]["cells"][:2] == ["kubernetes", "10.96.0.0/16"]


async def test_the_default_range_stays_while_services_have_its_addresses(
    care: None, http: aiohttp.ClientSession
) -> None:
    before = await send(http, "DELETE", f"{CIDRS}/kubernetes", 200)
    assert await ready(http, "kubernetes") == ("False", "Terminating", IN_USE)
    # No address is allocated from it meanwhile.
    refusal = await send(http, "POST", SERVICES, 500, service())
    assert refusal["message"].endswith(": range is full")
    await send(http, "POST", CIDRS, 201, cidr("larger", "10.0.0.0/8"))
    # Nothing needs it any more; as in a cluster, it is created again.
    assert await ready(http, "kubernetes") == ("True", "", "Kubernetes Service CIDR is ready")
    after = await send(http, "GET", f"{CIDRS}/kubernetes", 200)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_services_get_addresses_of_another_range(
    care: None, http: aiohttp.ClientSession
) -> None:
    asked = service(clusterIP="203.0.113.10")
    refusal = await send(http, "POST", SERVICES, 422, asked)
    assert "the provided network does not match the current range" in refusal["message"]
    await send(http, "POST", CIDRS, 201, cidr("test", "203.0.113.0/24"))
    assert (await ready(http, "test"))[0] == "True"
    created = await send(http, "POST", SERVICES, 201, asked)
    for end in ("203.0.113.0", "203.0.113.255"):
        await send(http, "POST", SERVICES, 422, service(clusterIP=end))
    assert "203.0.113.10" in await names(http, ADDRESSES)

    await send(http, "DELETE", f"{CIDRS}/test", 200)
    assert await ready(http, "test") == ("False", "Terminating", IN_USE)
    await send(http, "POST", SERVICES, 422, service(clusterIP="203.0.113.11"))
    await send(http, "DELETE", f"{SERVICES}/{created['metadata']['name']}", 200)
    assert await names(http, ADDRESSES) == ["10.96.0.10"]
    assert await names(http, CIDRS) == ["kubernetes"]


async def test_a_service_has_the_addresses_that_name_it(
    care: None, http: aiohttp.ClientSession
) -> None:
    await send(http, "POST", SERVICES, 201, service(clusterIP="None"))
    created = await send(http, "POST", SERVICES, 201, service(clusterIP="10.96.0.9"))
    name = created["metadata"]["name"]
    assert await names(http, ADDRESSES) == ["10.96.0.10", "10.96.0.9"]
    item = await send(http, "GET", f"{ADDRESSES}/10.96.0.9", 200)
    assert item["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"namespace": "default", "resource": "services", "name": name}
    assert item["spec"] == {"parentRef": parent}
    async with http.get(f"{ADDRESSES}/10.96.0.9", headers=TABLE) as response:
        table = await response.json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "ParentRef"]
    assert table["rows"][0]["cells"] == ["10.96.0.9", f"services/default/{name}"]

    # It comes back when it is deleted or loses its labels, and goes with the Service.
    await send(http, "DELETE", f"{ADDRESSES}/10.96.0.9", 200)
    assert await names(http, ADDRESSES) == ["10.96.0.10", "10.96.0.9"]
    item = await send(http, "GET", f"{ADDRESSES}/10.96.0.9", 200)
    item["metadata"]["labels"] = {}
    await send(http, "PUT", f"{ADDRESSES}/10.96.0.9", 200, item)
    await names(http, ADDRESSES)
    item = await send(http, "GET", f"{ADDRESSES}/10.96.0.9", 200)
    assert item["metadata"]["labels"]
    await send(http, "DELETE", f"{SERVICES}/{name}", 200)
    assert await names(http, ADDRESSES) == ["10.96.0.10"]


async def test_an_address_of_somebody_else_is_not_allocated(
    care: None, http: aiohttp.ClientSession
) -> None:
    mine = {"metadata": {"name": "10.96.0.77"}, "spec": {"parentRef": PARENT}}
    await send(http, "POST", ADDRESSES, 201, mine)
    refusal = await send(http, "POST", SERVICES, 422, service(clusterIP="10.96.0.77"))
    assert "provided IP is already allocated" in refusal["message"]
    assert await names(http, ADDRESSES) == ["10.96.0.10", "10.96.0.77"]


async def test_a_small_range_is_used_up_to_its_ends(
    care: None, http: aiohttp.ClientSession
) -> None:
    await send(http, "DELETE", f"{CIDRS}/kubernetes", 200)
    await send(http, "POST", CIDRS, 201, cidr("small", "203.0.113.0/30"))
    await send(http, "POST", CIDRS, 201, cidr("smallest", "203.0.113.9/32"))
    created = [await send(http, "POST", SERVICES, 201, service()) for _ in range(2)]
    addresses = sorted(item["spec"]["clusterIP"] for item in created)
    assert addresses == ["203.0.113.1", "203.0.113.2"]
    await send(http, "POST", SERVICES, 500, service())


IMMUTABLE = "field is immutable"
INVALID = [
    (CIDRS, cidr("web"), "spec.cidrs: Required value: at least one CIDR required"),
    (
        CIDRS,
        cidr("web", "10.0.0.0/8", "fd00::/64", "fd01::/64"),
        (
            'spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/8","fd00::/64","fd01::/64"]}: may only'
            " hold up to 2 values"
        ),
    ),
    (
        CIDRS,
        cidr("web", "10.0.0.0/8", "11.0.0.0/8"),
        (
            'spec.cidrs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than one'
            " IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        ),
    ),
    (
        CIDRS,
        cidr("web", "10.0.0.1/8"),
        (
            'spec.cidrs[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix'
            " length"
        ),
    ),
    (
        CIDRS,
        cidr("web", "FD00::/64"),
        'spec.cidrs[0]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")',
    ),
    (
        CIDRS,
        cidr("web", "all"),
        (
            'spec.cidrs[0]: Invalid value: "all": must be a valid CIDR value, (e.g. 10.9.8.0/24 or'
            " 2001:db8::/64)"
        ),
    ),
    (
        ADDRESSES,
        {"metadata": {"name": "web"}, "spec": {"parentRef": PARENT}},
        (
            'metadata.name: Invalid value: "web": must be a valid IP address, (e.g. 10.9.8.7 or'
            " 2001:db8::ffff)"
        ),
    ),
    (
        ADDRESSES,
        {"metadata": {"name": "FD00::1"}, "spec": {"parentRef": PARENT}},
        'metadata.name: Invalid value: "FD00::1": must be in canonical form ("fd00::1")',
    ),
    (ADDRESSES, {"metadata": {"name": "10.0.0.1"}}, "spec.parentRef: Required value"),
    (
        ADDRESSES,
        {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"group": "A b"}}},
        (
            '[spec.parentRef.group: Invalid value: "A b": a lowercase RFC 1123 subdomain must'
            " consist of lower case alphanumeric characters, '-' or '.', and must start and end"
            " with an alphanumeric character (e.g. 'example.com', regex used for validation is"
            " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'),"
            " spec.parentRef.resource: Required value, spec.parentRef.name: Required value]"
        ),
    ),
    (
        ADDRESSES,
        {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {**PARENT, "namespace": "a/b"}}},
        "spec.parentRef.namespace: Invalid value: \"a/b\": may not contain '/'",
    ),
]


async def test_invalid_objects_are_refused_in_the_words_of_an_api_server(
    http: aiohttp.ClientSession,
) -> None:
    for path, body, text in INVALID:
        kind = "ServiceCIDR" if path == CIDRS else "IPAddress"
        message = (await send(http, "POST", path, 422, body))["message"]
        name = body["metadata"]["name"]
        assert message == f'{kind}.networking.k8s.io "{name}" is invalid: {text}'


async def test_what_an_update_may_change(http: aiohttp.ClientSession) -> None:
    item = {"metadata": {"name": "fd00::1"}, "spec": {"parentRef": PARENT}}
    path = f"{ADDRESSES}/fd00::1"
    await send(http, "POST", ADDRESSES, 201, item)
    item["metadata"]["labels"] = {"a": "b"}
    assert (await send(http, "PUT", path, 200, item))["metadata"]["labels"] == {"a": "b"}
    item["spec"] = {"parentRef": {**PARENT, "name": "other"}}
    shown = '{"Group":"mygroup","Resource":"myresources","Namespace":"foo","Name":"other"}'
    message = (await send(http, "PUT", path, 422, item))["message"]
    assert message.endswith(f"spec.parentRef: Invalid value: {shown}: {IMMUTABLE}")

    path = f"{CIDRS}/web"
    await send(http, "POST", CIDRS, 201, cidr("web", "10.0.0.0/8"))
    for ranges, text in (
        (["11.0.0.0/8"], f'spec.cidrs[0]: Invalid value: "11.0.0.0/8": {IMMUTABLE}'),
        (
            ["10.0.0.0/8", "fd00::/64", "fd01::/64"],
            f'spec.cidrs: Invalid value: ["10.0.0.0/8","fd00::/64","fd01::/64"]: {IMMUTABLE}',
        ),
        (
            ["10.0.0.0/8", "fd00::1/64"],
            (
                'spec.cidrs[1]: Invalid value: "fd00::1/64": must not have bits set beyond the'
                " prefix length"
            ),
        ),
    ):
        message = (await send(http, "PUT", path, 422, cidr("web", *ranges)))["message"]
        assert message.endswith(f'"web" is invalid: {text}')
    async with http.put(path, json=cidr("web", "10.0.0.0/8", "fd00::/64")) as response:
        assert response.status == 200
        (warning,) = response.headers.getall("Warning")
    assert warning == '299 - "podtui allocates IPv4 addresses only: fd00::/64 has no effect"'


async def test_a_write_of_the_status_changes_nothing_else(http: aiohttp.ClientSession) -> None:
    item = await send(http, "POST", CIDRS, 201, cidr("web", "10.0.0.0/8"))
    item["metadata"]["labels"] = {"a": "b"}
    item["spec"]["cidrs"] = ["11.0.0.0/8"]
    time = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "reason": "", "message": ""}
    item["status"]["conditions"] = [{**condition, "lastTransitionTime": time}]
    new = await send(http, "PUT", f"{CIDRS}/web/status", 200, item)
    assert new["status"] == item["status"]
    assert "labels" not in new["metadata"]
    assert new["spec"] == {"cidrs": ["10.0.0.0/8"]}
