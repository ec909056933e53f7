"""Images of the simulated engine: every name can be pulled, except names of missing images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from podtui.errors import ImagePullError
from podtui.runtime.protocol import ImageRecord, PullProgress

# A name that contains one of these is in no simulated registry.
_ABSENT: Final = ("nosuch", "no-such", "notfound", "not-found", "does-not-exist", "doesnotexist")
_DEFAULT_REGISTRIES: Final = ("docker.io/library/", "docker.io/", "index.docker.io/")

IMAGE_FILES: Final[Mapping[str, bytes]] = {
    "bin/sh": b"#!simulated\n",
    "etc/group": b"root:x:0:\n",
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
}
"""The files of every simulated image, for image volumes."""


def normalise(image: str) -> str:
    """Return the name as the engine stores it: with a tag, without the default registry."""
    if image.startswith("sha256:"):
        return image
    for registry in _DEFAULT_REGISTRIES:
        if image.startswith(registry):
            image = image.removeprefix(registry)
            break
    if "@" in image or ":" in image.rsplit("/", 1)[-1]:
        return image
    return f"{image}:latest"


def simulated_image(image: str, user: str = "") -> ImageRecord:
    """Return the image that a pull of this name gets. The same name gets the same image."""
    name = normalise(image)
    digest = hashlib.sha256(name.encode()).hexdigest()
    manifest = hashlib.sha256(digest.encode()).hexdigest()
    size = 2_000_000 + int(digest[:6], 16) * 16
    return ImageRecord(
        id=f"sha256:{digest}",
        tags=() if "@" in name else (name,),
        digests=(name if "@" in name else f"{name.rsplit(':', 1)[0]}@sha256:{manifest}",),
        size=size,
        user=user,
    )


def refuse_absent(image: str) -> None:
    """Raises `ImagePullError` for names of missing images."""
    name = normalise(image)
    repository = name.rsplit("/", 1)[-1]
    if any(word in name for word in _ABSENT):
        raise ImagePullError(f"manifest for {name} not found: manifest unknown: {repository}")
    if ".invalid/" in name:
        host = name.split("/", 1)[0]
        raise ImagePullError(f'Get "https://{host}/v2/": dial tcp: lookup {host}: no such host')


def progress_of(record: ImageRecord) -> tuple[PullProgress, ...]:
    """Return the progress of a pull."""
    downloading = tuple(
        PullProgress(status="Downloading", current=record.size * part // 4, total=record.size)
        for part in range(1, 5)
    )
    return (
        PullProgress(status="Pulling fs layer"),
        *downloading,
        PullProgress(status="Extracting", current=record.size, total=record.size),
        PullProgress(status="Pull complete", current=record.size, total=record.size),
    )


class LocalImages:
    """The images on the simulated machine."""

    def __init__(self, images: Mapping[str, ImageRecord]) -> None:
        self._by_id: dict[str, ImageRecord] = {}
        self._names: dict[str, str] = {}
        for name, record in images.items():
            self.add(record, name)

    def add(self, record: ImageRecord, name: str) -> None:
        self._by_id[record.id] = record
        for reference in (*record.tags, *record.digests, name):
            self._names[normalise(reference)] = record.id

    def find(self, image: str) -> ImageRecord | None:
        """Find an image by name, id or id prefix."""
        key = normalise(image)
        record = self._by_id.get(self._names.get(key, key))
        if record is None and len(image) >= 12:
            bare = image.removeprefix("sha256:")
            ids = [i for i in self._by_id if i.removeprefix("sha256:").startswith(bare)]
            record = self._by_id[ids[0]] if len(ids) == 1 else None
        return record

    def remove(self, image_id: str) -> None:
        self._by_id.pop(image_id, None)
        self._names = {name: id_ for name, id_ in self._names.items() if id_ != image_id}

    def all(self) -> tuple[ImageRecord, ...]:
        return tuple(self._by_id.values())
