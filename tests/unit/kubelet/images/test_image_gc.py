"""Garbage collection of images: which are removed on a full disk, and which are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_host import CAPACITY, GI, FakeHost
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World, container, pod

from podtui.errors import EngineConflict, EngineError
from podtui.kubelet.images.image_gc import KnownImage, outdated, removable, size_text, to_free
from podtui.kubelet.images.pulled_images import FILE, PulledImages
from podtui.kubelet.node.host import Disk
from podtui.runtime.protocol import ImageRecord

UID = "uid-web-n1"


def known(name: str, first: float = 0.0, last: float = float("-inf"), **more) -> KnownImage:
    return KnownImage(id=name, size=10, first_seen=first, last_used=last, **more)


# --- decisions


def test_removes_the_longest_unused_image_first():
    images = [known("late", 5, 90), known("new", 9), known("old", 1), known("early", 7, 50)]
    assert [one.id for one in removable(images, 1000, 120)] == ["old", "new", "early", "late"]


def test_recent_and_used_images_are_kept():
    images = [known("young", 881), known("old-enough", 880), known("used", 0, deletable=False)]
    assert [one.id for one in removable(images, 1000, 120)] == ["old-enough"]


def test_images_beyond_the_maximum_age():
    images = [known("never"), known("lately", 0, 950), known("long-ago", 0, 10)]
    assert outdated(images, 1000, 0, 0) == (), "switched off"
    assert outdated(images, 1000, 100, 900) == (), "earlier use is unknown"
    assert [one.id for one in outdated(images, 1000, 100, 800)] == ["never", "long-ago"]


@pytest.mark.parametrize(
    ("available", "wanted"), [(160, None), (159, 41), (150, 50), (100, 100), (0, 200)]
)
def test_bytes_to_free(available: int, wanted: int | None):
    assert to_free(1000, available, high=85, low=80) == wanted


@given(st.integers(1, 10**15), st.floats(0, 1), st.integers(1, 100), st.integers(0, 99))
def test_freeing_those_bytes_reaches_the_low_threshold(capacity, share, high, low):
    low = min(low, high - 1)
    available = int(capacity * share)
    wanted = to_free(capacity, available, high=high, low=low)
    if wanted is None:
        assert 100 - available * 100 // capacity < high
    else:
        assert available + wanted == capacity * (100 - low) // 100


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (10 * GI, "10.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes(size: int, text: str):
    assert size_text(size) == text


# --- ownership


def image(name: str, *tags: str) -> ImageRecord:
    return ImageRecord(id=f"sha256:{name}", tags=tags or (f"{name}:1",), size=7)


async def test_pulled_images_are_known_to_the_next_kubelet(tmp_path: Path):
    first = PulledImages(str(tmp_path))
    await first.load()
    await first.add(image("ours"))
    again = PulledImages(str(tmp_path))
    await again.load()
    assert again.owns(image("ours"))
    assert not again.owns(image("theirs"))
    assert not again.owns(image("ours", "ours:1", "mine:latest")), "it has a new name"
    await again.keep([])
    last = PulledImages(str(tmp_path))
    await last.load()
    assert not last.owns(image("ours"))


@pytest.mark.parametrize("text", ["{", "[]", '{"sha256:ours": "x"}', "\x00"])
async def test_a_damaged_file_owns_no_images(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)
    pulled = PulledImages(str(tmp_path))
    await pulled.load()
    assert not pulled.owns(image("ours"))
    await pulled.add(image("ours"))
    assert pulled.owns(image("ours"))


async def test_an_unwritable_root_directory_does_not_fail(tmp_path: Path):
    pulled = PulledImages(str(tmp_path / "nowhere"))
    await pulled.load()
    await pulled.add(image("ours"))
    assert pulled.owns(image("ours"))


# --- garbage collection


def full(host: FakeHost, percent: int) -> None:
    host.available = CAPACITY * (100 - percent) // 100


async def pull(world: World, *names: str) -> None:
    """Pull images by pods, one minute apart, and remove the pods."""
    for name in names:
        world.add(pod(name, "", container(image=f"{name}:1")))
        await world.until(world.runs(f"uid-{name}"))
        await world.sleep(60.0)
    for name in names:
        world.remove(f"uid-{name}")
    await world.until(lambda: not world.containers())


def there(world: World) -> set[str]:
    return {name for one in world.engine.images.all() for name in one.tags}


@pytest.mark.virtual_time
async def test_a_full_disk_removes_the_longest_unused_owned_images() -> None:
    host = FakeHost()
    world = World(host=host)
    async with world.running():
        await pull(world, "first", "second", "third")
        # A dead container keeps its image.
        world.add(pod("kept", "", container(image="third:1"), policy="Never"))
        await world.until(world.runs("uid-kept"))
        world.runtime.kill(world.containers("uid-kept")[0].id, 0)
        await world.until(lambda: world.phase("kept") == "Succeeded")
        await world.sleep(300.0)
        assert there(world) == {"busybox:1", "first:1", "second:1", "third:1"}
        # One image is enough to get from 85 down to 80 percent: the longest unused one.
        full(host, 85)
        sizes = {one.tags[0]: one.size for one in world.engine.images.all()}
        capacity = sizes["first:1"] * 20
        host.disks["/engine"] = Disk(capacity=capacity, available=capacity * 15 // 100)
        await world.sleep(300.0)
        assert there(world) == {"busybox:1", "second:1", "third:1"}
        await world.sleep(300.0)
        # busybox was present before, and third's container is dead but not removed.
        assert there(world) == {"busybox:1", "third:1"}


@pytest.mark.virtual_time
async def test_a_strict_kubelet_owns_every_image_of_its_machine() -> None:
    host = FakeHost()
    world = World(host=host, strict=True)
    async with world.running():
        full(host, 95)
        await world.sleep(301.0)
        assert there(world) == set()


@pytest.mark.virtual_time
async def test_insufficient_space_to_free_is_reported_with_a_count() -> None:
    host = FakeHost()
    full(host, 91)
    world = World(host=host)
    async with world.running():
        await world.sleep(1.0)
        events = await world.events("n1", "FreeDiskSpaceFailed", "ImageGCFailed")
        text = (
            "Insufficient free disk space on the node's image filesystem (91% of 100.0 GiB used). "
            "Failed to free sufficient space by deleting unused images (freed 0 bytes). "
            "Investigate disk usage, as it could be used by active images, logs, volumes, or other "
            "data."
        )
        assert [(e.type, e.reason, e.message) for e in events] == [
            ("Warning", "FreeDiskSpaceFailed", text)
        ]
        await world.sleep(300.0)
        events = await world.events("n1", "ImageGCFailed")
        assert [(e.type, e.message) for e in events] == [("Warning", text)]


@pytest.mark.virtual_time
async def test_a_disk_of_size_zero_is_ignored() -> None:
    host = FakeHost()
    host.disks["/engine"] = Disk()
    world = World(host=host)
    async with world.running():
        await world.sleep(1.0)
        events = await world.events("n1", "InvalidDiskCapacity")
        assert [(e.type, e.message) for e in events] == [
            ("Warning", "invalid capacity 0 on image filesystem")
        ]


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [EngineConflict("in use elsewhere"), EngineError("read-only")])
async def test_a_failed_image_removal_does_not_block_others(error) -> None:
    host = FakeHost()
    world = World(host=host)
    async with world.running():
        await pull(world, "first", "second")
        await world.sleep(300.0)
        full(host, 95)
        world.engine.faults.fail("remove_image", error)
        await world.sleep(300.0)
        assert there(world) == {"busybox:1", "first:1"}


@pytest.mark.virtual_time
async def test_old_images_are_removed_regardless_of_the_disk() -> None:
    world = World(host=FakeHost(), image_maximum_gc_age=1800.0)
    async with world.running():
        await pull(world, "first")
        await world.sleep(1500.0)
        assert "first:1" in there(world)
        await world.sleep(900.0)
        assert there(world) == {"busybox:1"}


@pytest.mark.virtual_time
async def test_collection_can_be_switched_off() -> None:
    host = FakeHost()
    full(host, 99)
    world = World(host=host, image_gc_high_threshold_percent=100)
    async with world.running():
        await world.sleep(700.0)
        assert not await world.events("n1", "FreeDiskSpaceFailed")
        assert "list_images" in world.calls, "for the node's record"


@pytest.mark.virtual_time
async def test_a_preexisting_image_is_not_owned_after_a_pull() -> None:
    host = FakeHost()
    world = World(host=host)
    async with world.running():
        world.add(pod("web-n1", "", container(imagePullPolicy="Always")))
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.until(world.gone(UID))
        await world.sleep(600.0)
        full(host, 95)
        await world.sleep(600.0)
        assert there(world) == {"busybox:1"}
