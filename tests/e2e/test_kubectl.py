"""The real kubectl against the API, over plain HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from msgspec import structs
from real_kubectl import kubectl
from served import Served, line, pod, put_records, serving

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import Pod

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "s.sock") as it:
        yield it


@pytest.fixture
async def start(served: Served, tmp_path: Path) -> AsyncIterator[Start]:
    """Start kubectl with some arguments; it is killed at the end if it still runs."""
    site = web.TCPSite(served.runner, "127.0.0.1", 0)
    await site.start()
    port = served.runner.addresses[-1][1]
    await put_records(served.store)
    running: list[asyncio.subprocess.Process] = []

    async def begin(*arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            kubectl(),
            f"--server=http://127.0.0.1:{port}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": os.devnull},
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def run(start: Start) -> Callable[..., Awaitable[str]]:
    async def run(*arguments: str, code: int = 0) -> str:
        process = await start(*arguments)
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode == code, err.decode()
        return out.decode() if code == 0 else err.decode()

    return run


Run = Callable[..., Awaitable[str]]


async def test_get_pods(run: Run) -> None:
    head, first, second = (await run("get", "pods")).splitlines()
    assert head.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert first.split()[:4] == ["db", "0/1", "Pending", "0"]
    assert second.split()[:4] == ["web", "1/1", "Running", "0"]
    wide = await run("get", "po", "-A", "-o", "wide", "--show-labels")
    assert "NOMINATED NODE" in wide
    assert "app=web" in wide
    assert "other" in wide
    assert "far" in wide


async def test_get_with_selectors_and_formats(run: Run) -> None:
    by_label = await run("get", "pods", "-l", "app in (web),!x", "-o", "name")
    assert by_label.split() == ["pod/web"]
    by_field = await run("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name")
    assert by_field.split() == ["pod/db"]
    assert "podIP: 10.0.0.7" in await run("get", "pod", "web", "-o", "yaml")
    listing = json.loads(await run("get", "pods", "-o", "json"))
    assert [item["kind"] for item in listing["items"]] == ["Pod", "Pod"]
    by_age = await run("get", "pods", "--sort-by", ".metadata.creationTimestamp")
    assert "web" in by_age


async def test_get_other_resources(run: Run) -> None:
    nodes = await run("get", "nodes", "-o", "wide")
    assert nodes.splitlines()[1].split()[:3] == ["node", "Ready", "<none>"]
    assert "docker://20.10.24" in nodes
    events = await run("get", "events")
    assert "Container started" in events
    assert "pod/web" in events
    assert "Container started" in await run("events", "--for", "pod/web")
    assert (await run("get", "ns", "-o", "name")).split() == [
        "namespace/default",
        "namespace/kube-node-lease",
        "namespace/kube-public",
        "namespace/kube-system",
    ]
    assert "web" in await run("get", "all")
    resources = [row.split() for row in (await run("api-resources")).splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in resources
    assert ["manifests", "mf", "podtui.dev/v1alpha1", "false", "Manifest"] in resources
    assert await run("get", "manifests") == ""


async def test_describe(run: Run) -> None:
    words = await run("describe", "pod", "web")
    assert "Status:       Running" in words
    assert "Container started" in words
    described = await run("describe", "node", "node")
    assert "KubeletReady" in described
    assert "Non-terminated Pods:" in described


def mirror(name: str) -> Pod:
    """Return the record of a pod from a manifest; the kubelet adds its ephemeral containers."""
    item = pod(name)
    metadata = structs.replace(item.metadata, annotations={CONFIG_MIRROR: "1"})
    return structs.replace(item, metadata=metadata)


async def test_debug(run: Run, served: Served) -> None:
    await served.store.put("pods", mirror("web"))
    await run("debug", "web", "--image=busybox:1", "-c", "dbg", "--target=c", "--", "true")
    ((namespace, name, (wanted,)),) = served.kubelet.debugged
    assert (namespace, name) == ("default", "web")
    assert (wanted.name, wanted.targetContainerName) == ("dbg", "c")
    assert wanted.command == ("true",)
    await served.store.put("pods", mirror("refusing"))
    refused = await run("debug", "refusing", "--image=busybox:1", "--", "true", code=1)
    assert "not here" in refused


async def test_logs(run: Run, served: Served) -> None:
    served.kubelet.lines = [line(b"one"), line(b"two")]
    assert await run("logs", "web") == "one\ntwo\n"
    assert await run("logs", "web", "-c", "c", "--tail=1", "--timestamps") == (
        "2026-01-01T00:00:00.000000001Z two\n"
    )
    refused = await run("logs", "web", "-c", "waiting", code=1)
    assert "container waiting is not valid for pod web" in refused


async def test_logs_follow(start: Start, served: Served) -> None:
    process = await start("logs", "-f", "web")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        served.kubelet.more.put_nowait(line(b"live"))
        assert await process.stdout.readline() == b"live\n"
        served.kubelet.more.put_nowait(None)
        assert await process.wait() == 0


async def test_watch(start: Start, served: Served) -> None:
    process = await start("get", "pods", "-w")
    assert process.stdout is not None
    async with asyncio.timeout(120):
        for _ in range(3):
            await process.stdout.readline()
        await served.store.put("pods", pod("db", phase="Failed"))
        assert (await process.stdout.readline()).split()[:3] == [b"db", b"0/1", b"Failed"]


async def test_wait(run: Run, start: Start, served: Served) -> None:
    process = await start("wait", "pod/db", "--for=condition=Ready", "--timeout=120s")
    await served.store.put("pods", pod("db"))
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert out == b"pod/db condition met\n", err


async def test_top(run: Run) -> None:
    pods = await run("top", "pod")
    assert pods.splitlines()[1].split() == ["web", "12m", "3Mi"]
    assert "250m" in await run("top", "node")


async def test_version(run: Run) -> None:
    assert json.loads(await run("version", "-o", "json"))["serverVersion"]["gitVersion"] == (
        "v1.36.0+podtui-0.0.test"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", "pod", "x"), 'Error from server (NotFound): pods "x" not found'),
        (("get", "widgets"), "the server doesn't have a resource type"),
        (("get", "pods", "--field-selector", "spec.x=y"), "field label not supported: spec.x"),
    ],
)
async def test_kubectl_prints_refusals(arguments: tuple[str, ...], words: str, run: Run) -> None:
    assert words in await run(*arguments, code=1)
