"""Record which images podtui pulled: podtui may delete only these."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final, cast

from podtui.private_files import read_private, write_private
from podtui.runtime.protocol import ImageRecord

_LOG = logging.getLogger(__name__)
FILE: Final = "pulled-images.json"


class PulledImages:
    """The names of each image at the time when podtui pulled it, by id. Stored in a file of the
    root directory; with an empty ``root_dir`` only in memory."""

    def __init__(self, root_dir: str) -> None:
        self._path = Path(root_dir) / FILE if root_dir else None
        self._names: dict[str, frozenset[str]] = {}

    async def load(self) -> None:
        """Load the file of an earlier run. A damaged file counts as empty: its images then count as
        the user's."""
        if self._path is not None:
            self._names = await asyncio.to_thread(_read, self._path)

    def owns(self, image: ImageRecord) -> bool:
        """Return whether podtui pulled the image and it got no other name since."""
        names = self._names.get(image.id)
        return names is not None and names.issuperset(image.tags)

    async def add(self, image: ImageRecord) -> None:
        """Record an image that was absent before the pull, or was podtui's already."""
        names = self._names.get(image.id, frozenset()) | set(image.tags)
        if self._names.get(image.id) != names:
            self._names[image.id] = names
            await self._write()

    async def note(self, image: ImageRecord, before: Collection[str]) -> None:
        """Record a pull; ``before`` are the ids of the images that existed before it."""
        if image.id not in before or image.id in self._names:
            await self.add(image)

    async def keep(self, present: Iterable[str]) -> None:
        """Forget all other ids; their images are gone."""
        gone = self._names.keys() - set(present)
        if gone:
            self._names = {key: value for key, value in self._names.items() if key not in gone}
            await self._write()

    async def _write(self) -> None:
        if self._path is not None:
            document = {image: sorted(names) for image, names in sorted(self._names.items())}
            text = json.dumps(document, indent=1)
            try:
                await asyncio.to_thread(write_private, self._path, text.encode())
            except OSError as error:
                _LOG.warning("cannot write %s: %s", self._path, error)


def _read(path: Path) -> dict[str, frozenset[str]]:
    try:
        document: Any = json.loads(read_private(path) or b"{}")
    except (OSError, ValueError, RecursionError) as error:
        _LOG.warning("%s cannot be read; no image is collected that it named: %s", path, error)
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        str(key): frozenset(map(str, cast(list[object], names)))
        for key, names in cast(dict[object, object], document).items()
        if isinstance(names, list)
    }
