"""The engine's images and their users."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from kubelet_world import PRESENT, World, pod
from virtual_time import virtual

from podtui.errors import EngineConflict
from podtui.kubelet.images.image_work import disk_images, prunable
from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState, ImageRecord, OtherContainer

MADE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def observed(name: str, *images: str) -> ObservedPod:
    return ObservedPod(
        uid=name,
        name=name,
        namespace="default",
        containers=tuple(
            ObservedContainer(
                id=f"{name}{n}", name="c", restart_count=n, sandbox_id="s", created_at=MADE,
                state=ContainerState.EXITED, image_id=image,
            )
            for n, image in enumerate(images)
        ),
    )  # fmt: skip


def test_images_are_listed_by_size_with_their_users() -> None:
    images = (
        ImageRecord(id="sha256:a", tags=("small:1",), size=5, created_at=MADE),
        ImageRecord(id="sha256:b", digests=("large@sha256:1",), size=50),
    )
    pods = (observed("web", "sha256:a", "sha256:a"), observed("job", "sha256:a"))
    large, small = disk_images(images, pods, lambda image: image.size > 5).items
    assert (large.names, large.usedBy, large.created) == (("large@sha256:1",), (), None)
    assert (small.names, small.usedBy) == (("small:1",), ("default/job", "default/web"))
    assert small.created == "2026-01-02T03:04:05Z"
    assert (large.collectable, small.collectable) == (True, False)


def test_an_image_that_another_container_uses_is_not_unused() -> None:
    image = ImageRecord(id="sha256:a", tags=("a:1",), size=5)
    others = (OtherContainer(name="mine", image_id="sha256:a"),)
    (listed,) = disk_images([image], [], lambda _: True, others).items
    assert listed.otherContainers == ("mine",)
    assert listed.users == ("container mine",)
    assert not prunable([listed])


@virtual()
async def test_images_in_use_by_other_containers_are_neither_removed_nor_pruned() -> None:
    world = World()
    async with world.running():
        await world.kubelet.images.pull("extra:1", lambda _: None)
        (image,) = [i for i in (await world.kubelet.images.list()).items if "extra:1" in i.names]
        world.engine.other_containers = (OtherContainer(name="mine", image_id=image.id),)
        with pytest.raises(EngineConflict, match="used by container mine"):
            await world.kubelet.images.remove(image.id)
        assert (await world.kubelet.images.prune([image.id])).removed == ()
        world.engine.other_containers = ()
        # Only the images that were shown are removed.
        assert (await world.kubelet.images.prune([])).removed == ()
        assert (await world.kubelet.images.prune([image.id])).removed == ("extra:1",)


@virtual()
async def test_a_kubelet_lists_its_engines_images() -> None:
    world = World()
    world.add(pod("web-n1", "web"))
    async with world.running():
        await world.until(world.runs("web"))
        (image,) = (await world.kubelet.images.list()).items
    assert image.names[0].startswith(PRESENT)
    assert image.usedBy == ("default/web-n1",)
    assert not image.collectable
