"""A kubelet as in `kubelet_world` whose pods come from manifests: their texts, by file name."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

from kubelet_world import World

from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder_state import Folder, FolderState
from podtui.manifest.identity import seen_text
from podtui.manifest.listing import Stamp

PATH = "/m"


class FolderWorld(World):
    """The folder is ``/m``. Only the file system is left out: files change at once."""

    def __init__(self, *, strict: bool = False, **settings: object) -> None:
        self.strict = strict
        self.folder_state = FolderState(strict=strict, previous={})
        self.folder = Folder()
        self._writes = itertools.count(1)
        super().__init__(strict=strict, **settings)  # type: ignore[arg-type]

    async def _folders(self) -> AsyncIterator[Folder]:
        while True:
            self._changed.clear()
            self.folder = self.folder_state.folder(seen_text(self.clock.now()))
            yield self.folder
            await self._changed.wait()

    def put(self, name: str, text: str) -> None:
        path, write = f"{PATH}/{name}", next(self._writes)
        result = read_manifest(path, text.encode(), node_name="n1", strict=self.strict)
        self.folder_state.read(name, path, write, Stamp(write, write, 1, 1), b"", result)
        self._changed.set()

    def delete(self, name: str) -> None:
        self.folder_state.forget(name)
        self._changed.set()

    def full_list(self) -> None:
        """List the folder, as it happens every twenty seconds."""
        if self.strict:
            self.folder_state.drop_invalid()
        self._changed.set()

    def uid(self, name: str = "web-n1") -> str:
        """Return the current UID of the folder's pod with this name."""
        (found,) = (
            pod.metadata.uid for pod in self.folder.pods.values() if pod.metadata.name == name
        )
        return found
