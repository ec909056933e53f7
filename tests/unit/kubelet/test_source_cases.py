"""From manifests to running pods: the effect of file changes (kubelet.md §1, cases 1 to 18)."""

from __future__ import annotations

import re

import pytest
from folder_world import FolderWorld

from podtui.api import names
from podtui.api.local import ManifestState
from podtui.api.v1 import Event, Pod
from podtui.kubelet.kubelet_metrics import KUBELET
from podtui.runtime.memory import Behaviour
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import ContainerRecord

pytestmark = pytest.mark.virtual_time

WEB = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: c
    image: busybox:1
    env: [{name: A, value: b}]
"""
FIXED = WEB.replace("  name: web\n", "  name: web\n  uid: abc\n", 1)
OTHER_ENV = "value: c"
BROKEN = "apiVersion: v1\nkind: Pod\nmetadata: {name: web\n"


async def running(world: FolderWorld, text: str = WEB) -> ContainerRecord:
    """Return the container of ``/m/web.yaml`` once it runs."""
    world.put("web.yaml", text)
    await world.until(lambda: len(world.running_containers()) == 1)
    return world.running_containers()[0]


def variables(world: FolderWorld) -> dict[str, str]:
    (found,) = world.running_containers()
    return dict(world.engine.containers[found.id].config.env)


async def test_a_manifest_becomes_a_pod() -> None:
    world = FolderWorld(start_delay=1.0)
    async with world.running():
        world.put("web.yaml", WEB)
        await world.until(lambda: bool(world.sandboxes()))
        assert (await world.status()).phase == "Pending"
        await world.until(lambda: world.phase() == "Running")
        record = await world.record()
    assert isinstance(record, Pod)
    meta = record.metadata
    assert (meta.name, meta.namespace) == ("web-n1", "default")
    assert re.fullmatch("[0-9a-f]{32}", meta.uid)
    notes = meta.annotations
    assert (notes[names.CONFIG_SOURCE], notes[names.CONFIG_HASH]) == ("file", meta.uid)
    seen = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)"
    assert re.fullmatch(seen, notes[names.CONFIG_SEEN])


@pytest.mark.parametrize("text", [WEB, FIXED])
async def test_comments_and_blank_lines_change_nothing(text: str) -> None:
    world = FolderWorld()
    async with world.running():
        before = await running(world, text)
        events = await world.events()
        world.put("web.yaml", "# a comment\n\n" + text.replace("spec:\n", "spec:  # here\n\n"))
        await world.sleep(60.0)
        assert world.containers() == [before]
        assert await world.events() == events


async def test_an_edit_ends_the_old_pod_before_the_new_one_starts() -> None:
    world = FolderWorld()
    world.behaviours["c"] = Behaviour(term_after=4.0)
    async with world.running():
        old = await running(world)
        world.put("web.yaml", WEB.replace("value: b", OTHER_ENV))
        # It got the stop signal and its grace period.
        for _ in range(38):
            await world.sleep(0.1)
            assert [c.id for c in world.running_containers()] == [old.id]
            assert len(world.sandboxes()) == 1
        await world.until(lambda: old.id not in [c.id for c in world.running_containers()])
        await world.until(lambda: bool(world.running_containers()))
        assert variables(world)["A"] == "c"
        assert len(world.sandboxes()) == 1
        (new,) = world.running_containers()
        assert new.pod_uid == world.uid() != old.pod_uid
        assert [e.message for e in await world.events("web-n1", "Killing")] == [
            "Stopping container c"
        ]


async def test_another_image_under_a_fixed_uid_restarts_the_container_in_its_sandbox() -> None:
    world = FolderWorld()
    world.engine.images.add(simulated_image("busybox:2"), "busybox:2")
    async with world.running():
        old = await running(world, FIXED)
        (sandbox,) = world.sandboxes()
        address = (await world.status()).podIP
        world.put("web.yaml", FIXED.replace("busybox:1", "busybox:2"))
        await world.until(lambda: [c.id for c in world.running_containers()] not in ([], [old.id]))
        status = await world.status()
        assert [s.id for s in world.sandboxes()] == [sandbox.id]
        assert status.podIP == address
        assert status.containerStatuses[0].restartCount == 1
        assert [e.message for e in await world.events("web-n1", "Killing")] == [
            "Container c definition changed, will be restarted"
        ]


async def test_another_variable_under_a_fixed_uid_waits_for_the_next_restart() -> None:
    world = FolderWorld()
    async with world.running():
        old = await running(world, FIXED)
        world.put("web.yaml", FIXED.replace("value: b", OTHER_ENV))
        await world.sleep(120.0)
        assert [c.id for c in world.running_containers()] == [old.id]
        assert variables(world)["A"] == "b"
        await world.runtime.stop_container(old.id, 0)
        await world.until(lambda: bool(world.running_containers()))
        assert variables(world)["A"] == "c"
        assert (await world.status()).containerStatuses[0].restartCount == 1


async def test_an_invalid_manifest_does_not_affect_others() -> None:
    world = FolderWorld()
    async with world.running():
        world.put("bad.yaml", BROKEN)
        await running(world)
        await world.sleep(60.0)
        assert world.folder.manifests["bad.yaml"].status.state is ManifestState.INVALID
        listed = (await world.store.list("pods")).items
        assert [item.metadata.name for item in listed] == ["web-n1"]
        events = (await world.store.list("events")).items
        named = {event.involvedObject.name for event in events if isinstance(event, Event)}
        assert named <= {"web-n1", "n1"}


@pytest.mark.parametrize("strict", [False, True])
async def test_a_manifest_that_becomes_invalid(strict: bool) -> None:
    world = FolderWorld(strict=strict)
    async with world.running():
        old = await running(world)
        world.put("web.yaml", BROKEN)
        await world.sleep(5.0)
        assert [c.id for c in world.running_containers()] == [old.id]
        world.full_list()
        if strict:
            await world.until(world.gone())
            assert await world.record() is None
        else:
            await world.sleep(60.0)
            assert [c.id for c in world.running_containers()] == [old.id]


@pytest.mark.parametrize(("strict", "value"), [(False, "a"), (True, "b")])
async def test_of_two_files_of_one_name_one_pod_runs(strict: bool, value: str) -> None:
    world = FolderWorld(strict=strict)
    async with world.running():
        world.put("a.yaml", WEB.replace("value: b", "value: a"))
        world.put("b.yaml", WEB)
        await world.until(lambda: bool(world.running_containers()))
        await world.sleep(60.0)
        assert variables(world)["A"] == value
        assert len(world.sandboxes(ready=False)) == 1


@pytest.mark.parametrize("strict", [False, True])
async def test_of_two_documents_both_pods_run_and_under_strict_the_first(strict: bool) -> None:
    world = FolderWorld(strict=strict)
    async with world.running():
        await running(world, WEB + "---\n" + WEB.replace("name: web", "name: two"))
        await world.sleep(60.0)
        listed = (await world.store.list("pods")).items
        names = ["web-n1"] if strict else ["two-n1", "web-n1"]
        assert sorted(item.metadata.name for item in listed) == names


async def test_a_config_map_beside_its_pod_reaches_the_container() -> None:
    world = FolderWorld()
    uses = WEB.replace("    env: [{name: A, value: b}]", "    envFrom: [{configMapRef: {name: m}}]")
    config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n"
    async with world.running():
        old = await running(world, uses + config)
        assert variables(world)["A"] == "b"
        world.put("web.yaml", uses + config.replace("A: b", "A: c"))
        await world.sleep(60.0)
        assert [c.id for c in world.running_containers()] == [old.id]
        await world.runtime.stop_container(old.id, 0)
        await world.until(lambda: bool(world.running_containers()))
        assert variables(world)["A"] == "c"


async def test_an_invalid_file_is_logged_counted_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def count(state: ManifestState) -> float | None:
        return KUBELET.get_sample_value("podtui_manifests", {"state": state})

    world = FolderWorld()
    async with world.running():
        await running(world)
        world.put("bad.yaml", BROKEN)
        world.put("same.yaml", WEB)
        await world.until(lambda: count(ManifestState.DUPLICATE) == 1)
        assert (count(ManifestState.ACCEPTED), count(ManifestState.INVALID)) == (1, 1)
        world.put("other.yaml", WEB.replace("name: web", "name: other"))
        world.put("web.yaml", BROKEN)  # a change of another file reports nothing again
        await world.until(lambda: count(ManifestState.LAST_GOOD) == 1)
        await world.sleep(2.0)
        events = [e for e in await world.events("n1") if e.reason == "InvalidManifest"]
        world.put("bad.yaml", WEB.replace("name: web", "name: bad"))
        await world.until(lambda: count(ManifestState.INVALID) == 0)
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == len(events) == 3
    assert {event.involvedObject.kind for event in events} == {"Node"}
    (bad,) = (text for text in errors if "bad.yaml" in text)
    assert bad.startswith("Could not process manifest file '/m/bad.yaml': line ")
    assert {event.message for event in events} == set(errors)
