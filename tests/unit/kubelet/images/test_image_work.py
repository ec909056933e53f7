"""Manual pulls and removals of images, and the record of the images that podtui owns."""

from __future__ import annotations

import pytest
from kubelet_world import PRESENT, World, container, pod
from virtual_time import virtual

from podtui.api.image_reference import InvalidImageName
from podtui.api.local import PullStep
from podtui.errors import EngineConflict, ImagePullError

MORE = "more:1"


def names(world: World) -> set[str]:
    return {name for image in world.engine.images.all() for name in image.tags}


def unheard(step: PullStep) -> None:
    """Ignore the progress."""


@virtual()
async def test_an_image_in_use_is_kept_and_its_users_named() -> None:
    world = World()
    world.add(pod("web-n1", "web"))
    async with world.running():
        await world.until(world.runs("web"))
        (image,) = (await world.kubelet.images.list()).items
        with pytest.raises(EngineConflict, match=r"is used by default/web-n1"):
            await world.kubelet.images.remove(image.id)
    assert names(world) == {PRESENT}


@virtual()
async def test_any_unused_image_can_be_removed() -> None:
    world = World()
    async with world.running():
        (image,) = (await world.kubelet.images.list()).items
        assert not image.collectable
        await world.kubelet.images.remove(image.id)
        assert names(world) == set()
        with pytest.raises(LookupError, match="not found"):
            await world.kubelet.images.remove(image.id)


@virtual()
async def test_prune_removes_only_images_pulled_by_podtui() -> None:
    world = World()
    async with world.running():
        images = world.kubelet.images
        pulled = await images.pull(MORE, unheard)
        assert (pulled.names, pulled.collectable) == ((MORE,), True)
        pruned = await images.prune([pulled.id])
        assert (pruned.removed, pruned.sizeBytes, pruned.kept) == (
            (MORE,), pulled.sizeBytes, (),
        )  # fmt: skip
        assert names(world) == {PRESENT}
        # After another pull outside podtui, podtui does not own it.
        await world.runtime.pull_image(MORE)
        assert not [one for one in (await images.list()).items if one.collectable]


@virtual()
async def test_a_pull_does_not_own_a_preexisting_image() -> None:
    world = World()
    async with world.running():
        again = await world.kubelet.images.pull(PRESENT, unheard)
        assert not again.collectable
        ids = [image.id for image in (await world.kubelet.images.list()).items]
        assert (await world.kubelet.images.prune(ids)).removed == ()
    assert names(world) == {PRESENT}


@virtual()
async def test_prune_keeps_images_of_pods() -> None:
    world = World()
    world.add(pod("web-n1", "web", container(image=MORE)))
    async with world.running():
        await world.until(world.runs("web"))
        ids = [image.id for image in (await world.kubelet.images.list()).items]
        assert (await world.kubelet.images.prune(ids)).removed == ()
    assert names(world) == {PRESENT, MORE}


@virtual()
async def test_a_pull_reports_progress() -> None:
    world = World(pull_delay=8.0)
    steps: list[PullStep] = []
    async with world.running():
        image = await world.kubelet.images.pull("more", steps.append)
    assert image.names == ("more:latest",)
    far = [step.current for step in steps if step.total]
    assert far == sorted(far)
    assert {step.total for step in steps if step.total} == {image.sizeBytes}
    assert far[-1] == image.sizeBytes


@virtual()
async def test_a_quick_pull_does_not_report_every_step() -> None:
    world = World(pull_delay=0.2)
    steps: list[PullStep] = []
    async with world.running():
        await world.kubelet.images.pull("more", steps.append)
    assert len(steps) == 1


@virtual()
async def test_a_pull_of_a_missing_or_invalid_image_fails() -> None:
    world = World()
    async with world.running():
        with pytest.raises(ImagePullError, match="manifest unknown"):
            await world.kubelet.images.pull("nosuch:1", unheard)
        with pytest.raises(InvalidImageName):
            await world.kubelet.images.pull("No Image", unheard)
    assert names(world) == {PRESENT}
