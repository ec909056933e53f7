"""Manual image operations: list, remove, prune and pull on a user's request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final

from podtui.api.image_reference import with_default_tag
from podtui.api.local import NodeImage, NodeImageList, PrunedImages, PullStep
from podtui.api.times import optional_rfc3339
from podtui.clock import Clock
from podtui.errors import EngineConflict, EngineError, EngineUnavailable
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import ImageRecord, OtherContainer, PullProgress, Runtime

STEP_PERIOD: Final = 0.25
"""Minimum seconds between two progress reports of a pull."""


class ImageWork:
    """Implements `podtui.server.kubelet_api.images.ImageService`.

    ``pods`` are the observed pods, including stopped ones. ``on_change`` is called when the set of
    images changed. ``strict``: all images count as owned, as for a kubelet.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        pods: Iterable[ObservedPod],
        pulled: PulledImages,
        clock: Clock,
        strict: bool,
        on_change: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._pods = pods
        self._pulled = pulled
        self._clock = clock
        self._strict = strict
        self._on_change = on_change

    async def list(self) -> NodeImageList:
        """Return the engine's images. Raises `EngineError`."""
        images = await self._runtime.list_images()
        return self._listed(images, await self._runtime.list_other_containers())

    async def remove(self, image_id: str) -> None:
        """Remove an unused image with all its names, even if podtui did not pull it.

        Raises `LookupError` if there is no image with this id, `EngineConflict` if a container uses
        it, and `EngineError`.
        """
        images = (await self.list()).items
        image = next((record for record in images if record.id == image_id), None)
        if image is None:
            raise LookupError(f'image "{image_id}" not found')
        name = name_of(image)
        if image.users:
            raise EngineConflict(f"{name} is used by {', '.join(image.users)}")
        try:
            await self._runtime.remove_image(image.id)
        except EngineConflict as error:
            raise EngineConflict(f"{name} was not removed: {error}") from error
        await self._changed(record.id for record in images if record.id != image.id)

    async def prune(self, ids: Collection[str]) -> PrunedImages:
        """Remove the images with these ids that podtui pulled and nothing uses. Raises
        `EngineUnavailable`."""
        images = (await self.list()).items
        gone: list[NodeImage] = []
        kept: list[str] = []
        try:
            for image in prunable(images):
                if image.id not in ids:
                    continue
                try:
                    await self._runtime.remove_image(image.id)
                except EngineUnavailable:
                    raise
                except EngineError as error:
                    kept.append(f"{name_of(image)}: {error}")
                else:
                    gone.append(image)
        finally:
            ids = {record.id for record in gone}
            await self._changed(record.id for record in images if record.id not in ids)
        return PrunedImages(
            removed=tuple(map(name_of, gone)),
            sizeBytes=sum(record.sizeBytes for record in gone),
            kept=tuple(kept),
        )

    async def pull(self, image: str, on_step: Callable[[PullStep], None]) -> NodeImage:
        """Pull an image now, only with the user's own registry logins, without pull secrets. An
        image that was not present before counts as owned by podtui, as with a pod's pull.

        Raises `podtui.api.image_reference.InvalidImageName` and `EngineError`.
        """
        name = with_default_tag(image)
        before = {record.id for record in await self._runtime.list_images()}
        record = await self._runtime.pull_image(name, on_progress=_Steps(self._clock, on_step).take)
        if not self._strict:
            await self._pulled.note(record, before)
        self._on_change()
        return self._listed((record,)).items[0]

    def _listed(
        self, images: Iterable[ImageRecord], others: Iterable[OtherContainer] = ()
    ) -> NodeImageList:
        def collectable(image: ImageRecord) -> bool:
            return self._strict or self._pulled.owns(image)

        return disk_images(images, self._pods, collectable, others)

    async def _changed(self, present: Iterable[str]) -> None:
        await self._pulled.keep(present)
        self._on_change()


class _Steps:
    """Forwards pull progress from any thread to the event loop, at most once per `STEP_PERIOD`."""

    def __init__(self, clock: Clock, report: Callable[[PullStep], None]) -> None:
        self._clock = clock
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._next = 0.0

    def take(self, progress: PullProgress) -> None:
        self._loop.call_soon_threadsafe(self._take, progress)

    def _take(self, progress: PullProgress) -> None:
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + STEP_PERIOD
            self._report(
                PullStep(status=progress.status, current=progress.current, total=progress.total)
            )


def prunable(images: Iterable[NodeImage]) -> tuple[NodeImage, ...]:
    """Return the unused images that podtui may remove."""
    return tuple(image for image in images if image.collectable and not image.users)


def name_of(image: NodeImage) -> str:
    """Return the image's first name, or its id if it has no name."""
    return next(iter(image.names), image.id)


def disk_images(
    images: Iterable[ImageRecord],
    pods: Iterable[ObservedPod],
    collectable: Callable[[ImageRecord], bool],
    others: Iterable[OtherContainer] = (),
) -> NodeImageList:
    """Return the images with their users, largest first. ``others`` are the containers that are not
    podtui's."""
    outside: dict[str, list[str]] = {}
    for other in others:
        outside.setdefault(other.image_id, []).append(other.name)
    users: dict[str, set[str]] = {}
    for pod in pods:
        for container in pod.containers:
            users.setdefault(container.image_id, set()).add(f"{pod.namespace}/{pod.name}")
    listed = [
        NodeImage(
            id=image.id,
            names=image.tags or image.digests,
            sizeBytes=image.size,
            created=optional_rfc3339(image.created_at),
            usedBy=tuple(sorted(users.get(image.id, ()))),
            otherContainers=tuple(sorted(outside.get(image.id, ()))),
            collectable=collectable(image),
        )
        for image in images
    ]
    return NodeImageList(
        items=tuple(sorted(listed, key=lambda image: (-image.sizeBytes, image.names)))
    )
