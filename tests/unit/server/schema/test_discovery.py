from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from served import OpenAccess, Served

from podtui.server import StatusError, build_app
from podtui.server.resources.definitions import ABSENT
from podtui.server.schema import catalog

REAL = json.loads(Path(__file__).with_name("recorded_discovery.json").read_text())
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
            for served in group["versions"]:
                name = f"{group['metadata'].get('name', '')}/{served['version']}".lstrip("/")
                found[name] = {item["resource"] for item in served["resources"]}
    served = {(g.api_version, r.plural) for g in catalog.group_versions() for r in g.resources}
    assert {(group, name) for group, names in found.items() for name in names} == served
    assert {
        ("v1", "pods"),
        ("podtui.dev/v1alpha1", "manifests"),
        ("metrics.k8s.io/v1beta1", "nodes"),
        ("autoscaling/v1", "horizontalpodautoscalers"),
        ("autoscaling/v2", "horizontalpodautoscalers"),
    } <= served
    # Clients do not keep a group without resources, and ask for all of them each time.
    assert all(found.values())


async def test_clients_keep_the_aggregated_form_by_its_tag(http: aiohttp.ClientSession) -> None:
    for path in ("/api", "/apis"):
        async with http.get(path, headers={"Accept": KUBECTL}) as response:
            tag = response.headers["ETag"]
            assert response.headers["Cache-Control"] == "public"
        async with http.get(path, headers={"Accept": KUBECTL, "If-None-Match": tag}) as response:
            assert (response.status, await response.read()) == (304, b"")
            assert response.headers["ETag"] == tag
        async with http.get(path, headers={"If-None-Match": tag}) as response:
            assert (response.status, response.headers.get("ETag")) == (200, None)


async def test_plain_lists_lead_to_every_resource(http: aiohttp.ClientSession) -> None:
    assert (await (await http.get("/api")).json())["versions"] == ["v1"]
    groups = (await (await http.get("/apis")).json())["groups"]
    roots = ["/api/v1", *(f"/apis/{v['groupVersion']}" for g in groups for v in g["versions"])]
    listed = 0
    for root in roots:
        document = await (await http.get(root)).json()
        assert document["kind"] == "APIResourceList"
        for resource in document["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"]:
                continue
            listed += 1
            async with http.get(f"{root}/{resource['name']}") as response:
                assert (await response.json())["kind"] == resource["kind"] + "List"
    assert listed >= 8
    for group in groups:
        assert (await (await http.get(f"/apis/{group['name']}")).json())["kind"] == "APIGroup"


@pytest.mark.parametrize("path", sorted(REAL.keys() & {g.path for g in catalog.group_versions()}))
async def test_rows_are_those_of_a_real_api_server(path: str, http: aiohttp.ClientSession) -> None:
    """The recorded rows are of Kubernetes v1.36.2; verbs that are not served may be missing."""
    async with http.get(f"/{path}") as response:
        rows = {row["name"]: row for row in (await response.json())["resources"]}
    absent = {one.plural for one in ABSENT if one.root == f"/{path}"}
    assert rows.keys() - REAL[path].keys() == absent
    for name in rows.keys() & REAL[path].keys():
        row, real = rows[name], REAL[path][name]
        assert set(row["verbs"]) <= set(real["verbs"]), name
        assert {**row, "verbs": []} == {"name": name, **real, "verbs": []}


async def test_a_slash_at_the_end_of_a_path_is_accepted(http: aiohttp.ClientSession) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/podtui.dev", "/apis/podtui.dev/v1alpha1"):
        async with http.get(path) as plain, http.get(f"{path}/") as slashed:
            assert (plain.status, await plain.read()) == (200, await slashed.read())


async def test_the_root_lists_paths_that_are_served(http: aiohttp.ClientSession) -> None:
    async with http.get("/") as response:
        paths: list[str] = (await response.json())["paths"]
    assert {"/api/v1", "/apis/events.k8s.io/v1", "/version", "/openapi/v3"} <= set(paths)
    assert paths == sorted(paths)
    codes: dict[str, int] = {}
    for path in paths:
        async with http.get(path) as response:
            codes[path] = response.status
    # The agent adds the routes of tokens and figures.
    extra = {"/.well-known/openid-configuration", "/openid/v1/jwks", "/metrics"}
    assert {path for path, code in codes.items() if code != 200} == extra


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
        ("/livez/ping", 200),
        ("/readyz/syncloop", 500),
        ("/healthz?exclude=syncloop", 200),
    ],
)
async def test_health(path: str, sick: int, served: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")
    served.kubelet.health["syncloop"] = "sync loop is stuck"
    async with http.get(path) as response:
        assert response.status == sick
        assert ("sync loop is stuck" in await response.text()) == (sick == 500)


async def test_verbose_health(served: Served, http: aiohttp.ClientSession) -> None:
    async with http.get("/readyz?verbose") as response:
        assert await response.text() == (
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]parts ok\nreadyz check passed\n"
        )
    served.kubelet.health["syncloop"] = "it is stuck"
    async with http.get("/livez?verbose&exclude=ping") as response:
        assert response.status == 500
        assert await response.text() == (
            "[+]ping excluded: ok\n[+]log ok\n[-]syncloop failed: it is stuck\n[+]parts ok\n"
            "livez check failed\n"
        )


async def test_unknown_health_checks(http: aiohttp.ClientSession) -> None:
    async with http.get("/healthz/nosuch") as response:
        assert (await response.json())["code"] == 404


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
