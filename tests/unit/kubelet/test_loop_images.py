"""Image pulls: normal, slow, with credentials, and failing."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator

import pytest
from kubelet_world import World, container, pod

from podtui.api.v1 import LocalObjectReference, ObjectMeta, Pod, Secret
from podtui.errors import EngineError, ImagePullError
from podtui.manifest.folder_state import Folder
from podtui.runtime.protocol import RegistryAuth

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
ABSENT = "manifest for nosuch:1 not found: manifest unknown: nosuch:1"


async def waitings(world: World, seconds: float) -> list[tuple[str, str]]:
    """Return the waiting reasons and messages of the only container, in order of appearance."""
    found: list[tuple[str, str]] = []

    async def follow() -> None:
        async for change in world.store.watch("pods"):
            assert isinstance(change.object, Pod)
            for one in change.object.status.containerStatuses:
                waiting = one.state.waiting
                if waiting is not None and (waiting.reason, waiting.message) not in found:
                    found.append((waiting.reason, waiting.message))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await world.sleep(seconds)
        task.cancel()
    return found


async def container_events(world: World) -> list[tuple[str, str, str]]:
    """Return the events of the container, in the order of their first occurrence."""
    return [
        (event.type, event.reason, event.message)
        for event in await world.events()
        if event.involvedObject.fieldPath == "spec.containers{c}"
    ]


@pytest.mark.parametrize("strict", [False, True])
async def test_an_image_that_cannot_be_pulled(strict: bool) -> None:
    world = World(strict=strict)
    async with world.running():
        world.add(pod("web-n1", "", container(image="nosuch:1")))
        seen = await waitings(world, 20.0)
        back_off = 'Back-off pulling image "nosuch:1"'
        expected = [
            ("ContainerCreating", ""),
            ("ErrImagePull", ABSENT),
            ("ImagePullBackOff", f"{back_off}: ErrImagePull: {ABSENT}"),
        ]
        assert seen == expected
        assert (await world.status()).phase == "Pending"
        first = (await world.events())[:5]
        assert [(e.type, e.reason, e.message) for e in first] == [
            ("Normal", "Pulling", 'Pulling image "nosuch:1"'),
            ("Warning", "Failed", f'Failed to pull image "nosuch:1": {ABSENT}'),
            ("Warning", "Failed", "Error: ErrImagePull"),
            ("Normal", "BackOff", back_off),
            ("Warning", "Failed", "Error: ImagePullBackOff"),
        ]
        assert {e.involvedObject.fieldPath for e in first} == {"spec.containers{c}"}


async def test_pulls_back_off_up_to_five_minutes() -> None:
    world = World()
    pulls: list[float] = []
    begun = world.runtime.pull_image

    async def noted(image: str, **how: object):
        pulls.append(world.clock.monotonic())
        return await begun(image, **how)  # type: ignore[arg-type]

    world.runtime.pull_image = noted  # type: ignore[method-assign]
    async with world.running():
        world.add(pod("web-n1", "", container(image="nosuch:1")))
        await world.sleep(1500.0)
    waits = [later - earlier for earlier, later in itertools.pairwise(pulls)]
    # The worker retries every ten seconds: a wait is the back-off, rounded up to the next retry.
    for wait, back_off in zip(waits, [10, 20, 40, 80, 160, 300, 300], strict=False):
        assert back_off <= wait <= back_off + 10.5


async def test_policy_never_does_not_pull() -> None:
    world = World()
    text = 'Container image "nosuch:1" is not present with pull policy of Never'
    async with world.running():
        world.add(pod("web-n1", "", container(image="nosuch:1", imagePullPolicy="Never")))
        assert await waitings(world, 25.0) == [
            ("ContainerCreating", ""),
            ("ErrImageNeverPull", text),
        ]
        assert "pull_image" not in world.calls
        assert await container_events(world) == [
            ("Warning", "ErrImageNeverPull", text),
            ("Warning", "Failed", "Error: ErrImageNeverPull"),
        ]
        (again,) = await world.events("web-n1", "ErrImageNeverPull")
        assert (again.count or 0) >= 3, "it is checked every ten seconds"


async def test_an_invalid_image_name_and_one_without_a_tag() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container(image="UPPER CASE")))
        text = (
            'Failed to apply default image tag "UPPER CASE": couldn\'t parse image name '
            '"UPPER CASE": invalid reference format: repository name (library/UPPER CASE) '
            "must be lowercase"
        )
        assert await waitings(world, 5.0) == [
            ("ContainerCreating", ""),
            ("InvalidImageName", text),
        ]
        assert await container_events(world) == [
            ("Warning", "InspectFailed", text),
            ("Warning", "Failed", "Error: InvalidImageName"),
        ]
        world.add(pod("plain", "", container(image="elsewhere", imagePullPolicy="Always")))
        await world.until(world.runs("uid-plain"))
        assert world.engine.images.find("elsewhere:latest") is not None
        assert world.calls["pull_image"] == 1


async def test_an_image_that_cannot_be_inspected() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("image_status", EngineError("disk on fire"), times=None)
        world.add(pod())
        text = 'Failed to inspect image "busybox:1": disk on fire'
        assert await waitings(world, 5.0) == [
            ("ContainerCreating", ""),
            ("ImageInspectError", text),
        ]
        assert await container_events(world) == [
            ("Warning", "InspectFailed", text),
            ("Warning", "Failed", "Error: ImageInspectError"),
        ]
        world.engine.faults.clear()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ],
)
async def test_some_pull_failures_have_their_own_reasons(reason: str, words: str) -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("pull_image", ImagePullError(f"{reason}: try later"), times=None)
        world.add(pod("web-n1", "", container(image="elsewhere:1")))
        text = f"image pull failed for elsewhere:1 because {words}: try later"
        assert await waitings(world, 5.0) == [
            ("ContainerCreating", ""),
            (reason, text),
            (
                "ImagePullBackOff",
                f'Back-off pulling image "elsewhere:1": {reason}: {text}',
            ),
        ]
        events = await container_events(world)
        assert events[1:3] == [
            ("Warning", "Failed", f'Failed to pull image "elsewhere:1": {reason}: try later'),
            ("Warning", "Failed", f"Error: {reason}"),
        ]
        world.engine.faults.clear()


async def test_pulls_over_the_rate_limit_fail_and_are_retried() -> None:
    world = World(registry_pull_qps=5, registry_burst=3, serialize_image_pulls=False)
    async with world.running():
        world.add(*[pod(f"p{i}", "", container(image=f"i{i}:1")) for i in range(5)])
        await world.sleep(1.0)
        assert len(world.running_containers()) == 3
        failed = [e for i in range(5) for e in await world.events(f"p{i}", "Failed")]
        pulls = [e.message for e in failed if e.message.startswith("Failed to pull")]
        assert len(pulls) == 2
        assert all(text.endswith(": pull QPS exceeded") for text in pulls)
        await world.until(lambda: len(world.running_containers()) == 5, 30.0)


# --- pull secrets


def login_secret(name: str, user: str) -> Secret:
    auth = base64.b64encode(f"{user}:hunter2".encode()).decode()
    document = {"auths": {"registry.example": {"auth": auth}}}
    return Secret(
        metadata=ObjectMeta(name=name, namespace="default"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": base64.b64encode(json.dumps(document).encode()).decode()},
    )


class SecretWorld(World):
    """A world with Secrets in the folder, and a registry with one user."""

    def __init__(self, *names: str, username: str = "") -> None:
        self.held = {("default", name): login_secret(name, name) for name in names}
        super().__init__()
        self.tried: list[RegistryAuth | None] = []
        pull = self.runtime.pull_image

        async def guarded(image: str, *, auth: RegistryAuth | None = None, **how: object):
            self.tried.append(auth)
            if username and (auth is None or auth.username != username):
                raise ImagePullError("no basic auth credentials")
            return await pull(image, auth=auth, **how)  # type: ignore[arg-type]

        self.runtime.pull_image = guarded  # type: ignore[method-assign]

    async def _folders(self) -> AsyncIterator[Folder]:
        async for folder in super()._folders():
            yield Folder(pods=folder.pods, secrets=self.held)


def with_secrets(*names: str):
    references = tuple(LocalObjectReference(name=name) for name in names)
    image = container(image="registry.example/team/web:1")
    return pod("web-n1", "", image, imagePullSecrets=references)


async def test_every_secret_is_tried_until_one_authenticates(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    world = SecretWorld("ann", "bob", username="bob")
    async with world.running():
        world.add(with_secrets("ann", "bob"))
        await world.until(world.runs(UID), 5.0)
        assert [one and one.username for one in world.tried] == ["ann", "bob"]
        assert not await world.events("web-n1", "FailedToRetrieveImagePullSecret", "Failed")
        messages = [event.message for event in await world.events()]
    assert "hunter2" not in caplog.text + "".join(messages)


async def test_all_refusals_are_reported() -> None:
    world = SecretWorld("ann", "bob", username="eve")
    async with world.running():
        world.add(with_secrets("ann", "bob"))
        await world.sleep(1.0)
        failed = (await world.events("web-n1", "Failed"))[0]
        assert failed.message == (
            'Failed to pull image "registry.example/team/web:1": no basic auth credentials'
        )


async def test_a_missing_secret_is_reported_and_the_pull_attempted() -> None:
    world = SecretWorld("ann")
    async with world.running():
        world.add(with_secrets("gone", "ann", "lost"))
        await world.until(world.runs(UID), 5.0)
        events = await world.events()
        assert (events[0].type, events[0].reason) == ("Warning", "FailedToRetrieveImagePullSecret")
        assert events[0].message == (
            "Unable to retrieve some image pull secrets (gone, lost); "
            "attempting to pull the image may not succeed."
        )
        assert events[0].involvedObject.fieldPath == ""
        assert events[1].reason == "Pulling"


async def test_an_invalid_secret_fails_the_pull_without_quoting_it() -> None:
    world = SecretWorld()
    broken = Secret(
        metadata=ObjectMeta(name="ann", namespace="default"),
        type="kubernetes.io/dockerconfigjson",
        stringData={".dockerconfigjson": "hunter2"},
    )
    world.held = {("default", "ann"): broken}
    async with world.running():
        world.add(with_secrets("ann"))
        await world.sleep(1.0)
        failed = (await world.events("web-n1", "Failed"))[0]
        assert failed.message == (
            'Failed to pull image "registry.example/team/web:1": '
            'secret "ann": .dockerconfigjson is not a registry configuration'
        )


# --- images in the status


async def test_an_image_id_has_the_registry_digest() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container(image="elsewhere:1")))
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        image = world.engine.images.find("elsewhere:1")
        assert image is not None
        (status,) = (await world.status()).containerStatuses
        assert status.imageID == image.digests[0]
        assert status.imageID.startswith("elsewhere@sha256:")
