"""``/stats/summary`` in the kubelet's format."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from fake_host import FakeHost
from kubelet_world import World, container, pod

from podtui.server import build_app, serve_unix
from podtui.server.kubelet_api.kubelet import FigureRoutes

UID = "uid-web-n1"


@pytest.mark.virtual_time
async def test_the_summary_has_the_fields_of_a_kubelets(tmp_path: Path) -> None:
    world = World(host=FakeHost())
    names = ("a", "b")
    app = build_app(
        world.store,
        world.kubelet.endpoints,
        version="1",
        extra_routes=FigureRoutes(world.kubelet.endpoints, b"{}").routes(),
    )
    connector = aiohttp.UnixConnector(str(tmp_path / "s.sock"))
    async with (
        world.running(),
        serve_unix(app, tmp_path / "s.sock"),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
    ):
        world.add(pod("web-n1", UID, *(container(n) for n in names)))
        world.add(pod("host-n1", "uid-host", hostNetwork=True))
        await world.until(lambda: world.phase("web-n1") == "Running")
        await world.until(world.runs("uid-host"))
        await world.sleep(75)
        async with http.get("/stats/summary") as answer:
            summary = await answer.json()
    assert summary["node"]["nodeName"] == "n1"
    assert summary["node"]["memory"]["workingSetBytes"] > 0
    pods = {one["podRef"]["name"]: one for one in summary["pods"]}
    web = pods["web-n1"]
    assert web["podRef"] == {"name": "web-n1", "namespace": "default", "uid": UID}
    assert [one["name"] for one in web["containers"]] == ["a", "b"]
    for one in web["containers"]:
        assert one["cpu"]["usageCoreNanoSeconds"] > one["cpu"]["usageNanoCores"] > 0
        assert one["memory"]["workingSetBytes"] > 0
        assert one["rootfs"]["usedBytes"] >= 0
        assert one["startTime"]
    sums = [sum(c["memory"]["workingSetBytes"] for c in web["containers"])]
    assert [web["memory"]["workingSetBytes"]] == sums
    kept = sum(c["rootfs"]["usedBytes"] for c in web["containers"])
    assert web["ephemeral-storage"]["usedBytes"] == kept
    network = web["network"]
    assert network["name"] == "eth0"
    assert network["rxBytes"] == network["interfaces"][0]["rxBytes"] > 0
    assert network["txBytes"] > 0
    assert "network" not in pods["host-n1"], "the node's traffic is not the pod's"
