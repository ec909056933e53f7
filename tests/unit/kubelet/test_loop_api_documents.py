"""ConfigMaps, Secrets and tokens of the API, as the containers of pods see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from kubelet_world import World, api_pod, container, pod
from pod_builders import node
from virtual_time import EPOCH, VirtualClock

from podtui.api.pod_resources import is_static
from podtui.api.v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapVolumeSource,
    Container,
    EnvFromSource,
    ObjectMeta,
    Pod,
    PodSecurityContext,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from podtui.errors import PodtuiError
from podtui.kubelet.ports import Token, TokenRequest
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.pod_volumes import pod_volume
from podtui.kubelet.volumes.tokens import refresh_time

pytestmark = pytest.mark.virtual_time
UID = "uid-web"
MOUNT = VolumeMount(name="v", mountPath="/v")
SETTINGS = Volume(name="v", configMap=ConfigMapVolumeSource(name="settings"))


def settings(text: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="settings", namespace="default"), data={"key": text})


def token_volume(seconds: int = 3600) -> Volume:
    projection = ServiceAccountTokenProjection(path="token", expirationSeconds=seconds)
    source = VolumeProjection(serviceAccountToken=projection)
    return Volume(name="v", projected=ProjectedVolumeSource(sources=(source,), defaultMode=0o644))


def read(world: World, path: str, uid: str = UID) -> bytes | None:
    return world.engine.pod("memory", uid).volumes.read("v", path)


def environment(world: World, uid: str = UID) -> dict[str, str]:
    (cell,) = [c for c in world.engine.containers.values() if c.record.pod_uid == uid]
    return dict(cell.config.env)


@dataclass
class Issuer:
    """Issues numbered tokens, and records the requests."""

    clock: VirtualClock
    requests: list[TokenRequest] = field(default_factory=list[TokenRequest])
    error: str = ""
    changed: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)

    async def token(self, request: TokenRequest) -> Token:
        if self.error:
            raise PodtuiError(self.error)
        self.requests.append(request)
        expires = self.clock.now() + timedelta(seconds=request.seconds)
        return Token(text=f"token {len(self.requests)}", expires=expires)

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            yield await self.changed.get()


def made_by(source: str, *containers: Container, **spec: Any) -> Pod:
    """Return the pod "web" of the API or of the folder."""
    if source == "API":
        return api_pod("web", *containers, **spec)
    return pod("web", UID, *containers, **spec)


async def start(world: World, made: Pod) -> None:
    if is_static(made):
        world.add(made)
    else:
        await world.create(made)


@pytest.mark.parametrize("source", ["API", "folder"])
async def test_a_pod_waits_for_its_config_map_and_sees_its_changes(source: str) -> None:
    world = World()
    async with world.running():
        made = made_by(source, container(volumeMounts=(MOUNT,)), volumes=(SETTINGS,))
        await start(world, made)
        await world.sleep(3.0)
        assert not world.containers(UID)
        (message,) = {e.message for e in await world.events("web", "FailedMount")}
        assert message == 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'
        await world.sleep(60.0)
        await world.store.create("configmaps", settings("one"))
        # At once, not at the next retry.
        assert await world.until(world.runs(UID)) < 5.0
        assert read(world, "key") == b"one"
        await world.store.put("configmaps", settings("two"))
        await world.sleep(1.0)
        assert read(world, "key") == b"two"


@pytest.mark.parametrize("source", ["API", "folder"])
async def test_variables_keep_the_value_of_the_start(source: str) -> None:
    world = World()
    variables = EnvFromSource(configMapRef=ConfigMapEnvSource(name="settings"))
    async with world.running():
        await start(world, made_by(source, container(envFrom=(variables,))))
        await world.sleep(3.0)
        (status,) = (await world.status("web")).containerStatuses
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CreateContainerConfigError"
        assert status.state.waiting.message == 'configmap "settings" not found'
        await world.store.create("configmaps", settings("one"))
        await world.until(world.runs(UID), 30.0)
        assert environment(world)["key"] == "one"
        await world.store.put("configmaps", settings("two"))
        await world.sleep(100.0)
        assert environment(world)["key"] == "one"
        assert len(world.containers(UID)) == 1


async def test_folder_objects_take_precedence_only_for_static_pods() -> None:
    world = World()
    made = container(volumeMounts=(MOUNT,))
    async with world.running():
        world.config_map("settings", key="of the folder")
        await world.store.create("configmaps", settings("of the API"))
        world.add(pod("static", "", made, volumes=(SETTINGS,)))
        await world.create(api_pod("web", made, volumes=(SETTINGS,)))
        await world.until(lambda: len(world.running_containers()) == 2)
        assert read(world, "key", "uid-static") == b"of the folder"
        assert read(world, "key") == b"of the API"
        world.config_map("settings")
        await world.sleep(2.0)
        assert read(world, "key", "uid-static") == b"of the API"


async def test_a_token_is_refreshed_at_four_fifths_of_its_life() -> None:
    world = World()
    world.tokens = issuer = Issuer(world.clock)
    world.kubelet = world.new_kubelet()
    async with world.running():
        made = api_pod(
            "web",
            container(volumeMounts=(MOUNT,)),
            volumes=(token_volume(),),
            serviceAccountName="robot",
        )
        await world.create(made)
        await world.until(world.runs(UID))
        assert read(world, "token") == b"token 1"
        (request,) = issuer.requests
        assert (request.service_account, request.audience, request.seconds) == ("robot", "", 3600)
        assert request.pod.metadata.uid == UID
        await world.sleep(3600 * 0.8 - 100)
        assert len(issuer.requests) == 1
        issuer.error = "the server is gone"
        await world.sleep(200.0)
        assert read(world, "token") == b"token 1"
        issuer.error = ""
        await world.sleep(100.0)
        assert read(world, "token") == b"token 2"


@pytest.mark.parametrize(
    ("user", "group", "expected"),
    [
        (None, None, (0o644, 0, 0)),
        (1000, None, (0o600, 1000, 0)),
        (None, 2000, (0o640, 0, 2000)),
        (1000, 2000, (0o640, 1000, 2000)),
    ],
)
def test_a_token_is_readable_only_by_its_user_and_group(
    user: int | None, group: int | None, expected: tuple[int, int, int]
) -> None:
    security = PodSecurityContext(runAsUser=user, fsGroup=group)
    made = api_pod("web", container(volumeMounts=(MOUNT,)), securityContext=security)
    volume = token_volume()
    assert volume.projected is not None
    projection = volume.projected.sources[0].serviceAccountToken
    assert projection is not None
    planned = pod_volume(made, volume, ValueSources(node=node(), tokens={projection: "secret"}))
    (file,) = (one for one in planned.files if not one.target)
    assert file.content == b"secret"
    assert (file.mode, file.uid, file.gid) == expected


@pytest.mark.parametrize(("seconds", "life"), [(3600, 2880.0), (172800, 86400.0)])
def test_tokens_are_refreshed_after_a_day_at_the_latest(seconds: int, life: float) -> None:
    issued = EPOCH
    refreshed = refresh_time(issued, issued + timedelta(seconds=seconds))
    assert (refreshed - issued).total_seconds() == life


@pytest.mark.parametrize("source", ["API", "folder"])
async def test_without_a_token_the_pod_waits_with_the_message_of_the_api(source: str) -> None:
    world = World()
    world.tokens = issuer = Issuer(world.clock, error='serviceaccounts "robot" not found')
    world.kubelet = world.new_kubelet()
    async with world.running():
        made = made_by(
            source,
            container(volumeMounts=(MOUNT,)),
            volumes=(token_volume(),),
            serviceAccountName="robot",
        )
        await start(world, made)
        await world.sleep(60.0)
        (message,) = {e.message for e in await world.events("web", "FailedMount")}
        assert message == (
            'MountVolume.SetUp failed for volume "v" : failed to fetch token:'
            ' serviceaccounts "robot" not found'
        )
        issuer.error = ""
        issuer.changed.put_nowait(("default", "robot"))
        assert await world.until(world.runs(UID)) < 5.0
        assert read(world, "token") == b"token 1"
