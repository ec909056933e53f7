"""The engine's images and their users."""

from __future__ import annotations

from datetime import UTC, datetime

from kubelet_world import PRESENT, World, pod
from virtual_time import virtual

from podtui.kubelet.base.types import ObservedContainer, ObservedPod
from podtui.kubelet.images.image_work import disk_images
from podtui.runtime.protocol import ContainerState, ImageRecord

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
