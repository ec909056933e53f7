"""Images, on every runtime."""

from __future__ import annotations

from datetime import datetime

import pytest
from runtime_bench import IMAGE, Bench

from podtui.errors import EngineConflict, ImagePullError
from podtui.runtime.protocol import ImageRecord, PullProgress


def _second(image: ImageRecord) -> datetime | None:
    """Return the creation time, as precise as in an image list."""
    return image.created_at and image.created_at.replace(microsecond=0)


async def test_an_image_is_found_by_names_and_id(bench: Bench) -> None:
    image = await bench.runtime.image_status(IMAGE)
    assert image is not None
    assert image.id.startswith("sha256:")
    # Podman stores it under its complete name.
    assert {IMAGE, f"docker.io/library/{IMAGE}"} & set(image.tags)
    assert image.size > 0
    by_id = await bench.runtime.image_status(image.id)
    by_long_name = await bench.runtime.image_status(f"docker.io/library/{IMAGE}")
    assert by_id is not None
    assert by_long_name is not None
    assert by_id.id == by_long_name.id == image.id
    (listed,) = [one for one in await bench.runtime.list_images() if one.id == image.id]
    assert _second(listed) == _second(image)


async def test_a_missing_image(bench: Bench) -> None:
    assert await bench.runtime.image_status("localhost:1/podtui/nosuch:1") is None
    assert await bench.runtime.image_status("sha256:" + "0" * 64) is None


async def test_a_failed_pull(bench: Bench) -> None:
    progress: list[PullProgress] = []
    with pytest.raises(ImagePullError, match=r"\w"):
        await bench.runtime.pull_image("localhost:1/podtui/nosuch:1", on_progress=progress.append)
    assert await bench.runtime.image_status("localhost:1/podtui/nosuch:1") is None


async def test_an_image_in_use_is_not_removed(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.start(sandbox)
    with pytest.raises(EngineConflict):
        await bench.runtime.remove_image(bench.image.id)
    assert await bench.runtime.image_status(IMAGE) is not None


async def test_removal_of_an_unused_image_is_idempotent(
    bench: Bench,
) -> None:
    missing = "sha256:" + "0" * 64
    await bench.runtime.remove_image(missing)
    await bench.runtime.remove_image(missing)
    assert await bench.runtime.image_status(missing) is None
