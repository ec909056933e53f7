"""The kubelet's metrics and configuration, at its own paths and through the node proxy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fake_host import FakeHost
from kubelet_world import DEAF, PRESENT, World, api_pod, container, pod
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from repository import ROOT
from virtual_time import virtual

from podtui.agent.run import configz
from podtui.api.times import rfc3339
from podtui.api.v1 import ResourceRequirements
from podtui.kubelet.pods.sync_loop import SyncLoop
from podtui.server.kubelet_api.kubelet import NODE_PROXY, FigureRoutes
from podtui.settings import Settings

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("prefix", ["", NODE_PROXY])
@virtual()
async def test_each_path_of_the_kubelet_is_served(prefix: str) -> None:
    world = World()
    routes = FigureRoutes(world.kubelet.endpoints, b"{}").routes()
    paths = {route.path for route in routes if route.path.startswith(prefix)}
    for path in ("metrics", "metrics/probes", "metrics/resource", "metrics/cadvisor",
                 "metrics/slis", "configz", "stats/summary", "pods", "runningpods/"):  # fmt: skip
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
async def test_the_pods_are_those_of_the_node() -> None:
    async with World().running() as world:
        unbound, foreign = api_pod("unbound"), api_pod("foreign")
        await world.create(
            api_pod("web"),
            structs.replace(unbound, spec=structs.replace(unbound.spec, nodeName="")),
            structs.replace(foreign, spec=structs.replace(foreign.spec, nodeName="n2")),
        )
        world.add(pod("file-n1"))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.sleep(1)
        found = {one.metadata.name: one.status.phase for one in world.kubelet.endpoints.pods()}
        assert found == {"web": "Running", "file-n1": "Running"}


@virtual()
async def test_starts_of_api_pods_are_timed_from_their_creation() -> None:
    async with World(pull_delay=4.0).running() as world:
        figures = world.kubelet.endpoints
        before = figures.prometheus()
        init = container("init", command=("sleep", "10"))
        created = rfc3339(world.clock.now())
        made = api_pod("web", container(image="registry.example/new:1"), init=(init,))
        meta = structs.replace(made.metadata, creationTimestamp=created)
        await world.create(structs.replace(made, metadata=meta))
        await world.until(lambda: world.phase("web") == "Running")
        await world.sleep(1)
        after = figures.prometheus()

        def grown(name: str) -> float:
            return value(after, name) - value(before, name)

        assert 14 <= grown("kubelet_pod_start_total_duration_seconds_sum") < 17
        assert grown("kubelet_pod_start_sli_duration_seconds_sum") < 3
        assert grown("kubelet_pod_start_sli_duration_seconds_count") == 1
        assert grown("kubelet_pod_worker_start_duration_seconds_count") == 1


@virtual()
async def test_terminations_orphans_and_working_pods_are_counted() -> None:
    async with World().running() as world:
        before = world.kubelet.endpoints.prometheus()
        world.add(
            pod("web-n1"),
            pod("once-n1", "", container("c", command=("exit 3",)), policy="Never"),
        )
        await world.until(lambda: world.phase("once-n1") == "Failed")
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(5)
        after = world.kubelet.endpoints.prometheus()
        name, labels = "kubelet_terminated_containers_total", {"exit_code": "3"}
        grown = [value(body, name, reason="Error", **labels) for body in (before, after)]
        assert grown[1] - grown[0] == 1
        working = "kubelet_working_pods"
        assert value(after, working, lifecycle="sync", config="desired", static="true") == 1
        assert value(after, working, lifecycle="terminated", config="desired") == 1

        await world.stop_kubelet()
        world.remove("uid-web-n1")
        await world.start_kubelet()
        await world.until(world.gone("uid-web-n1"))
        ended = world.kubelet.endpoints.prometheus()
        name = "kubelet_orphaned_runtime_pods_total"
        assert value(ended, name) - value(after, name) == 1

        slow = pod("slow-n1", "", container(command=("sh", "-c", DEAF)), grace=5)
        world.add(slow)
        await world.until(world.runs("uid-slow-n1"))
        world.remove("uid-slow-n1")
        await world.sleep(1)
        world.add(slow)
        await world.sleep(30)
        assert world.runs("uid-slow-n1")()
        again = world.kubelet.endpoints.prometheus()
        name = "kubelet_restarted_pods_total"
        grown = [value(body, name, static="true") for body in (ended, again)]
        assert grown[1] - grown[0] == 1


@virtual()
async def test_exclusive_cpus_are_counted() -> None:
    config = {"cpu_manager_policy": "static", "system_reserved": {"cpu": "1"}}
    async with World(host=FakeHost(), **config).running() as world:
        before = world.kubelet.endpoints.prometheus()
        for name, cpu in (("web-n1", "2"), ("large-n1", "8")):
            amounts = {"cpu": cpu, "memory": "64Mi"}
            resources = ResourceRequirements(requests=amounts, limits=amounts)
            world.add(pod(name, "", container(resources=resources)))
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(1)
        after = world.kubelet.endpoints.prometheus()
        prefix = "kubelet_cpu_manager"
        grown = {
            name: value(after, name) - value(before, name)
            for name in (
                f"{prefix}_pinning_requests_total",
                f"{prefix}_pinning_errors_total",
                "kubelet_topology_manager_admission_requests_total",
                "kubelet_topology_manager_admission_errors_total",
            )
        }
        assert list(grown.values()) == [2, 1, 2, 0]
        assert value(after, f"{prefix}_exclusive_cpu_allocation_count") == 2
        assert value(after, f"{prefix}_shared_pool_size_millicores") == 5000


@virtual()
async def test_the_dashboard_shows_metrics_that_are_served() -> None:
    async with World(host=FakeHost()).running() as world:
        await world.sleep(1)
        figures = world.kubelet.endpoints
        served = b"".join(
            (
                figures.prometheus(),
                figures.probe_prometheus(),
                await figures.resource_prometheus(),
                await figures.cadvisor_prometheus(),
            )
        )
    names = set(re.findall(r"^# TYPE (\w+) ", served.decode(), re.MULTILINE))
    dashboard = (ROOT / "docs" / "grafana-dashboard.json").read_text()
    used = set(re.findall(r"\b([a-z_]+)\{", dashboard))
    assert len(used) > 10
    assert {name.removesuffix("_bucket") for name in used} <= names
    assert {name for name in names if name.startswith("podtui_")} <= used


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
        assert not any(figures.health_checks().values())
        after = figures.sli_prometheus()
        total, checked = "kubernetes_healthchecks_total", {"name": "syncloop", "type": "healthz"}
        assert value(after, "kubernetes_healthcheck", **checked) == 1
        grown = [value(body, total, status="success", **checked) for body in (before, after)]
        assert grown[1] - grown[0] == 1
        monkeypatch.setattr(SyncLoop, "health", lambda self: (False, "it is stuck"))
        assert figures.health_checks()["syncloop"] == "it is stuck"
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
