from __future__ import annotations

import json

import aiohttp
import pytest
from aiohttp import web
from served import OpenAccess, Served, pod

from podtui.server import StatusError, build_app

KUBECTL = ",".join(
    [
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    ]
)


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated(version: str, http: aiohttp.ClientSession) -> None:
    kind = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    accept = {"Accept": KUBECTL if version == "v2" else kind}
    found: dict[str, set[str]] = {}
    for path in ("/api", "/apis"):
        async with http.get(path, headers=accept) as response:
            assert response.headers["Content-Type"] == kind
            document = json.loads(await response.read())
        assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        for group in document["items"]:
            [served] = group["versions"]
            resources = served["resources"]
            found[group["metadata"]["name"]] = {item["resource"] for item in resources}
    assert found == {
        "": {
            "configmaps",
            "events",
            "namespaces",
            "nodes",
            "pods",
            "secrets",
            "serviceaccounts",
        },
        "events.k8s.io": {"events"},
        "coordination.k8s.io": {"leases"},
        "podtui.dev": {"manifests", "timelines"},
        "metrics.k8s.io": {"pods", "nodes"},
    }


async def test_plain_lists_lead_to_every_resource(http: aiohttp.ClientSession) -> None:
    assert (await (await http.get("/api")).json())["versions"] == ["v1"]
    groups = (await (await http.get("/apis")).json())["groups"]
    roots = ["/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups)]
    assert len(roots) == 5
    for root in roots:
        document = await (await http.get(root)).json()
        assert document["kind"] == "APIResourceList"
        for resource in document["resources"]:
            if "/" in resource["name"]:
                continue
            async with http.get(f"{root}/{resource['name']}") as response:
                assert (await response.json())["kind"] == resource["kind"] + "List"
    for group in groups:
        assert (await (await http.get(f"/apis/{group['name']}")).json())["kind"] == "APIGroup"


async def test_version(http: aiohttp.ClientSession) -> None:
    document = await (await http.get("/version")).json()
    assert (document["major"], document["minor"]) == ("1", "36")
    assert document["gitVersion"] == "v1.36.0+podtui-0.0.test"


@pytest.mark.parametrize(
    ("path", "sick"),
    [
        ("/healthz", 500),
        ("/healthz/syncloop", 500),
        ("/livez", 500),
        ("/readyz", 500),
        ("/healthz/ping", 200),
        ("/healthz/log", 200),
    ],
)
async def test_health(path: str, sick: int, served: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")
    served.kubelet.health = (False, "sync loop is stuck")
    async with http.get(path) as response:
        assert response.status == sick
        assert ("sync loop is stuck" in await response.text()) == (sick == 500)


async def test_health_checks_that_are_none(http: aiohttp.ClientSession) -> None:
    async with http.get("/healthz/nosuch") as response:
        assert (await response.json())["code"] == 404


async def test_the_kubelets_pods(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("web"))
    document = await (await http.get("/pods")).json()
    assert document["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in document["items"]] == ["web"]


async def test_retry(served: Served, http: aiohttp.ClientSession) -> None:
    path = "/apis/podtui.dev/v1alpha1/namespaces/default/pods/{}/retry"
    async with http.post(path.format("web")) as response:
        assert (await response.json())["status"] == "Success"
    assert served.kubelet.retried == [("default", "web")]
    async with http.post(path.format("missing")) as response:
        assert (response.status, (await response.json())["reason"]) == (404, "NotFound")


async def test_a_transport_can_ask_for_a_token_and_add_routes(served: Served) -> None:
    @web.middleware
    async def token(request: web.Request, handler):  # type: ignore[no-untyped-def]
        if request.headers.get("Authorization") != "Bearer t":
            raise StatusError(401, "Unauthorized")
        return await handler(request)

    async def extra(request: web.Request) -> web.Response:
        return web.Response(text="extra")

    app = build_app(
        served.store,
        served.kubelet,
        version="1",
        extra_routes=[web.get("/extra", extra)],
        middlewares=[token],
        access=OpenAccess(),
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession(base) as http:
        async with http.get("/version") as response:
            assert (response.status, (await response.json())["reason"]) == (401, "Unauthorized")
        async with http.get("/extra", headers={"Authorization": "Bearer t"}) as response:
            assert await response.text() == "extra"
    await runner.cleanup()
