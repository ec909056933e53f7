"""The rates of a node's requests to the API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from virtual_time import VirtualClock

from podtui.agent.request_limits import RequestLimits, limit_of
from podtui.client.connection import Request
from podtui.settings import Settings

POD = "/api/v1/namespaces/default/pods/web"


@pytest.mark.parametrize(
    ("method", "path", "params", "limit"),
    [
        ("GET", "/api/v1/pods", {"limit": "500"}, "requests"),
        ("GET", "/api/v1/pods", {"watch": "true"}, ""),
        ("PATCH", f"{POD}/status", None, "requests"),
        ("POST", "/api/v1/namespaces/default/events", None, "events"),
        ("PATCH", "/api/v1/namespaces/default/events/web.1", None, "events"),
        ("GET", "/api/v1/namespaces/events/pods/events", None, "requests"),
        ("PATCH", "/api/v1/nodes/n1/status", None, ""),
        ("GET", "/api/v1/nodes", None, "requests"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", None, ""),
    ],
)
def test_the_limit_of_a_request(
    method: str, path: str, params: dict[str, str] | None, limit: str
) -> None:
    assert limit_of(Request(method=method, path=path, params=params)) == limit


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("qps", "burst", "expected"), [(50, 100, 300 / 50), (10, 20, 380 / 10), (0, 0, 390 / 5)]
)
async def test_requests_beyond_the_burst_wait(qps: int, burst: int, expected: float) -> None:
    settings = Settings(
        rootDir=Path("/"),
        staticPodPath=Path("/"),
        nodeName="n1",
        kubeAPIQPS=qps,
        kubeAPIBurst=burst,
    )
    clock = VirtualClock()
    limits = RequestLimits(settings, clock)
    request = Request(method="PATCH", path=f"{POD}/status")
    sent: list[int] = []

    async def send(number: int) -> None:
        await limits.wait(request)
        sent.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(400):
            group.create_task(send(number))
        await asyncio.sleep(0.001)
        # Heartbeats and events do not wait for them.
        await limits.wait(Request(method="PATCH", path="/api/v1/nodes/n1/status"))
        await limits.wait(Request(method="POST", path="/api/v1/namespaces/default/events"))
        assert clock.monotonic() < 0.01
    assert sent == [*range(400)]
    assert clock.monotonic() == pytest.approx(expected, rel=0.02)
