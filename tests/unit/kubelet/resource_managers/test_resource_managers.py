"""Pods with exclusive CPUs on the simulated engine, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_host import GI, FakeHost
from kubelet_world import LocalMemoryRuntime, World, container, pod
from virtual_time import virtual

from podtui.api.cpus import CPUS, CpuMap, CpuUser, decode_cpu_map
from podtui.api.v1 import Pod, ResourceRequirements
from podtui.errors import PodtuiError
from podtui.runtime.memory import MemoryRuntime

STATIC = {
    "cpu_manager_policy": "static",
    "system_reserved": {"cpu": "1", "memory": "1Gi"},
}


def sized(name: str, cpu: str, **spec: object) -> Pod:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    own = container(resources=ResourceRequirements(requests=amounts, limits=amounts))
    return pod(f"{name}-n1", "", own, **spec)  # type: ignore[arg-type]


def world(**config: object) -> World:
    return World(host=FakeHost(), **{**STATIC, **config})  # type: ignore[arg-type]


def held(one: World, name: str) -> tuple[str, str, int]:
    (record,) = one.running_containers(f"uid-{name}-n1")
    resources = one.engine.containers[record.id].resources
    return resources.cpuset_cpus, resources.cpuset_mems, resources.cpu_quota


async def running(one: World, name: str) -> None:
    await one.until(lambda: bool(one.running_containers(f"uid-{name}")))


@virtual()
async def test_exclusive_cpus_are_taken_from_running_containers_and_given_back() -> None:
    async with world().running() as one:
        one.add(sized("other", "500m"))
        await running(one, "other-n1")
        assert held(one, "other") == ("0-7", "", 50_000)
        one.add(sized("web", "2"))
        await running(one, "web-n1")
        assert held(one, "web") == ("2-3", "", 0)
        await one.sleep(1)
        assert held(one, "other") == ("0-1,4-7", "", 50_000)
        one.remove("uid-web-n1")
        await one.sleep(40)
        assert held(one, "other")[0] == "0-7"


@virtual()
async def test_the_node_publishes_the_map_of_its_cpus() -> None:
    async with world().running() as one:
        one.add(sized("web", "2"))
        await running(one, "web-n1")
        await one.sleep(1)
        found = decode_cpu_map((await one.node()).metadata.annotations[CPUS])
        assert found == CpuMap(
            nodes={0: ((0, 1), (2, 3)), 1: ((4, 5), (6, 7))},
            reserved=(0,),
            users=(CpuUser(pod="default/web-n1", container="c", cpus=(2, 3)),),
        )


@virtual()
async def test_a_pod_without_its_exclusive_cpus_is_rejected_with_the_kubelets_message() -> None:
    async with world().running() as one:
        one.add(sized("web", "8"))
        await one.sleep(5)
        status = await one.status("web-n1")
        assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
        assert status.message == (
            "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request:"
            " requested=8, available=7, which is unexpected"
        )


@virtual()
async def test_a_pod_that_fits_no_numa_node_is_rejected_with_an_event() -> None:
    async with world(topology_manager_policy="single-numa-node").running() as one:
        one.add(sized("web", "5"))
        await one.sleep(5)
        status = await one.status("web-n1")
        assert (status.phase, status.reason) == ("Failed", "TopologyAffinityError")
        (event,) = await one.events("web-n1", "TopologyAffinityError")
        assert (event.type, event.message) == (
            "Warning",
            "Resources cannot be allocated with Topology locality",
        )


@virtual()
async def test_an_engine_on_another_machine_disables_the_managers_with_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalMemoryRuntime, "read_info", MemoryRuntime.read_info)
    async with world(simulated=False).running() as one:
        one.add(sized("web", "2"))
        await running(one, "web-n1")
        assert held(one, "web")[0] == ""
        (event,) = await one.events("n1", "ResourceManagersDisabled")
        text = (
            "The CPU and memory managers are disabled: the engine runs on another machine, whose"
            " CPU topology is unknown"
        )
        assert (event.type, event.message) == ("Warning", text)


@virtual()
async def test_allocations_survive_a_restart_of_the_kubelet(tmp_path: Path) -> None:
    async with world(root_dir=str(tmp_path)).running() as one:
        one.add(sized("a", "1"), sized("b", "1"))
        await running(one, "a-n1")
        await running(one, "b-n1")
        before = held(one, "a"), held(one, "b")
        await one.sleep(1)
        state = json.loads((tmp_path / "cpu_manager_state").read_text())
        assert state["policyName"] == "static"
        assert state["entries"]["uid-a-n1"] == {"c": before[0][0]}
        await one.stop_kubelet()
        one.remove("uid-a-n1")
        await one.start_kubelet()
        one.add(sized("c", "1"))
        await running(one, "c-n1")
        assert held(one, "b") == before[1]
        state = json.loads((tmp_path / "cpu_manager_state").read_text())
        assert state["entries"].keys() == {"uid-b-n1", "uid-c-n1"}


@virtual()
async def test_memory_and_cpus_are_aligned(tmp_path: Path) -> None:
    config = {
        "memory_manager_policy": "Static",
        "topology_manager_policy": "single-numa-node",
        "reserved_memory": ((0, {"memory": "1Gi"}),),
        "root_dir": str(tmp_path),
    }
    async with world(**config).running() as one:
        one.add(sized("web", "4"))
        await running(one, "web-n1")
        assert held(one, "web")[:2] == ("4-7", "1")
        await one.sleep(1)
        state = json.loads((tmp_path / "memory_manager_state").read_text())
        assert state["machineState"]["0"]["memoryMap"]["memory"] == {
            "total": 16 * GI,
            "systemReserved": GI,
            "allocatable": 15 * GI,
            "reserved": 0,
            "free": 15 * GI,
        }
        await one.stop_kubelet()
        await one.start_kubelet()
        await one.sleep(5)
        assert held(one, "web")[:2] == ("4-7", "1")


@virtual()
async def test_a_resize_of_exclusive_cpus_is_infeasible() -> None:
    async with world().running() as one:
        one.add(sized("web", "2"))
        await running(one, "web-n1")
        one.add(sized("web", "3"))
        await one.sleep(5)
        status = await one.status("web-n1")
        (condition,) = [c for c in status.conditions if c.type == "PodResizePending"]
        assert (condition.reason, condition.message) == (
            "Infeasible",
            'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
        )


@virtual()
@pytest.mark.parametrize(
    ("config", "content", "text"),
    [
        ({"system_reserved": {}}, "", "to be greater than zero"),
        (
            {},
            '{"policyName":"none","defaultCpuSet":""}',
            "differs from state checkpoint",
        ),
        (
            {"cpu_manager_policy": "none"},
            '{"policyName":"static","defaultCpuSet":"0-7"}',
            'configured policy "none" differs from state checkpoint policy "static", please drain',
        ),
        ({}, "{", "please drain this node and delete the CPU manager checkpoint file"),
        (
            {"memory_manager_policy": "Static", "reserved_memory": ((0, {"memory": "2Gi"}),)},
            "",
            "is not equal to the value",
        ),
        ({"topology_manager_policy_options": {"a": "b"}}, "", "unknown Topology Manager Policy"),
        (
            {
                "cpu_manager_policy_options": {"align-by-socket": "true"},
                "topology_manager_policy": "single-numa-node",
            },
            "",
            "is incompatible with CPUManager",
        ),
    ],
)
async def test_settings_that_do_not_fit_end_the_start_with_a_clear_error(
    tmp_path: Path, config: dict[str, object], content: str, text: str
) -> None:
    if content:
        (tmp_path / "cpu_manager_state").write_text(content)

    one = world(root_dir=str(tmp_path), **config)
    with pytest.raises(PodtuiError, match=text):
        await one.kubelet.run()
