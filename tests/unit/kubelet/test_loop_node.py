"""Node-wide behaviour: admission, outages, adoption, orphans, the node object."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from fake_host import FakeHost
from kubelet_world import PRESENT, World, container, pod, with_env

from podtui.api.v1 import ContainerPort, Pod, ResourceRequirements
from podtui.errors import EngineTimeout, EngineUnavailable, LogError, SessionError
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.identity import from_record
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import EngineInfo, LogLines, LogOptions
from podtui.server import build_app, serve_unix

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


def pod_with(name: str, amount: str, **spec: object):
    resources = ResourceRequirements(requests={"memory": amount})
    return pod(name, "", container(resources=resources), **spec)  # type: ignore[arg-type]


# --- admission


async def test_a_pod_that_does_not_fit_is_rejected_for_good() -> None:
    """Cases 26 and 34, and departure 6."""
    world = World()
    async with world.running():
        world.add(pod_with("big", "20Gi"))
        await world.until(world.runs("uid-big"))
        world.add(pod_with("web-n1", "20Gi"))
        await world.until(lambda: world.phase() == "Failed")
        record = await world.record()
        assert record is not None
        status = record.status
        assert status.reason == "UnexpectedAdmissionError"
        prefix = "Unexpected error while attempting to recover from admission failure: preemption:"
        assert status.message.startswith(f"Pod was rejected: {prefix}")
        assert not status.conditions
        assert not status.containerStatuses
        assert status.startTime
        assert "memory" in record.metadata.annotations["podtui.dev/lacks"]
        events = await world.events("web-n1", "UnexpectedAdmissionError")
        assert events[0].type == "Warning"
        assert events[0].message.startswith(prefix)
        world.remove("uid-big")
        await world.until(world.gone("uid-big"))
        await world.sleep(120.0)
        record = await world.record()
        assert record is not None
        assert record.status.phase == "Failed"
        assert record.metadata.annotations["podtui.dev/would-fit"] == "true"
        assert not world.containers(UID)
        await world.kubelet.endpoints.retry("default", "web-n1")
        await world.until(world.runs(UID))
        record = await world.record()
        assert record is not None
        assert "podtui.dev/would-fit" not in record.metadata.annotations
        with pytest.raises(LookupError, match='pods "nope" not found'):
            await world.kubelet.endpoints.retry("default", "nope")


async def test_an_edited_rejected_pod_is_admitted_again() -> None:
    world = World()
    async with world.running():
        world.add(pod_with("web-n1", "200Gi"))
        await world.until(lambda: world.phase() == "Failed")
        world.replace(UID, with_env(pod_with("web-n1", "1Gi"), "smaller"))
        await world.until(world.runs("smaller"))
        record = await world.record()
        assert record is not None
        assert record.metadata.uid == "smaller"


async def test_priority_preempts() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=2.0)
    async with world.running():
        world.add(pod_with("low", "20Gi", priority=1))
        await world.until(world.runs("uid-low"))
        world.add(pod_with("high", "20Gi", priority=100))
        took = await world.until(world.runs("uid-high"))
        assert 1.9 < took < 3.0
        await world.sleep(1.0)
        status = await world.status("low")
        assert (status.phase, status.reason) == ("Failed", "Preempting")
        assert status.message == "Preempted in order to admit critical pod"
        target = next(c for c in status.conditions if c.type == "DisruptionTarget")
        assert (target.status, target.reason) == ("True", "TerminationByKubelet")
        events = await world.events("low", "Preempting")
        assert events[0].message == "Preempted in order to admit critical pod"
        assert not world.running_containers("uid-low")


async def test_host_port_conflicts() -> None:
    port = ContainerPort(containerPort=80, hostPort=8080, protocol="TCP")
    world = World()
    async with world.running():
        world.add(pod("one", "", container(ports=(port,))))
        await world.until(world.runs("uid-one"))
        world.add(pod("two", "", container(ports=(port,))))
        await world.until(lambda: world.phase("two") == "Failed")
        status = await world.status("two")
        assert status.reason == "NodePorts"
        # An edited pod does not conflict with its own port.
        world.replace("uid-one", with_env(pod("one", "", container(ports=(port,))), "one-b"))
        await world.until(world.runs("one-b"))


# --- restarts of the kubelet


async def test_running_pods_are_adopted() -> None:
    world = World()
    world.behaviours["b"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b")))
        await world.sleep(15.0)
        kept = world.containers(UID, "a")[0].id
        count = world.containers(UID, "b")[-1].attempt
        await world.stop_kubelet()
        assert len(world.sandboxes(UID)) == 1
        before = {e.metadata.name: e for e in await world.events("web-n1", "Created", "Started")}
        world.behaviours["b"] = Behaviour()
        await world.start_kubelet()
        await world.sleep(5.0)
        assert [c.id for c in world.containers(UID, "a")] == [kept]
        assert len(world.sandboxes(UID)) == 1
        # Back-offs are lost: the first restart is immediate, and the count continues.
        assert world.containers(UID, "b")[-1].attempt == count + 1
        after = await world.events("web-n1", "Created", "Started")
        new = [e for e in after if e.metadata.name not in before]
        assert {e.involvedObject.fieldPath for e in new} == {"spec.containers{b}"}
        status = await world.status()
        assert status.phase == "Running"
        assert not await world.events("web-n1", "SandboxChanged")


async def test_a_manifest_removed_while_no_kubelet_ran() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        world.add(pod(), pod("other"))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.stop_kubelet()
        world.remove(UID)
        await world.start_kubelet()
        took = await world.until(world.gone(UID))
        assert 1.9 < took < 3.0
        assert not world.engine.pods("memory", UID), "its volumes are gone too"
        assert await world.record() is None
        assert len(world.running_containers("uid-other")) == 1
        killing = await world.events("web-n1", "Killing")
        assert [e.message for e in killing] == ["Stopping container c"]


async def test_an_edit_made_while_no_kubelet_ran_waits_for_the_old_pod() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        world.replace(UID, with_env(pod(), "new"))
        await world.start_kubelet()
        for _ in range(60):
            await world.sleep(0.1)
            assert len(world.sandboxes()) <= 1
        assert len(world.running_containers("new")) == 1


async def test_an_empty_folder_removes_all_pods() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        world.remove(UID)
        await world.start_kubelet()
        await world.until(world.gone(UID), 5.0)
        assert world.gone(UID)()


async def test_an_unreadable_folder_removes_no_pods() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        world.folder_error = "/m: Permission denied"
        await world.start_kubelet()
        await world.sleep(120.0)
        assert len(world.running_containers(UID)) == 1
        assert await world.record() is not None


def of_node(name: str) -> Pod:
    """Return the pod that a kubelet with this node name creates from the same file."""
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
    text += b"  - {name: c, image: 'busybox:1', imagePullPolicy: IfNotPresent}\n"
    (found,) = read_manifest("/m/web.yaml", text, node_name=name).pods
    return found


async def test_another_node_name_makes_other_pods() -> None:
    world = World()
    old, new = of_node("n1").metadata.uid, of_node("n2").metadata.uid
    assert old != new
    async with world.running():
        world.add(of_node("n1"))
        await world.until(world.runs(old))
        await world.stop_kubelet()
        world.config = replace(world.config, node_name="n2")
        world.replace(old, of_node("n2"))
        await world.start_kubelet()
        await world.until(world.gone(old), 10.0)
        await world.until(world.runs(new), 10.0)
        assert await world.record("web-n1") is None
        assert (await world.status("web-n2")).phase == "Running"


# --- outages of the engine


async def ready(world: World) -> tuple[str, str]:
    node = await world.node()
    condition = next(c for c in node.status.conditions if c.type == "Ready")
    return condition.status, condition.message


async def test_pods_survive_an_engine_outage() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        kept = world.containers(UID)[0].id
        world.runtime.stop_engine()
        await world.sleep(1.0)
        status, message = await ready(world)
        assert status == "False"
        assert message.startswith("container runtime not ready: ")
        world.add(pod("second"))
        await world.sleep(60.0)
        status, message = await ready(world)
        assert message.startswith("[container runtime is down, ")
        assert await world.record("second") is None
        assert (await world.status()).phase == "Running"
        world.runtime.start_engine()
        took = await world.until(world.runs("uid-second"))
        assert took < 6.0
        assert [c.id for c in world.containers(UID)] == [kept]
        assert (await ready(world))[0] == "True"
        turns = {e.reason: e.count for e in await world.events("n1", "NodeNotReady", "NodeReady")}
        assert turns == {"NodeNotReady": 1, "NodeReady": 2}


async def test_a_strict_kubelet_reports_a_lost_engine_after_thirty_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(strict=True)
    tries: list[float] = []
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        kept = world.containers(UID)[0].id
        connect = world.runtime.connect

        async def noted() -> EngineInfo:
            tries.append(world.clock.monotonic())
            return await connect()

        world.runtime.connect = noted  # type: ignore[method-assign]
        world.runtime.stop_engine()
        await world.sleep(20.0)
        assert (await ready(world))[0] == "True"
        assert "Skipping pod synchronization" in caplog.text
        await world.sleep(25.0)
        assert await ready(world) == ("False", "container runtime is down")
        waits = [round(b - a, 3) for a, b in itertools.pairwise(tries)]
        assert waits[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        world.runtime.start_engine()
        await world.sleep(6.0)
        assert (await ready(world))[0] == "True"
        assert [one.id for one in world.containers(UID)] == [kept]


async def test_containers_that_died_in_an_outage_are_restarted() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.runtime.stop_engine(containers_die=True)
        await world.sleep(20.0)
        world.runtime.start_engine()
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        assert (await world.status()).containerStatuses[0].restartCount == 1
        assert len(world.sandboxes(UID)) == 1


async def test_pods_keep_their_address_when_an_outage_ends_their_containers() -> None:
    world = World()
    async with world.running():
        sidecar = container("s", restartPolicy="Always")
        world.add(pod(), pod("once", "", init=(sidecar,), policy="Never"))
        await world.until(lambda: len(world.running_containers()) == 3)
        await world.sleep(1.0)
        first = {name: (await world.status(name)).podIP for name in ("web-n1", "once")}
        assert all(first.values())
        addresses: dict[str, set[str]] = {name: set() for name in first}

        async def watch() -> None:
            async for change in world.store.watch("pods"):
                assert isinstance(change.object, Pod)
                addresses[change.object.metadata.name].add(change.object.status.podIP)

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            world.runtime.stop_engine(containers_die=True)
            await world.sleep(20.0)
            world.runtime.start_engine()
            await world.until(world.runs(UID))
            await world.until(lambda: world.phase("once") == "Failed")
            await world.sleep(5.0)
            watching.cancel()
        assert addresses["once"] == {first["once"]}
        assert addresses["web-n1"] == {first["web-n1"], (await world.status()).podIP}
        assert (await world.status()).podIP != first["web-n1"]


async def test_an_engine_lost_during_a_start() -> None:
    world = World(start_delay=2.0)
    async with world.running():
        world.add(pod())
        await world.sleep(3.0)
        world.runtime.stop_engine()
        await world.sleep(5.0)
        world.runtime.start_engine()
        await world.until(lambda: world.phase() == "Running")
        assert len(world.sandboxes(UID)) == 1
        assert len(world.running_containers(UID)) == 1


async def test_a_removal_survives_an_outage() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.engine.faults.fail("remove_sandbox", EngineUnavailable("reset"))
        world.remove(UID)
        await world.until(world.gone(UID), 10.0)
        assert await world.record() is None


async def test_calls_of_one_pod_that_the_engine_leaves_unanswered() -> None:
    """Only the events of the pod show it: the engine answers all other calls."""
    silent = EngineTimeout("unix:///x: no answer in time")
    world = World()
    async with world.running():
        world.engine.faults.fail("create_container", silent)
        world.add(pod())
        await world.until(world.runs(UID))
        world.engine.faults.fail("stop_container", silent)
        world.remove(UID)
        await world.until(world.gone(UID), 30.0)
        events = await world.events("web-n1", "FailedSync", "FailedKillPod")
        assert [(e.type, e.reason, e.message) for e in events] == [
            ("Warning", "FailedSync", f"error syncing pod: {silent}"),
            ("Warning", "FailedKillPod", f"error killing pod: {silent}"),
        ]
        assert (await ready(world))[0] == "True"


async def test_an_engine_that_only_answers_lists_is_not_ready() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        for verb in ("connect", "read info", "check", "container_status", "stop_container"):
            world.engine.faults.fail(
                verb, EngineTimeout("unix:///x: no answer in time"), times=None
            )
        world.remove(UID)
        await world.sleep(60.0)
        status, message = await ready(world)
        assert status == "False"
        assert "container runtime not ready: unix:///x: no answer in time" in message
        world.engine.faults.clear()
        await world.until(world.gone(UID), 60.0)
        assert (await ready(world))[0] == "True"


async def test_a_kubelet_waits_for_its_engine() -> None:
    world = World()
    world.runtime.stop_engine()
    async with world.running():
        world.add(pod())
        await world.sleep(3.0)
        status, message = await ready(world)
        assert status == "False"
        assert "container runtime status check may not have completed yet" in message
        world.runtime.start_engine()
        await world.until(world.runs(UID), 6.0)
        assert (await world.node()).status.capacity["cpu"] == "8"


# --- the node's record


async def test_a_new_node_reports_its_properties() -> None:
    host = FakeHost()
    host.huge_pages = {"2Mi": 4 << 21, "1Gi": 0}
    world = World(host=host)
    async with world.running():
        await world.sleep(5.0)
        events = [(e.type, e.reason, e.message) for e in await world.events("n1")]
        assert events == [
            ("Normal", "Starting", "Starting kubelet."),
            *[
                ("Normal", reason, f"Node n1 status is now: {reason}")
                for reason in (
                    "NodeHasSufficientMemory",
                    "NodeHasNoDiskPressure",
                    "NodeHasSufficientPID",
                )
            ],
            (
                "Normal",
                "NodeAllocatableEnforced",
                "Updated Node Allocatable limit across pods",
            ),
            ("Normal", "NodeReady", "Node n1 status is now: NodeReady"),
        ]
        assert (await world.events("n1"))[0].metadata.namespace == "default"
        status = (await world.node()).status
        assert status.capacity["hugepages-2Mi"] == "8Mi"
        assert status.capacity["hugepages-1Gi"] == "0"
        assert status.capacity["ephemeral-storage"] == "100Gi"
        assert status.capacity["memory"] == "32Gi"
        assert status.allocatable["memory"] == f"{32 * 1024 - 8}Mi", "huge pages are excluded"


async def test_a_runtime_that_the_engine_gets_later_is_listed() -> None:
    world = World()

    async def handlers() -> list[str]:
        return [handler.name for handler in (await world.node()).status.runtimeHandlers]

    async with world.running():
        await world.sleep(5.0)
        assert await handlers() == ["", "runc"]
        known = await world.events("n1")
        world.engine.info = replace(world.engine.info, runtimes=("kata", "runc"))
        await world.sleep(11.0)
        assert await handlers() == ["", "kata", "runc"]
        assert await world.events("n1") == known, "the node's resources are the same"


async def test_a_reboot_is_detected() -> None:
    host = FakeHost()
    world = World(host=host)
    async with world.running():
        await world.sleep(1.0)
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(1.0)
        assert not await world.events("n1", "Rebooted")
        await world.stop_kubelet()
        host.boot_id = "boot-2"
        await world.start_kubelet()
        await world.sleep(30.0)
        (event,) = await world.events("n1", "Rebooted")
        assert (event.type, event.count) == ("Warning", 1)
        assert event.message == "Node n1 has been rebooted, boot id: boot-2"


async def test_the_nodes_record_is_not_rewritten_when_idle() -> None:
    world = World()
    async with world.running():
        await world.sleep(5.0)
        first = await world.node()
        assert first.metadata.annotations["podtui.dev/simulated"] == "true"
        assert first.status.capacity["pods"] == "110"
        await world.sleep(200.0)
        assert (await world.node()).metadata.resourceVersion == first.metadata.resourceVersion
        await world.sleep(120.0)
        assert (await world.node()).metadata.resourceVersion != first.metadata.resourceVersion
        reasons = [e.reason for e in await world.events("n1")]
        assert reasons[0] == "Starting"
        assert "NodeReady" in reasons


# --- the number of engine calls


async def test_an_idle_kubelet_lists_once_every_ten_seconds() -> None:
    world = World()
    async with world.running():
        world.add(*[pod(f"p{i}") for i in range(50)])
        await world.until(lambda: len(world.running_containers()) == 50)
        await world.sleep(20.0)
        before = world.engine.faults.calls.copy()
        await world.sleep(100.0)
        spent = world.engine.faults.calls - before
        assert spent.pop("pod_data", 0) <= 2, "orphaned volumes are searched once a minute"
        # Each list answers for a ping.
        assert spent == {"list": 10, "ping": 10, "read info": 10}


@pytest.mark.parametrize("count", [10, 200])
async def test_one_change_costs_the_same_among_many(count: int) -> None:
    world = World(max_pods=500)
    async with world.running():
        world.add(*[pod(f"p{i}") for i in range(count)])
        await world.until(lambda: len(world.running_containers()) == count)
        await world.sleep(11.5)
        before = world.engine.faults.calls.copy()
        world.replace("uid-p7", with_env(pod("p7"), "changed"))
        await world.until(world.runs("changed"))
        await world.until(world.gone("uid-p7"))
        cost = world.engine.faults.calls - before
        del cost["list"]  # reads of single pods, and the relist every five seconds
        assert sum(cost.values()) <= 12, cost


# --- endpoints


async def test_logs_and_reasons_for_missing_logs() -> None:
    world = World(pull_delay=30.0)
    world.behaviours["c"] = Behaviour(lines=("hello",))
    endpoints = world.kubelet.endpoints
    options = LogOptions()

    async def read(name: str, which: str, *, previous: bool = False) -> list[bytes]:
        batches = await endpoints.container_logs(
            "default", name, which, previous=previous, options=options
        )
        return [line.content async for lines in batches for line in lines]

    async def find(name: str) -> Pod:
        return endpoints.sessions.find("default", name)

    # The API of a new agent answers before its kubelet has read the pods.
    for call in (lambda: read("web-n1", "c"), lambda: find("web-n1")):
        with pytest.raises((LogError, SessionError), match="has not read its pods yet") as early:
            await call()
        assert early.value.code == 503
    async with world.running():
        world.add(pod(), pod("slow", "", container("x", image="big:1"), container("y")))
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        assert await read("web-n1", "c") == [b"hello"]
        assert await read("web-n1", "") == [b"hello"]
        wrong = {
            ("web-n1", "c", True): (
                400,
                'previous terminated container "c" in pod "web-n1" not found',
            ),
            ("web-n1", "d", False): (404, 'container "d" not found in pod "web-n1"'),
            ("nope", "c", False): (404, 'pod "nope" does not exist'),
            ("slow", "x", False): (
                400,
                'container "x" in pod "slow" is waiting to start: ContainerCreating',
            ),
            ("slow", "", False): (
                400,
                "a container name must be specified for pod slow, choose one of: [x y]",
            ),
        }
        for (name, which, previous), (code, text) in wrong.items():
            with pytest.raises(LogError) as raised:
                await read(name, which, previous=previous)
            assert (raised.value.code, str(raised.value)) == (code, text)
        world.runtime.kill(world.containers(UID)[0].id, 1)
        await world.sleep(1.0)
        assert await read("web-n1", "c", previous=True) == [b"hello"]


async def test_a_log_whose_container_is_removed_during_the_request() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(lines=("hello",))
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        ident = world.containers(UID)[0].id
        endpoints = world.kubelet.endpoints
        gone = f"unable to retrieve container logs for memory://{ident}"

        async def request() -> AsyncIterator[LogLines]:
            return await endpoints.container_logs(
                "default", "web-n1", "c", previous=False, options=LogOptions()
            )

        opened = await request()
        cell = world.engine.containers.pop(ident)
        # The kubelet has not noticed it yet.
        with pytest.raises(LogError, match=gone):
            await request()
        with pytest.raises(LogError, match=gone):
            await anext(opened)
        world.engine.containers[ident] = cell


async def test_metrics_and_health() -> None:
    world = World()
    endpoints = world.kubelet.endpoints
    assert endpoints.health_checks()["syncloop"]
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        assert "stats" not in world.calls
        await world.sleep(10.0)
        await endpoints.pod_metrics()
        await world.sleep(10.0)
        figures = (await endpoints.pod_metrics())[0]
        assert figures.metadata.name == "web-n1"
        usage = figures.containers[0].usage
        assert 0 < int(usage["cpu"].removesuffix("n")) <= 50_000_000
        assert int(usage["memory"]) > 0
        node = await endpoints.node_metrics()
        assert node is not None
        assert node.usage["memory"] == usage["memory"]
        assert world.calls["stats"] == 2
        assert not any(endpoints.health_checks().values())
        world.runtime.stop_engine()
        await world.sleep(290.0)
        assert not any(endpoints.health_checks().values())
        await world.sleep(20.0)
        stuck = "sync Loop took longer than expected"
        assert endpoints.health_checks()["syncloop"] == stuck


async def test_a_stuck_sync_loop_is_reported_over_http(tmp_path: Path) -> None:
    world = World()
    app = build_app(world.store, world.kubelet.endpoints, version="1")
    socket = tmp_path / "api.sock"
    connector = aiohttp.UnixConnector(str(socket))
    async with (
        world.running(),
        serve_unix(app, socket),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
    ):
        await world.sleep(10.0)

        async def get(check: str) -> tuple[int, str]:
            async with http.get(f"/healthz{check}") as answer:
                return answer.status, await answer.text()

        assert await get("/syncloop") == (200, "ok")
        world.runtime.stop_engine()
        await world.sleep(310.0)
        status, text = await get("/syncloop")
        assert status == 500
        assert "sync Loop took longer than expected" in text
        assert (await get(""))[0] == 500
        assert await get("/ping") == (200, "ok")
        world.runtime.start_engine()
        await world.sleep(10.0)
        assert await get("/syncloop") == (200, "ok")


async def test_a_record_used_as_a_manifest_keeps_no_status() -> None:
    """The last good version of an invalid file comes from the records."""
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(lambda: world.phase() == "Succeeded")
        await world.stop_kubelet()
        record = await world.record()
        assert record is not None
        for stale in world.containers(UID):
            await world.runtime.remove_container(stale.id)
        world.pods = {UID: from_record(record)}
        world.behaviours["c"] = Behaviour()
        await world.start_kubelet()
        await world.until(world.runs(UID))
        assert (await world.status()).phase == "Running"


@pytest.mark.parametrize("short", [0.0, 5.0, 12.0])
async def test_a_hang_is_reported_whatever_call_is_under_way(short: float) -> None:
    """The engine hangs, answers, and hangs again: no call delays the report."""
    verbs = ("ping", "list", "list_images", "connect")
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        for seconds in (short, 60.0):
            # The list of images is due in the middle of the hang.
            await world.kubelet.images.pull(PRESENT, lambda _: None)
            for verb in verbs:
                world.engine.faults.hold(verb)
            began = world.clock.monotonic()
            if seconds < 60.0:
                await world.sleep(seconds)
            else:
                while (await ready(world))[0] == "True":
                    await world.sleep(1.0)
                    assert world.clock.monotonic() - began < 50.0
                await world.sleep(20.0)
            for verb in verbs:
                world.engine.faults.release(verb)
            await world.sleep(2.0)
        began = world.clock.monotonic()
        while (await ready(world))[0] != "True":
            await world.sleep(0.5)
            assert world.clock.monotonic() - began < 10.0
