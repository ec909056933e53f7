"""Loops that fail unexpectedly: the node says so, nothing is lost, and other pods go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubelet_world import World, container, pod
from virtual_time import virtual

from podtui.api.v1 import Event, Node, NodeCondition, Pod
from podtui.kubelet.admission.admissions import Admissions
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.pods.sync_loop import merged_operation
from podtui.kubelet.status.status_manager import StatusManager
from podtui.kubelet.types import PodOperation, PodUpdate
from podtui.store import Store


async def ready(world: World) -> NodeCondition:
    node = await world.store.get("nodes", "", "n1")
    assert isinstance(node, Node)
    return next(one for one in node.status.conditions if one.type == "Ready")


def break_admission(
    monkeypatch: pytest.MonkeyPatch, name: str, on_try: Callable[[Pod], None] = lambda _: None
) -> set[str]:
    """Let the admission of the named pods fail unexpectedly. Returns the names, to be changed."""
    admit, broken = Admissions.admit, {name}

    async def admit_or_fail(self: Admissions, wanted: Pod) -> bool:
        on_try(wanted)
        if wanted.metadata.name in broken:
            raise TypeError("not foreseen")
        return await admit(self, wanted)

    monkeypatch.setattr(Admissions, "admit", admit_or_fail)
    return broken


@virtual()
async def test_a_pod_that_breaks_the_sync_loop_is_tried_again_and_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = break_admission(monkeypatch, "bad-n1")
    world = World()
    async with world.running():
        world.add(pod("bad-n1", "u1"), pod("good-n1", "u2"))
        await world.until(world.runs("u2"))
        world.add(pod("later-n1", "u3"))
        await world.until(world.runs("u3"))
        await world.sleep(15)
        condition = await ready(world)
        assert condition.status == "False"
        assert "sync loop failed: TypeError: not foreseen" in condition.message
        assert "sync loop failed" in world.kubelet.endpoints.health_checks()["parts"]
        broken.clear()
        await world.until(world.runs("u1"))
        await world.sleep(30)
        assert (await ready(world)).status == "True"
        assert not any(world.kubelet.endpoints.health_checks().values())


@virtual()
async def test_an_update_that_failed_does_not_bring_a_removed_pod_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = break_admission(monkeypatch, "web-n1")
    world = World()
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.sleep(5)
        world.remove("u1")
        await world.sleep(5)
        broken.clear()
        await world.sleep(30)
        assert not world.running_containers("u1")
        assert (await world.store.list("pods")).items == ()
        assert not any(world.kubelet.endpoints.health_checks().values())


@virtual()
async def test_the_newest_version_of_a_pod_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    broken = break_admission(
        monkeypatch, "web-n1", lambda wanted: tried.append(wanted.spec.containers[0].image)
    )
    world = World()
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.sleep(5)
        world.add(pod("web-n1", "u1", container(image="busybox:2")))
        await world.sleep(5)
        before = len(tried)
        broken.clear()
        await world.sleep(5)
        assert tried[before:] == ["busybox:2"]


@virtual()
async def test_an_error_of_the_last_writes_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        await world.sleep(5)
        drained: list[str] = []

        async def fail(_: StatusManager) -> None:
            raise TypeError("not foreseen")

        async def note(_: Timelines) -> None:
            drained.append("timelines")

        monkeypatch.setattr(StatusManager, "drain", fail)
        monkeypatch.setattr(Timelines, "drain", note)
        await world.stop_kubelet()
    assert drained == ["timelines"]
    assert "cannot write the last records" in caplog.text


def test_a_newer_version_gets_the_effect_of_an_update_that_failed() -> None:
    add, update, reconcile = PodOperation.ADD, PodOperation.UPDATE, PodOperation.RECONCILE
    for failed, newer, expected in (
        (None, update, update),
        (add, update, add),
        (reconcile, update, update),
        (update, reconcile, update),
        (add, PodOperation.REMOVE, PodOperation.REMOVE),
        (PodOperation.REMOVE, add, add),
    ):
        earlier = None if failed is None else PodUpdate(operation=failed, pods=())
        assert merged_operation(earlier, newer) is expected


@virtual()
async def test_a_node_whose_status_cannot_be_computed_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> None:
        raise TypeError("not foreseen")

    world = World()
    async with world.running():
        await world.sleep(20)
        assert (await ready(world)).status == "True"
        with monkeypatch.context() as patch:
            patch.setattr(NodeManager, "_compute", failing)
            await world.sleep(30)
            condition = await ready(world)
            assert (condition.status, condition.reason) == ("False", "KubeletNotReady")
            assert condition.message == "node status failed: TypeError: not foreseen"
        await world.sleep(60)
        assert (await ready(world)).status == "True"


@virtual()
@pytest.mark.parametrize("resource", ["pods", "events", "timelines"])
async def test_records_that_a_loop_could_not_write_are_written_later(
    resource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def failing(name: str) -> Any:
        real = getattr(Store, name)

        async def wrapped(self: Store, kind: str, *rest: Any) -> Any:
            if broken and kind == resource:
                raise TypeError("not foreseen")
            return await real(self, kind, *rest)

        return wrapped

    for name in ("put", "create", "update"):
        monkeypatch.setattr(Store, name, failing(name))
    world = World()
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        await world.sleep(15)
        assert world.kubelet.endpoints.health_checks()["parts"]
        assert (await world.store.list(resource)).items == ()  # type: ignore[arg-type]
        broken = False
        await world.sleep(60)
        items = (await world.store.list(resource)).items  # type: ignore[arg-type]
        if resource == "events":
            reasons = {item.reason for item in items if isinstance(item, Event)}
            assert reasons >= {"Starting", "NodeReady", "Created", "Started"}
        else:
            assert [item.metadata.name for item in items] == ["web-n1"]
        assert not any(world.kubelet.endpoints.health_checks().values())
