"""kubectl scales and explains workloads, over an API without an agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from real_kubectl import kubectl
from served import serving

Kubectl = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Return a function that runs kubectl, and returns its code and its output."""
    async with serving(tmp_path / "s.sock") as served:
        site = web.TCPSite(served.runner, "127.0.0.1", 0)
        await site.start()
        address = served.runner.addresses[-1]

        async def call(*arguments: str) -> tuple[int, str]:
            process = await asyncio.create_subprocess_exec(
                kubectl(),
                f"--server=http://127.0.0.1:{address[1]}",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            )
            output, _ = await process.communicate()
            return process.returncode or 0, output.decode()

        yield call


async def test_kubectl_scales_what_has_replicas(run: Kubectl) -> None:
    assert await run("create", "deployment", "web", "--image=busybox:1", "--replicas=2") == (
        0,
        "deployment.apps/web created\n",
    )
    assert await run("scale", "deployment/web", "--replicas=3", "--current-replicas=2") == (
        0,
        "deployment.apps/web scaled\n",
    )
    assert await run("scale", "deployment/web", "--replicas=4", "--current-replicas=2") == (
        1,
        "error: Expected replicas to be 2, was 3\n",
    )
    code, version = await run(
        "get", "deployment", "web", "-o", "jsonpath={.metadata.resourceVersion}"
    )
    assert code == 0
    arguments = ("scale", "deployment/web", "--replicas=5", f"--resource-version={version}")
    assert await run(*arguments) == (0, "deployment.apps/web scaled\n")
    code, text = await run(*arguments)
    assert (code, text.partition(",")[0]) == (
        1,
        f"error: Expected resource version to be {version}",
    )
    code, text = await run("get", "deployment", "web", "--subresource=scale")
    assert (code, [line.split()[:3] for line in text.splitlines()]) == (
        0,
        [["NAME", "DESIRED", "AVAILABLE"], ["web", "5", "0"]],
    )
    code, text = await run("get", "deployments", "-o", "wide")
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR".split()
    assert rows[1][:4] == ["web", "0/5", "0", "0"]
    assert rows[1][5:] == ["busybox", "busybox:1", "app=web"]


async def test_kubectl_explains_a_strategy(run: Kubectl) -> None:
    code, text = await run("explain", "deployment.spec.strategy.rollingUpdate")
    assert code == 0
    assert "How many pods are replaced at the same time." in text
    assert "maxSurge\t<IntOrString>\n    Number or percentage of pods above" in text
