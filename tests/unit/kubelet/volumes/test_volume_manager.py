"""Volumes during the life of a pod: waits, retries and updates."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from kubelet_world import World, container, pod
from msgspec import convert, structs

from podtui.api.v1 import EnvVar, Event, Pod, Volume, VolumeMount
from podtui.errors import EngineError, SubPathError
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import HostPathKind

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


def volume(name: str, **source: object) -> Volume:
    return convert({"name": name, **source}, Volume)


def mounting(*names: str, **fields: object):
    mounts = tuple(VolumeMount(name=name, mountPath=f"/{name}") for name in names)
    return container(**{"volumeMounts": mounts, **fields})  # type: ignore[arg-type]


def pod_with(*volumes: Volume, **fields: object) -> Pod:
    """Return a pod that mounts all of them."""
    return pod("web-n1", "", mounting(*(one.name for one in volumes)), volumes=volumes, **fields)


def configured(**fields: object) -> Pod:
    return pod_with(volume("cfg", configMap={"name": "m"}), **fields)


@asynccontextmanager
async def running_configured() -> AsyncIterator[World]:
    """Run a pod with a volume of the ConfigMap ``m``, whose ``key`` is "one"."""
    world = World()
    async with world.running():
        world.config_map("m", key="one")
        world.add(configured())
        await world.until(world.runs(UID))
        yield world


async def warnings(world: World) -> list[Event]:
    return await world.events("web-n1", "FailedMount")


async def messages(world: World) -> list[str]:
    return [event.message for event in await warnings(world)]


def failed(name: str, why: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {why}'


async def content(world: World, path: str, name: str = "cfg") -> bytes | None:
    (box,) = world.sandboxes(UID)
    return await world.runtime.read_volume(box.id, name, path, 1000)


async def times_of(world: World, verb: str, count: int) -> list[float]:
    """Return the times of the first calls of a verb, in virtual seconds."""
    found: list[float] = []
    while len(found) < count:
        found += [world.clock.monotonic()] * (world.calls.get(verb, 0) - len(found))
        await world.sleep(0.01)
    return found


def gaps(moments: list[float]) -> list[float]:
    return [round(later - earlier, 1) for earlier, later in itertools.pairwise(moments)]


# --- empty directories


async def test_an_empty_directory_is_shared_and_lives_as_long_as_its_pod() -> None:
    world = World()
    world.behaviours["a"] = lambda config: Behaviour(
        exit_after=20.0, exit_code=1, files={} if config.attempt else {"/data/f": b"once\n"}
    )
    async with world.running():
        users = mounting("data", name="a"), mounting("data", name="b")
        world.add(pod("web-n1", "", *users, volumes=(volume("data", emptyDir={}),)))
        await world.until(world.runs(UID, 2))
        await world.sleep(2)
        (reader,) = world.containers(UID, "b")
        assert world.engine.containers[reader.id].files.read("/data/f") == b"once\n"
        await world.until(lambda: any(one.attempt for one in world.containers(UID, "a")))
        assert await content(world, "f", "data") == b"once\n"
        (box,) = world.sandboxes(UID)
        await world.runtime.stop_sandbox(box.id)
        await world.until(lambda: any(one.attempt for one in world.sandboxes(UID)))
        assert await content(world, "f", "data") == b"once\n"
        world.remove(UID)
        await world.until(world.gone(UID))
        assert await world.runtime.pod_data() == ()


# --- host paths


async def test_a_pod_waits_for_its_host_path_and_then_starts() -> None:
    world = World(jitter=1.0)
    async with world.running():
        world.add(pod_with(volume("d", hostPath={"path": "/etc/hostname", "type": "Directory"})))
        moments = await times_of(world, "host_path", 7)
        assert gaps(moments) == [0.5, 1, 2, 4, 8, 16]
        (event,) = await warnings(world)
        why = "hostPath type check failed: /etc/hostname is not a directory"
        assert (event.message, event.type) == (failed("d", why), "Warning")
        assert event.count == 7
        assert event.involvedObject.fieldPath == ""
        assert world.calls.get("run_sandbox", 0) == 0
        status = await world.status()
        assert status.phase == "Pending"
        waiting = status.containerStatuses[0].state.waiting
        assert waiting is not None
        assert (waiting.reason, waiting.message) == ("ContainerCreating", "")
        conditions = {one.type: one.status for one in status.conditions}
        assert conditions["PodReadyToStartContainers"] == "False"
        assert await world.events("web-n1", "FailedCreatePodSandBox", "Failed") == []
        world.engine.host.put("/etc/hostname", HostPathKind.DIRECTORY)
        await world.until(world.runs(UID), limit=33)
        calls = world.calls["host_path"]
        world.engine.host.put("/etc/hostname", HostPathKind.MISSING)
        await world.sleep(300)
        assert world.calls["host_path"] == calls, "a valid host path was checked again"


async def test_retries_are_at_most_two_minutes_and_two_seconds_apart() -> None:
    world = World()
    async with world.running():
        world.add(pod_with(volume("d", hostPath={"path": "/none", "type": "Directory"})))
        assert gaps(await times_of(world, "host_path", 11))[-3:] == [64, 122, 122]


async def test_a_new_kubelet_checks_host_paths_again() -> None:
    world = World()
    async with world.running():
        world.add(pod_with(volume("d", hostPath={"path": "/tmp", "type": "Directory"})))
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        world.engine.host.put("/tmp", HostPathKind.MISSING)
        await world.start_kubelet()
        await world.sleep(5)
        why = "hostPath type check failed: /tmp is not a directory"
        assert await messages(world) == [failed("d", why)]
        assert world.runs(UID)(), "what runs is not stopped for it"


async def test_missing_host_paths_are_created_for_create_types() -> None:
    world = World()
    async with world.running():
        world.add(
            pod_with(
                volume("d", hostPath={"path": "/srv/a/b", "type": "DirectoryOrCreate"}),
                volume("f", hostPath={"path": "/srv/f", "type": "FileOrCreate"}),
            )
        )
        await world.until(world.runs(UID))
        assert world.engine.host.kind("/srv/a/b") is HostPathKind.DIRECTORY
        assert world.engine.host.kind("/srv/f") is HostPathKind.FILE


async def test_parents_of_a_file_are_not_created() -> None:
    world = World()
    async with world.running():
        world.add(pod_with(volume("f", hostPath={"path": "/srv/no/f", "type": "FileOrCreate"})))
        await world.sleep(0.3)
        assert await messages(world) == [failed("f", "open /srv/no/f: no such file or directory")]


# --- unsupported volumes


async def test_strict_has_no_projected_volume() -> None:
    item = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    projected = volume("p", projected={"sources": [{"downwardAPI": {"items": [item]}}]})
    world = World(strict=True)
    async with world.running():
        world.add(pod_with(projected))
        await world.sleep(4)
        why = "cannot setup projected volume p because kube client is not configured"
        (event,) = await warnings(world)
        assert event.message == failed("p", why)
        assert event.count == 4, "after 0, 0.5, 1.5 and 3.5 seconds"
        assert (await world.status()).phase == "Pending"
        assert world.calls.get("run_sandbox", 0) == 0


async def test_an_unsupported_volume_type_keeps_its_pod_waiting() -> None:
    world = World()
    async with world.running():
        world.add(
            pod_with(
                volume("data", fc={"targetWWNs": ["w"], "lun": 0}),
                volume("e", emptyDir={}),
                volume("old", rbd={"monitors": ["m"], "image": "i"}),
            )
        )
        await world.sleep(25)
        (event,) = await warnings(world)
        assert event.message == (
            "Unable to attach or mount volumes: unmounted volumes=[data old],"
            " unattached volumes=[], failed to process volumes=[data old]:"
            ' failed to get Plugin from volumeSpec for volume "data" err=no volume plugin matched;'
            ' failed to get Plugin from volumeSpec for volume "old" err=no volume plugin matched'
        )
        assert event.count == 3, "once in each pass, ten seconds apart"
        messages = [one.message for one in await world.events("web-n1", "NotSupported")]
        assert messages == [
            'volumes of type fc are not supported: the pod waits for "data"',
            'volumes of type rbd are not supported: the pod waits for "old"',
        ]
        assert world.calls.get("run_sandbox", 0) == 0
        assert (await world.status()).phase == "Pending"


async def test_a_document_added_later_is_seen_at_once() -> None:
    world = World()
    async with world.running():
        world.add(configured())
        await world.sleep(130)
        assert await messages(world) == [failed("cfg", 'configmap "m" not found')]
        assert world.calls.get("run_sandbox", 0) == 0
        world.config_map("m", key="value")
        assert await world.until(world.runs(UID)) < 0.2
        assert await content(world, "key") == b"value"


async def test_a_key_added_later_starts_a_container_at_once() -> None:
    world = World()
    ref = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}
    async with world.running():
        world.config_map("m", other="1")
        world.add(pod("web-n1", "", container(env=convert((ref,), tuple[EnvVar, ...]))))
        await world.sleep(3)
        waiting = (await world.status()).containerStatuses[0].state.waiting
        assert waiting is not None
        assert (waiting.reason, waiting.message) == (
            "CreateContainerConfigError",
            "couldn't find key k in ConfigMap default/m",
        )
        world.config_map("m", k="v")
        assert await world.until(world.runs(UID)) < 0.2


# --- files that change


async def test_files_are_written_only_when_their_document_changes() -> None:
    async with running_configured() as world:
        assert await content(world, "key") == b"one"
        await world.sleep(200)
        assert world.calls.get("write_volume", 0) == 0, "the sandbox was made with them"
        world.config_map("m", key="two", more="x")
        assert await world.until(lambda: world.calls.get("write_volume", 0) == 1) < 0.2
        assert await content(world, "key") == b"two"
        assert await content(world, "more") == b"x"
        world.config_map("other", key="x")
        await world.sleep(200)
        assert world.calls["write_volume"] == 1
        assert len(world.containers(UID)) == 1


async def test_labels_change_under_a_fixed_uid() -> None:
    item = {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}
    world = World()
    async with world.running():
        made = pod_with(volume("cfg", downwardAPI={"items": [item]}))
        world.add(made)
        await world.until(world.runs(UID))
        assert await content(world, "l") == b""
        meta = structs.replace(made.metadata, labels={"a": "1"})
        world.add(structs.replace(made, metadata=meta))
        await world.until(lambda: world.calls.get("write_volume", 0) == 1, limit=1)
        assert await content(world, "l") == b'a="1"'
        assert len(world.containers(UID)) == 1


async def test_a_new_kubelet_writes_once() -> None:
    async with running_configured() as world:
        await world.stop_kubelet()
        world.config_map("m", key="two")
        await world.start_kubelet()
        await world.until(lambda: world.calls.get("write_volume", 0) == 1, limit=2)
        assert await content(world, "key") == b"two"
        await world.sleep(200)
        assert world.calls["write_volume"] == 1


async def test_files_are_kept_when_their_document_is_removed() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=5.0, exit_code=1)
    async with world.running():
        world.config_map("m", key="one")
        world.add(configured())
        await world.until(world.runs(UID))
        world.config_map("m")
        await world.sleep(1)
        assert await messages(world) == [failed("cfg", 'configmap "m" not found')]
        await world.sleep(60)
        assert world.containers(UID, "c")[-1].attempt > 1, "it is restarted all the same"
        assert await content(world, "key") == b"one"
        world.config_map("m", key="three")
        await world.until(lambda: world.calls.get("write_volume", 0) == 1, limit=1)
        assert await content(world, "key") == b"three"


async def test_files_are_kept_for_a_recreated_sandbox() -> None:
    async with running_configured() as world:
        (box,) = world.sandboxes(UID)
        world.config_map("m")
        await world.sleep(1)
        await world.runtime.stop_sandbox(box.id)
        await world.until(lambda: world.runs(UID)() and world.sandboxes(UID)[0].attempt == 1)
        assert await content(world, "key") == b"one"


async def test_an_immutable_document_keeps_its_first_content() -> None:
    world = World()
    async with world.running():
        world.config_map("m", immutable=True, key="one")
        world.add(configured())
        await world.until(world.runs(UID))
        world.config_map("m", immutable=True, key="two")
        await world.sleep(100)
        assert await content(world, "key") == b"one"
        assert world.calls.get("write_volume", 0) == 0
        world.config_map("m")
        await world.sleep(1)
        world.config_map("m", key="three")
        await world.until(lambda: world.calls.get("write_volume", 0) == 1, limit=1)
        assert await content(world, "key") == b"three"


async def test_failed_file_writes_are_retried() -> None:
    async with running_configured() as world:
        world.engine.faults.fail("write_volume", EngineError("no space left on device"), times=2)
        world.config_map("m", key="two")
        await world.until(lambda: world.calls.get("write_volume", 0) == 3, limit=3)
        assert await content(world, "key") == b"two"
        (event,) = await warnings(world)
        assert (event.message, event.count) == (failed("cfg", "no space left on device"), 2)


async def test_obsolete_file_writes_are_not_retried() -> None:
    async with running_configured() as world:
        world.engine.faults.fail("write_volume", EngineError("no space left on device"), times=None)
        world.config_map("m", key="two")
        await world.until(lambda: world.calls.get("write_volume", 0) == 1)
        world.config_map("m", key="one")
        await world.sleep(1)
        before = world.calls
        await world.sleep(50)
        assert world.calls["write_volume"] == 1
        assert world.calls["list"] - before["list"] < 20, "the pod is not read all the time"


async def test_another_volume_under_the_same_uid_is_set_up_again() -> None:
    world = World()
    async with world.running():
        world.add(pod_with(volume("d", hostPath={"path": "/none", "type": "Directory"})))
        await world.sleep(1)
        assert len(await warnings(world)) == 1
        world.add(pod_with(volume("d", hostPath={"path": "/tmp", "type": "File"})))
        await world.sleep(3)
        assert await messages(world) == [
            failed("d", "hostPath type check failed: /none is not a directory"),
            failed("d", "hostPath type check failed: /tmp is not a file"),
        ]
        world.add(pod_with(volume("d", emptyDir={})))
        assert await world.until(world.runs(UID)) < 0.2
        before = world.calls["list"]
        await world.sleep(50)
        assert world.calls["list"] - before < 20, "the pod is not read all the time"


# --- images


IMAGE = volume("img", image={"reference": "data:1", "pullPolicy": "IfNotPresent"})
ABSENT = volume("img", image={"reference": "nosuch:1", "pullPolicy": "IfNotPresent"})


async def test_an_image_volume_is_pulled_once_and_has_its_files() -> None:
    world = World()
    async with world.running():
        users = (mounting("img", name="a"), mounting("img", name="b"))
        world.add(pod("web-n1", "", *users, volumes=(IMAGE,)))
        await world.until(world.runs(UID, 2))
        assert await content(world, "etc/group", "img") == b"root:x:0:\n"
        pulls = await world.events("web-n1", "Pulling")
        assert [(one.message, one.involvedObject.fieldPath) for one in pulls] == [
            ('Pulling image "data:1"', "")
        ]
        assert world.calls["fill_volume"] == 1
        await world.sleep(200)
        assert (world.calls["pull_image"], world.calls["fill_volume"]) == (1, 1)


async def test_a_bad_image_blocks_only_containers_that_mount_it() -> None:
    world = World()
    async with world.running():
        users = (mounting("img", name="a"), container("b"))
        world.add(pod("web-n1", "", *users, volumes=(ABSENT,)))
        await world.until(world.runs(UID))
        assert [one.name for one in world.running_containers(UID)] == ["b"]
        texts: dict[str, str] = {}
        for _ in range(400):
            waiting = (await world.status()).containerStatuses[0].state.waiting
            assert waiting is not None
            texts[waiting.reason] = waiting.message
            await world.sleep(0.1)
        assert texts.keys() - {"ContainerCreating"} == {"ErrImagePull", "ImagePullBackOff"}
        assert texts["ImagePullBackOff"] == (
            f'Back-off pulling image "nosuch:1": ErrImagePull: {texts["ErrImagePull"]}'
        )
        events = {
            (one.type, one.reason, one.message, one.involvedObject.fieldPath)
            for one in await world.events("web-n1", "Failed", "BackOff")
        }
        assert events == {
            ("Warning", "Failed", f'Failed to pull image "nosuch:1": {texts["ErrImagePull"]}', ""),
            ("Normal", "BackOff", 'Back-off pulling image "nosuch:1"', ""),
            ("Warning", "Failed", "Error: ErrImagePull", "spec.containers{a}"),
            ("Warning", "Failed", "Error: ImagePullBackOff", "spec.containers{a}"),
        }
        assert (await world.status()).phase == "Pending"


async def test_an_image_that_cannot_be_unpacked() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("fill_volume", EngineError("no space left on device"), times=1)
        world.add(pod("web-n1", "", mounting("img"), volumes=(IMAGE,)))
        await world.until(world.runs(UID), limit=16)
        text = "ImageVolumeMountFailed: no space left on device"
        (event,) = await world.events("web-n1", "Failed")
        assert event.message == f"Error: {text}"
        assert event.involvedObject.fieldPath == "spec.containers{c}"


@pytest.mark.parametrize(("strict", "checks"), [(False, 1), (True, 4)])
async def test_only_strict_checks_images_in_every_sync(strict: bool, checks: int) -> None:
    world = World(strict=strict)
    async with world.running():
        world.add(pod("web-n1", "", mounting("img"), volumes=(IMAGE,)))
        await world.until(world.runs(UID))
        await world.sleep(1)
        before = world.calls["image_status"]
        await world.sleep(185)
        assert world.calls["image_status"] - before == checks - 1


async def test_the_image_of_a_mounted_image_volume_is_kept() -> None:
    world = World()
    world.behaviours["b"] = Behaviour(exit_after=5.0, exit_code=1)
    async with world.running():
        users = (mounting("img", name="a"), mounting("img", name="b"))
        world.add(pod("web-n1", "", *users, volumes=(IMAGE,)))
        await world.until(lambda: any(one.attempt for one in world.containers(UID, "b")))
        assert world.calls["fill_volume"] == 1


# --- sub-paths


async def test_an_escaping_sub_path_reveals_nothing_of_the_node() -> None:
    world = World()
    async with world.running():
        secret = SubPathError("subPath a leads out of its volume to /etc/shadow", "/e")
        world.engine.faults.fail("create_container", secret, times=None)
        mount = VolumeMount(name="e", mountPath="/e", subPath="a")
        world.add(
            pod("web-n1", "", container(volumeMounts=(mount,)), volumes=(volume("e", emptyDir={}),))
        )
        await world.sleep(1)
        text = 'failed to prepare subPath for volumeMount "e" of container "c"'
        waiting = (await world.status()).containerStatuses[0].state.waiting
        assert waiting is not None
        assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", text)
        (event,) = await world.events("web-n1", "Failed")
        assert event.message == f"Error: {text}"


# --- variables from files


def from_file(**more: object) -> Pod:
    ref = {"volumeName": "shared", "path": "vars.env", "key": "TOKEN", **more}
    variable = {"name": "T", "valueFrom": {"fileKeyRef": ref}}
    return pod(
        "web-n1",
        "",
        container("app", env=convert((variable,), tuple[EnvVar, ...])),
        init=(mounting("shared", name="write"),),
        volumes=(volume("shared", emptyDir={}),),
    )


WRITES = Behaviour(exit_after=0.0, files={"/shared/vars.env": b"TOKEN='abc'\n"})


def env_of(world: World, name: str) -> Callable[[str], str | None]:
    (record,) = world.containers(UID, name)
    return dict(world.engine.containers[record.id].config.env).get


async def test_a_variable_comes_from_a_file_that_an_init_container_wrote() -> None:
    world = World()
    world.behaviours["write"] = WRITES
    async with world.running():
        world.add(from_file())
        await world.until(lambda: bool(world.containers(UID, "app")), limit=30)
        assert env_of(world, "app")("T") == "abc"


async def test_a_variable_whose_file_is_missing() -> None:
    world = World()
    world.behaviours["write"] = WRITES
    async with world.running():
        world.add(from_file(path="none.env", optional=True))
        await world.sleep(30)
        waiting = (await world.status()).containerStatuses[0].state.waiting
        assert waiting is not None
        assert (waiting.reason, waiting.message) == (
            "CreateContainerConfigError",
            "couldn't parse env file",
        )
        (event,) = await world.events("web-n1", "Failed")
        assert event.message == "Error: couldn't parse env file"
