"""Pods that come from the API, beside those of the folder."""

from __future__ import annotations

import asyncio

import pytest
from kubelet_world import World, api_pod, container, ends, pod
from msgspec import structs

from podtui.api.names import CONFIG_SOURCE
from podtui.api.v1 import (
    Container,
    Pod,
    PodCondition,
    PodIP,
    PodReadinessGate,
    PodStatus,
    ResourceRequirements,
)
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import ContainerState

pytestmark = pytest.mark.virtual_time
UID = "uid-web"


def with_image(found: Pod, image: str) -> Pod:
    changed = structs.replace(found.spec.containers[0], image=image)
    return structs.replace(found, spec=structs.replace(found.spec, containers=(changed,)))


async def test_a_record_becomes_a_running_pod_and_only_its_status_is_written() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod())
        before = await world.record("web")
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        record = await world.record("web")
        assert before is not None
        assert record is not None
        assert record.status.phase == "Running"
        assert record.status.podIP
        assert structs.replace(record.metadata, resourceVersion="") == structs.replace(
            before.metadata, resourceVersion=""
        )
        assert record.spec == before.spec
        assert CONFIG_SOURCE not in record.metadata.annotations


@pytest.mark.parametrize("static", [False, True], ids=["api", "static"])
async def test_a_status_that_a_client_changes_is_corrected(static: bool) -> None:
    """`syncBatch` of the kubelet's status manager, with `needsReconcile`."""
    world = World()
    async with world.running():
        name = "web-n1" if static else "web"
        if static:
            world.add(pod())
        else:
            await world.create(api_pod())
        await world.until(world.runs(f"uid-{name}"))
        await world.sleep(1.0)
        before = await world.status(name)
        foreign = PodCondition(type="example.com/checked", status="True")

        def changed(found: Pod) -> Pod:
            status = structs.replace(
                found.status,
                phase="Failed",
                podIP="192.0.2.1",
                podIPs=(PodIP(ip="192.0.2.1"),),
                containerStatuses=(),
                conditions=(*found.status.conditions, foreign),
            )
            return structs.replace(found, status=status)

        for _ in range(2):
            await world.change(changed, name)
            await world.sleep(10.5)
            after = await world.status(name)
            assert foreign in after.conditions
            kept = tuple(one for one in after.conditions if one != foreign)
            assert structs.replace(after, conditions=kept) == before
        assert len(world.containers()) == 1
        calls, version = world.calls, (await world.record(name)).metadata.resourceVersion
        await world.sleep(30.0)
        assert (await world.record(name)).metadata.resourceVersion == version
        assert world.calls.get("stop_container", 0) == calls.get("stop_container", 0) == 0


async def test_a_client_that_insists_on_a_status_gets_an_answer_every_ten_seconds() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        version = int((await world.record("web")).metadata.resourceVersion)

        def changed(found: Pod) -> Pod:
            return structs.replace(found, status=structs.replace(found.status, podIP="192.0.2.1"))

        for _ in range(300):
            await world.change(changed)
            await world.sleep(0.1)
        writes = int((await world.record("web")).metadata.resourceVersion) - version
        assert writes <= 8, "each correction is followed by one change of the client"


async def test_a_pod_of_another_node_is_left_alone() -> None:
    world = World()
    async with world.running():
        other = api_pod("other")
        await world.create(structs.replace(other, spec=structs.replace(other.spec, nodeName="n2")))
        unbound = api_pod("unbound")
        await world.create(
            structs.replace(unbound, spec=structs.replace(unbound.spec, nodeName=""))
        )
        await world.sleep(5.0)
        assert not world.containers()
        bound = structs.replace(unbound.spec, nodeName="n1")
        await world.change(lambda found: structs.replace(found, spec=bound), "unbound")
        await world.until(world.runs("uid-unbound"))


async def test_a_deleted_pod_gets_its_grace_period_before_its_record_is_removed() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=4.0, term_code=7)
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        statuses: list[PodStatus] = []

        async def watch() -> None:
            async for change in world.store.watch("pods"):
                assert isinstance(change.object, Pod)
                statuses.append(change.object.status)

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            await world.delete()
            waited = await world.until(lambda: not world.containers(UID))
            assert 3.9 < waited < 4.3
            assert await world.record("web") is None
            assert world.gone(UID)()
            assert statuses[-1].phase == "Failed"
            ended = statuses[-1].containerStatuses[0].state.terminated
            assert ended is not None
            assert ended.exitCode == 7
            watching.cancel()


async def test_a_second_delete_shortens_the_grace_period() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        await world.create(api_pod(grace=300))
        await world.until(world.runs(UID))
        await world.delete(grace=300)
        await world.sleep(5.0)
        await world.delete(grace=3)
        assert await world.until(world.gone(UID)) < 4.0
        assert await world.record("web") is None


async def test_a_finalizer_keeps_the_record_of_an_ended_pod() -> None:
    world = World()
    async with world.running():
        held = api_pod()
        meta = structs.replace(held.metadata, finalizers=("example.com/hold",))
        await world.create(structs.replace(held, metadata=meta))
        await world.until(world.runs(UID))
        await world.delete()
        await world.until(world.gone(UID))
        await world.sleep(5.0)
        record = await world.record("web")
        assert record is not None
        assert record.metadata.deletionGracePeriodSeconds == 0
        assert record.status.phase == "Succeeded"
        assert not world.containers(UID)


async def test_a_forced_deletion_stops_the_pod_and_its_successor_does_not_wait() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=10.0)
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        await world.delete(grace=0)
        new = api_pod()
        await world.create(structs.replace(new, metadata=structs.replace(new.metadata, uid="new")))
        assert await world.until(world.runs("new")) < 2.0
        assert world.running_containers(UID)
        await world.until(world.gone(UID))
        assert world.running_containers("new")
        record = await world.record("web")
        assert record is not None
        assert record.metadata.uid == "new"


async def test_a_new_image_restarts_the_container() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        await world.change(lambda found: with_image(found, "busybox:2"))
        await world.sleep(5.0)
        (status,) = (await world.status("web")).containerStatuses
        assert status.restartCount == 1
        assert [e.message for e in await world.events("web", "Killing")] == [
            "Container c definition changed, will be restarted"
        ]


async def test_a_rejected_pod_stays_failed() -> None:
    world = World()
    async with world.running():
        await world.sleep(1.0)
        await world.create(api_pod(nodeSelector={"disk": "ssd"}))
        await world.sleep(120.0)
        status = await world.status("web")
        assert (status.phase, status.reason) == ("Failed", "NodeAffinity")
        assert status.message == (
            "Pod was rejected: Predicate NodeAffinity failed:"
            " node(s) didn't match Pod's node affinity/selector"
        )
        assert not world.containers()
        await world.delete(grace=0)
        await world.sleep(1.0)
        assert await world.record("web") is None


async def test_a_succeeded_pod_is_kept_until_deleted() -> None:
    world = World()
    world.behaviours["c"] = ends()
    async with world.running():
        await world.create(api_pod(policy="Never"))
        await world.until(lambda: world.phase("web") == "Succeeded")
        await world.sleep(200.0)
        assert (await world.status("web")).phase == "Succeeded"
        assert [one.state for one in world.containers(UID)] == [ContainerState.EXITED]
        await world.delete(grace=0)
        await world.until(world.gone(UID), 5.0)


async def test_foreign_conditions_are_kept_and_readiness_gates_apply() -> None:
    world = World()
    gate = PodReadinessGate(conditionType="example.com/ready")
    scheduled = PodCondition(
        type="PodScheduled", status="True", lastTransitionTime="2025-12-31T00:00:00Z"
    )
    async with world.running():
        one = api_pod(readinessGates=(gate,))
        await world.create(
            structs.replace(one, status=PodStatus(phase="Pending", conditions=(scheduled,)))
        )
        await world.until(world.runs(UID))
        await world.sleep(2.0)
        conditions = {c.type: c for c in (await world.status("web")).conditions}
        assert conditions["Ready"].reason == "ReadinessGatesNotReady"
        assert conditions["PodScheduled"].lastTransitionTime == "2025-12-31T00:00:00Z"
        mine = PodCondition(type="example.com/ready", status="True")

        def with_condition(found: Pod) -> Pod:
            status = structs.replace(found.status, conditions=(*found.status.conditions, mine))
            return structs.replace(found, status=status)

        await world.change(with_condition)
        await world.sleep(1.0)
        conditions = {c.type: c for c in (await world.status("web")).conditions}
        assert conditions["Ready"].status == "True"
        assert conditions["example.com/ready"] == mine


async def test_a_new_kubelet_adopts_the_containers_and_keeps_the_counts() -> None:
    world = World()
    world.behaviours["c"] = ends(code=1, after=5.0)
    async with world.running():
        await world.create(api_pod("crash"))
        await world.create(api_pod("web", container("steady")))
        await world.until(lambda: len(world.containers("uid-crash")) == 2)
        await world.until(lambda: world.phase("web") == "Running")
        before = await world.status("web")
        count = (await world.status("crash")).containerStatuses[0].restartCount
        made = world.calls["create_container"]
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(2.0)
        assert await world.status("web") == before
        assert (await world.status("crash")).containerStatuses[0].restartCount >= count >= 1
        assert len(world.running_containers(UID)) == 1
        assert world.calls["create_container"] <= made + 1


async def test_pods_deleted_while_no_kubelet_ran_are_removed_by_the_next() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod("web"), api_pod("gone"), api_pod("stays"))
        await world.until(lambda: len(world.running_containers()) == 3)
        await world.stop_kubelet()
        await world.delete("web")
        await world.delete("gone", grace=0)
        await world.start_kubelet()
        await world.until(world.gone("uid-web"))
        await world.until(world.gone("uid-gone"))
        await world.sleep(1.0)
        assert await world.record("web") is None
        assert len(world.running_containers("uid-stays")) == 1


async def test_an_api_pod_keeps_a_name_shared_with_a_static_pod() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod("web-n1"))
        await world.until(world.runs("uid-web-n1"))
        world.add(pod("web-n1", "static"))
        await world.until(world.runs("static"))
        record = await world.record()
        assert record is not None
        assert record.metadata.uid == "uid-web-n1"
        await world.delete("web-n1", grace=0)
        await world.until(world.gone("uid-web-n1"))
        await world.sleep(1.0)
        record = await world.record()
        assert record is not None
        assert record.metadata.uid == "static"
        assert len(world.running_containers("static")) == 1


async def test_a_deleted_mirror_record_is_recreated_and_its_pod_keeps_running() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(1.0)
        before = await world.record()
        starts = world.calls["start_container"]
        for grace in (0, 30):
            await world.delete("web-n1", grace=grace)
            await world.sleep(0.5)
            after = await world.record()
            assert before is not None
            assert after is not None
            assert after.metadata.uid != before.metadata.uid
            assert after.metadata.deletionTimestamp is None
            assert after.status == before.status
            assert after.metadata.annotations == before.metadata.annotations
            before = after
        assert world.calls["start_container"] == starts
        world.remove("uid-web-n1")
        await world.until(world.gone())
        await world.sleep(1.0)
        assert await world.record() is None


async def test_client_changes_of_a_mirror_record_are_kept_without_effect() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))

        def edited(found: Pod) -> Pod:
            labels = structs.replace(found.metadata, labels={"team": "a"})
            return structs.replace(with_image(found, "other:1"), metadata=labels)

        await world.change(edited, "web-n1")
        await world.sleep(1.0)
        record = await world.record()
        assert record is not None
        assert record.metadata.labels == {"team": "a"}
        assert record.spec.containers[0].image == "busybox:1"
        assert len(world.containers("uid-web-n1")) == 1


async def test_a_mirror_record_without_a_static_pod_is_removed() -> None:
    world = World()
    async with world.running():
        await world.sleep(1.0)
        stray = pod("stray-n1")
        annotations = {**stray.metadata.annotations, "kubernetes.io/config.mirror": "x"}
        await world.create(
            structs.replace(
                stray, metadata=structs.replace(stray.metadata, annotations=annotations)
            )
        )
        await world.sleep(1.0)
        assert await world.record("stray-n1") is None
        assert not world.containers()


async def test_a_static_pod_preempts_an_api_pod() -> None:
    world = World()

    def requesting(cpu: str) -> Container:
        return container(resources=ResourceRequirements(requests={"cpu": cpu}))

    async with world.running():
        await world.sleep(1.0)
        cpus = (await world.node()).status.allocatable["cpu"]
        await world.create(api_pod("guest", requesting(cpus)))
        await world.until(world.runs("uid-guest"))
        world.add(pod("file", "", requesting(cpus)))
        await world.until(world.runs("uid-file"))
        assert not world.running_containers("uid-guest")
        status = await world.status("guest")
        text = "Preempted in order to admit critical pod"
        assert (status.phase, status.reason, status.message) == ("Failed", "Preempting", text)
        (mark,) = (one for one in status.conditions if one.type == "DisruptionTarget")
        assert (mark.status, mark.reason) == ("True", "TerminationByKubelet")


async def test_a_node_shutdown_fails_an_api_pod_permanently() -> None:
    world = World(shutdown_grace_period=30.0, shutdown_grace_period_critical_pods=10.0)
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        assert await world.kubelet.shut_down()
        await world.sleep(1.0)
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(60.0)
        status = await world.status("web")
        text = "Pod was terminated in response to imminent node shutdown."
        assert (status.phase, status.reason, status.message) == ("Failed", "Terminated", text)
        assert not world.running_containers()


async def test_frequent_changes_of_annotations_share_a_pass_and_a_spec_has_its_own() -> None:
    world = World()
    async with world.running():
        await world.create(api_pod())
        await world.until(world.runs(UID))
        await world.sleep(0.5)
        before = world.calls["list"]
        for number in range(20):
            await world.change(lambda found, n=number: annotated(found, str(n)))
            await world.sleep(0.01)
        await world.sleep(0.1)
        assert 1 <= world.calls["list"] - before <= 4
        await world.change(lambda found: with_image(found, "busybox:1.36"))
        await world.sleep(0.05)
        assert len(await world.events("web", "Killing")) == 1


def annotated(found: Pod, value: str) -> Pod:
    metadata = structs.replace(found.metadata, annotations={"turn": value})
    return structs.replace(found, metadata=metadata)
