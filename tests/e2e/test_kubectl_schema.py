"""kubectl with the served schema: explain, api-resources, patches by list keys."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from kubectl import NEWEST, OLDER
from real_kubectl import kubectl
from served import Served, event, node, serving

Run = Callable[..., Awaitable[str]]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "nodeName": "node",
        "containers": [
            {"name": "a", "image": "busybox:1", "env": [{"name": "A", "value": "1"}]},
        ],
    },
}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "s.sock") as it:
        await it.store.put("nodes", node())
        await it.store.put("events", event("web.1"))
        yield it


@pytest.fixture(params=[NEWEST, *OLDER])
async def run(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Run:
    """Return the output of kubectl, or its standard error if it fails."""
    site = web.TCPSite(served.runner, "127.0.0.1", 0)
    await site.start()
    port = served.runner.addresses[-1][1]

    async def run(*arguments: str, code: int = 0, document: object = None) -> str:
        process = await asyncio.create_subprocess_exec(
            kubectl(request.param),
            f"--server=http://127.0.0.1:{port}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": os.devnull},
        )
        try:
            async with asyncio.timeout(120):
                out, err = await process.communicate(json.dumps(document).encode())
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == code, err.decode()
        return out.decode() if code == 0 else err.decode()

    return run


async def test_explain(run: Run) -> None:
    text = await run("explain", "pod.spec.containers.livenessProbe.httpGet.port")
    assert "FIELD: port <IntOrString>" in text
    assert "Number of the port, or its name among the container's ports." in text
    assert "KIND:       ConfigMap" in await run("explain", "cm")
    assert "GROUP:      podtui.dev" in await run("explain", "manifests")
    assert "GROUP:      metrics.k8s.io" in await run("explain", "podmetrics")


async def test_explain_recursively(run: Run) -> None:
    lines = (await run("explain", "pods", "--recursive")).splitlines()
    assert len(lines) > 1000
    assert "    terminationGracePeriodSeconds\t<integer>" in lines
    assert "    nodeSelector\t<map[string]string>" in lines


async def test_explain_of_an_unknown_resource_or_field(run: Run) -> None:
    assert 'field "nothing" does not exist' in await run("explain", "pod.spec.nothing", code=1)


async def test_api_resources(run: Run) -> None:
    rows = {
        tuple(row.split())
        for row in (await run("api-resources", "-o", "wide", "--no-headers")).splitlines()
    }
    every = "create,delete,deletecollection,get,list,patch,update,watch"
    assert ("pods", "po", "v1", "true", "Pod", every, "all") in rows
    assert ("bindings", "v1", "true", "Binding", "create") in rows
    assert ("events", "ev", "events.k8s.io/v1", "true", "Event", every) in rows
    assert ("leases", "coordination.k8s.io/v1", "true", "Lease", every) in rows


async def test_wide_columns_of_events_are_in_order(run: Run) -> None:
    [head, *_] = (await run("get", "events", "-o", "wide")).splitlines()
    assert head.split() == (
        "LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME".split()
    )


async def test_an_unknown_field_is_refused(run: Run) -> None:
    document = {**POD, "spec": {**POD["spec"], "bogus": 1}}  # type: ignore[dict-item]
    refusal = await run("create", "-f", "-", code=1, document=document)
    assert 'unknown field "spec.bogus"' in refusal


async def test_a_strategic_patch_merges_by_names(run: Run) -> None:
    assert "created" in await run("create", "-f", "-", document=POD)
    change = {"spec": {"containers": [{"name": "a", "image": "busybox:2"}]}}
    assert "patched" in await run("patch", "pod", "web", "-p", json.dumps(change))
    found = json.loads(await run("get", "pod", "web", "-o", "json"))
    [container] = found["spec"]["containers"]
    assert container["image"] == "busybox:2"
    assert container["env"] == [{"name": "A", "value": "1"}]


async def test_apply(run: Run) -> None:
    """Older versions look up in ``/openapi/v2`` whether the server validates fields."""
    apply = ("apply", "-f", "-")
    assert "created" in await run(*apply, document=POD)
    assert "unchanged" in await run(*apply, document=POD)
    labelled = {**POD, "metadata": {"name": "web", "labels": {"tier": "first"}}}
    assert "configured" in await run(*apply, document=labelled)
    assert "serverside-applied" in await run(
        *apply, "--server-side", "--force-conflicts", document=labelled
    )
    labels = await run("get", "pod", "web", "-o", "jsonpath={.metadata.labels}")
    assert json.loads(labels) == {"tier": "first"}
