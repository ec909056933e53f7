"""The kubelet's metrics and configuration, at its own paths and through the node proxy."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubelet_world import PRESENT, World, container, pod
from prometheus_client.parser import text_string_to_metric_families
from virtual_time import virtual

from podtui.agent.run import configz
from podtui.kubelet.pods.sync_loop import SyncLoop
from podtui.server.node.kubelet import NODE_PROXY, FigureRoutes
from podtui.settings import Settings

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("prefix", ["", NODE_PROXY])
@virtual()
async def test_each_path_of_the_kubelet_is_served(prefix: str) -> None:
    world = World()
    routes = FigureRoutes(world.kubelet.endpoints, b"{}").routes()
    paths = {route.path for route in routes if route.path.startswith(prefix)}
    for path in ("metrics", "metrics/probes", "metrics/resource", "metrics/cadvisor",
                 "metrics/slis", "configz", "stats/summary", "runningpods/"):  # fmt: skip
        assert f"{prefix}/{path}" in paths


def value(body: bytes, name: str, /, **labels: str) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


@virtual()
async def test_the_lifecycle_of_a_pod_is_counted() -> None:
    async with World().running() as world:
        figures = world.kubelet.endpoints
        before = figures.prometheus()
        world.add(
            pod("web-n1", "", container("good")),
            pod("bad-n1", "", container(image="registry.invalid/no:1")),
        )
        await world.until(lambda: bool(world.running_containers("uid-web-n1")))
        await world.sleep(5)
        after = figures.prometheus()

        def grown(name: str, **labels: str) -> float:
            return value(after, name, **labels) - value(before, name, **labels)

        assert grown("kubelet_started_pods_total") == 2
        assert grown("kubelet_started_containers_total", container_type="container") == 1
        assert grown("kubelet_pod_start_duration_seconds_count") == 1
        assert grown("kubelet_runtime_operations_total", operation_type="create_container") == 1
        assert grown("kubelet_runtime_operations_errors_total", operation_type="pull_image") >= 1
        assert grown("kubelet_pod_worker_duration_seconds_count", operation_type="sync") >= 2
        assert grown("kubelet_pleg_relist_duration_seconds_count") >= 1
        assert value(after, "kubelet_running_pods") == 2
        assert [one.metadata.name for one in figures.running_pods()] == ["web-n1"]
        assert figures.running_pods()[0].spec.containers[0].image == PRESENT


@virtual()
async def test_rejections_are_counted_by_reason() -> None:
    async with World().running() as world:
        before = world.kubelet.endpoints.prometheus()
        world.add(pod("big-n1", "", nodeSelector={"no": "such"}))
        await world.sleep(5)
        after = world.kubelet.endpoints.prometheus()
        name = "kubelet_admission_rejections_total"
        grown = [value(body, name, reason="NodeAffinity") for body in (before, after)]
        assert grown[1] - grown[0] == 1


@virtual()
async def test_health_checks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World().running() as world:
        await world.sleep(5)
        figures = world.kubelet.endpoints
        before = figures.sli_prometheus()
        assert figures.healthy()[0]
        after = figures.sli_prometheus()
        total, checked = "kubernetes_healthchecks_total", {"name": "syncloop", "type": "healthz"}
        assert value(after, "kubernetes_healthcheck", **checked) == 1
        grown = [value(body, total, status="success", **checked) for body in (before, after)]
        assert grown[1] - grown[0] == 1
        monkeypatch.setattr(SyncLoop, "health", lambda self: (False, "it stands still"))
        assert not figures.healthy()[0]
        failed = figures.sli_prometheus()
        assert value(failed, "kubernetes_healthcheck", **checked) == 0
        assert value(failed, "kubernetes_healthcheck", name="ping", type="healthz") == 1
        grown = [value(body, total, status="error", **checked) for body in (after, failed)]
        assert grown[1] - grown[0] == 1


def test_configz_shows_the_settings_of_the_agent(tmp_path: Path) -> None:
    settings = Settings(rootDir=tmp_path, staticPodPath=tmp_path / "pods", nodeName="n1")
    body = configz(settings).decode()
    assert '"kubeletconfig"' in body
    assert f'"staticPodPath":"{tmp_path}/pods"' in body
    assert '"maxPods":110' in body
    assert "theme" not in body
