"""Manifests as text, and a watched folder of them, shared by the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from podtui.api.local import Diagnostic
from podtui.clock import SystemClock
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.folder_state import Folder
from podtui.manifest.result import ReadResult

NODE = "n1"


def pod_text(name: str = "web", image: str = "busybox:1", extra: str = "") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n"
        f"spec:\n  containers:\n  - name: c\n    image: {image}\n{extra}"
    )


def read(text: str | bytes, *, strict: bool = False) -> ReadResult:
    """Read a manifest like the file ``web.yaml``."""
    data = text.encode() if isinstance(text, str) else text
    return read_manifest("/m/web.yaml", data, node_name=NODE, strict=strict)


def diagnostics(text: str | bytes, *, strict: bool = False) -> tuple[Diagnostic, ...]:
    return read(text, strict=strict).diagnostics


def put(path: Path, text: str | bytes) -> None:
    """Write a file and rename it into place."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(text.encode() if isinstance(text, str) else text)
    temporary.rename(path)


def names(folder: Folder) -> list[str]:
    return sorted(pod.metadata.name for pod in folder.pods.values())


def images(folder: Folder) -> dict[str, str]:
    return {p.metadata.name: p.spec.containers[0].image for p in folder.pods.values()}


def states(folder: Folder) -> dict[str, str]:
    return {name: m.status.state.value for name, m in folder.manifests.items()}


class Watched:
    """A `ManifestFolder` that runs beside the test; ``history`` has every snapshot so far."""

    def __init__(self) -> None:
        self.history: list[Folder] = []
        self._changed = asyncio.Condition()

    async def run(self, folder: ManifestFolder) -> None:
        async with aclosing(folder.snapshots()) as snapshots:
            async for snapshot in snapshots:
                async with self._changed:
                    self.history.append(snapshot)
                    self._changed.notify_all()

    @property
    def last(self) -> Folder:
        return self.history[-1]

    async def until(self, wanted: Callable[[Folder], bool], seconds: float = 10) -> Folder:
        """Return the first snapshot, from the latest one on, that meets the condition."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: bool(self.history) and wanted(self.last))
        except TimeoutError:
            shown = (states(self.last), images(self.last), self.last.error) if self.history else ()
            raise AssertionError(f"never came: {shown}") from None
        return self.last


@asynccontextmanager
async def watch(path: Path, **settings: Any) -> AsyncIterator[Watched]:
    settings = {"node_name": NODE, "clock": SystemClock(), **settings}
    watched = Watched()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watched.run(ManifestFolder(path, **settings)))
        await watched.until(lambda _: True)
        yield watched
        task.cancel()
