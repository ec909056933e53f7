"""Image garbage collection (kubelet.md §14.4): remove unused images, the least recently used
first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from podtui.clock import Clock
from podtui.errors import EngineConflict, EngineError, EngineUnavailable, PodtuiError
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.kubelet_metrics import IMAGES_COLLECTED
from podtui.kubelet.node.host import Host
from podtui.kubelet.node.link import EngineLink
from podtui.runtime.protocol import ImageRecord, Runtime

_LOG = logging.getLogger(__name__)
_LONG_AGO: Final = float("-inf")


class ImageGcError(PodtuiError):
    """Raised when garbage collection could not free enough space; the text is that of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """An image with its usage times: monotonic seconds; ``-inf`` means before the kubelet started,
    or never."""

    id: str
    size: int
    first_seen: float
    last_used: float = _LONG_AGO
    deletable: bool = True
    """False for an image that is in use or not owned by podtui."""


def removable(images: Iterable[KnownImage], now: float, min_age: float) -> tuple[KnownImage, ...]:
    """Return the images that may be removed, in removal order."""
    deletable = [image for image in images if image.deletable and now - image.first_seen >= min_age]
    return tuple(sorted(deletable, key=lambda image: (image.last_used, image.first_seen)))


def outdated(
    images: Iterable[KnownImage], now: float, max_age: float, began: float
) -> tuple[KnownImage, ...]:
    """Return the ``images`` that were unused for longer than ``max_age`` (0 disables this). Use
    before the kubelet ``began`` is unknown, so nothing is outdated until the kubelet has run that
    long."""
    if max_age == 0 or now - began <= max_age:
        return ()
    return tuple(image for image in images if now - image.last_used > max_age)


def to_free(capacity: int, available: int, *, high: int, low: int) -> int | None:
    """Return the bytes to free; None if less than ``high`` percent are used."""
    if 100 - available * 100 // capacity < high:
        return None
    return capacity * (100 - low) // 100 - available


def size_text(size: int) -> str:
    """Format a size in bytes, such as ``10.0 GiB``."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.1f} {unit}" if unit != "B" else f"{size} B"
        amount /= 1024
    raise AssertionError("unreachable")


class ImageCollector:
    """Removes unused images when the disk is full or they get too old.

    ``used`` returns the ids of the images of all containers, including dead ones.
    """

    def __init__(
        self,
        *,
        host: Host,
        runtime: Runtime,
        link: EngineLink,
        events: EventRecorder,
        clock: Clock,
        config: KubeletConfig,
        pulled: PulledImages,
        used: Callable[[], Collection[str]],
        on_change: Callable[[], None],
    ) -> None:
        self._host = host
        self._runtime = runtime
        self._link = link
        self._events = events
        self._clock = clock
        self._config = config
        self._pulled = pulled
        self._used = used
        self._on_change = on_change
        self._known: dict[str, KnownImage] = {}
        self._scanned = False
        self._began = 0.0
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Run forever: check periodically (five minutes by default), and collect images if the disk
        requires it."""
        self._began = self._clock.monotonic()
        config = self._config
        off = config.image_gc_high_threshold_percent == 100 and config.image_maximum_gc_age == 0
        failed = False
        if off:
            await asyncio.Event().wait()
        while True:
            await self._link.wait_ready()
            info = self._link.info
            if info is not None and info.local:
                try:
                    await self._collect(info.root_dir)
                    failed = False
                except EngineUnavailable as error:
                    self._link.suspect(error)
                except PodtuiError as error:
                    _LOG.warning("images are not collected: %s", error)
                    if failed:
                        self._events.node(WARNING, "ImageGCFailed", str(error))
                    failed = True
            await self._clock.sleep(config.image_gc_period)

    async def _collect(self, engine_root: str) -> None:
        async with self._lock:
            now = await self._scan()
            config = self._config
            free = removable(self._known.values(), now, config.image_minimum_gc_age)
            old = outdated(free, now, config.image_maximum_gc_age, self._began)
            await self._remove(old, None, "age")
            disk = await asyncio.to_thread(self._host.disk, engine_root)
            if disk is None or disk.capacity == 0:
                text = "invalid capacity 0 on image filesystem"
                self._events.node(WARNING, "InvalidDiskCapacity", text)
                raise ImageGcError(text)
            wanted = to_free(
                disk.capacity,
                disk.available,
                high=config.image_gc_high_threshold_percent,
                low=config.image_gc_low_threshold_percent,
            )
            if wanted is None:
                return
            freed = await self._remove(
                [image for image in free if image not in old], wanted, "space"
            )
            if freed < wanted:
                percent = 100 - disk.available * 100 // disk.capacity
                text = (
                    "Insufficient free disk space on the node's image filesystem "
                    f"({percent}% of {size_text(disk.capacity)} used). Failed to free sufficient "
                    f"space by deleting unused images (freed {freed} bytes). Investigate disk "
                    "usage, as it could be used by active images, logs, volumes, or other data."
                )
                self._events.node(WARNING, "FreeDiskSpaceFailed", text)
                raise ImageGcError(text)

    async def delete_unused(self) -> int:
        """Delete every removable image and return the bytes freed. Raises `EngineError`."""
        async with self._lock:
            now = await self._scan()
            free = removable(self._known.values(), now, self._config.image_minimum_gc_age)
            return await self._remove(free, None, "space")

    async def _scan(self) -> float:
        """List the images and update which of them are in use. Return the time of the scan."""
        images = await self._runtime.list_images()
        now = self._clock.monotonic()
        used = self._used()
        seen: dict[str, KnownImage] = {}
        for image in images:
            before = self._known.get(image.id) or KnownImage(
                id=image.id, size=image.size, first_seen=now if self._scanned else _LONG_AGO
            )
            in_use = image.id in used
            seen[image.id] = replace(
                before,
                size=image.size,
                last_used=now if in_use else before.last_used,
                deletable=not in_use and self._may_delete(image),
            )
        self._known = seen
        self._scanned = True
        await self._pulled.keep(seen)
        return now

    def _may_delete(self, image: ImageRecord) -> bool:
        return self._config.strict or self._pulled.owns(image)

    async def _remove(self, images: Iterable[KnownImage], wanted: int | None, reason: str) -> int:
        """Delete images in order until ``wanted`` bytes are freed; None deletes all. Raises the
        last failure after all images were tried."""
        freed = 0
        failure: EngineError | None = None
        for image in images:
            if wanted is not None and freed >= wanted:
                break
            try:
                await self._runtime.remove_image(image.id)
            except EngineUnavailable:
                raise
            except EngineConflict as error:
                # A container outside podtui uses the image; it is not in our container list.
                _LOG.info("image %s is not removed: %s", image.id, error)
                continue
            except EngineError as error:
                failure = error
                continue
            _LOG.info("image %s is removed to free %d bytes", image.id, image.size)
            IMAGES_COLLECTED.labels(reason).inc()
            self._known.pop(image.id, None)
            freed += image.size
        if freed:
            self._on_change()
        if failure is not None:
            raise failure
        return freed
