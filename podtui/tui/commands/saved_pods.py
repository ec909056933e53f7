"""Manifests of API pods that are deleted to be created again, kept in files until the new pods
exist: a screen that ends in between loses no pod.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from podtui.api.v1 import Pod
from podtui.errors import PodtuiError

MAX_BYTES = 4 * 1024 * 1024


class SaveError(PodtuiError):
    """Raised if a manifest cannot be saved; the text is shown to the user."""


class SavedPods:
    """The saved manifests for one server, in files that only their owner may read.

    With ``folder`` None, nothing is saved. All methods block.
    """

    def __init__(self, folder: Path | None, server: str = "") -> None:
        self._folder = None if folder is None else folder / quote(server, safe="")

    def save(self, pod: Pod, text: bytes) -> Path | None:
        """Save the manifest that replaces ``pod``, and return its path. Raises `SaveError`."""
        if self._folder is None:
            return None
        path = self._path(pod.metadata.uid)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".new")
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except OSError as error:
            raise SaveError(
                f"the pod was not deleted, because its new manifest cannot be saved:"
                f" {self._folder}: {error.strerror}"
            ) from error
        return path

    def discard(self, uid: str) -> None:
        """Remove the manifest that replaces a pod, if it is saved."""
        if self._folder is not None:
            self._path(uid).unlink(missing_ok=True)

    def saved(self) -> list[tuple[str, bytes]]:
        """Return each manifest with the UID of the pod that it replaces. Raises `SaveError`."""
        if self._folder is None or not self._folder.is_dir():
            return []
        manifests: list[tuple[str, bytes]] = []
        for path in sorted(self._folder.glob("*.yaml")):
            try:
                with path.open("rb") as file:
                    manifests.append((path.stem, file.read(MAX_BYTES)))
            except OSError as error:
                raise SaveError(f"{path}: {error.strerror}") from error
        return manifests

    def _path(self, uid: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(uid, safe='')}.yaml"
