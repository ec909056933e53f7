"""The disk usage of containers: writable layers and logs.

The engine has to walk through all files of a layer. As in cAdvisor, scans are rare, and the longer
a scan takes, the rarer they are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import escape, glob
from typing import Final

from podtui.clock import Clock
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.runtime.protocol import ContainerState, Runtime

EVERY: Final = 60.0
"""Minimum seconds between two scans."""
_SHARE: Final = 50.0
"""Minimum pause after a scan, as a multiple of its duration."""


@dataclass(frozen=True, slots=True)
class LayerSize:
    """Sizes in bytes; None if unknown."""

    layer: int | None = None
    logs: int | None = None

    @property
    def total(self) -> int | None:
        """The amount that counts against ``ephemeral-storage``; None if the layer's size is
        unknown."""
        return None if self.layer is None else self.layer + (self.logs or 0)


class LayerSizes:
    def __init__(self, runtime: Runtime, cache: PodCache, clock: Clock) -> None:
        self._runtime = runtime
        self._cache = cache
        self._clock = clock
        self._sizes: Mapping[str, LayerSize] = {}
        self._due = self._earliest = 0.0
        self._scanned: frozenset[str] = frozenset()
        """The containers that ran at the last scan, measured or not."""
        self.measured = False
        """True after the first scan."""

    def of(self, container_id: str) -> LayerSize:
        return self._sizes.get(container_id, LayerSize())

    async def measure(self, running: Iterable[str], *, local: bool) -> None:
        """Measure all running containers if a scan is due; containers started since the last scan
        shorten the pause. ``local``: the engine's files are on this machine. Raises
        `EngineError`."""
        began, ids = self._clock.monotonic(), frozenset(running)
        if began < (self._due if ids <= self._scanned else self._earliest):
            return
        layers = await self._runtime.layer_sizes()
        paths = {
            container.id: container.log_path
            for observed in self._cache
            for container in observed.containers
            if local and container.log_path and container.state is ContainerState.RUNNING
        }
        logs = await asyncio.to_thread(_log_sizes, paths) if paths else {}
        self._sizes = {
            identity: LayerSize(layers.get(identity), logs.get(identity))
            for identity in layers.keys() | logs.keys()
        }
        self.measured, self._scanned = True, ids
        now = self._clock.monotonic()
        self._earliest = now + _SHARE * (now - began)
        self._due = max(now + EVERY, self._earliest)


def _log_sizes(paths: Mapping[str, str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for identity, path in paths.items():
        try:
            files = [path, *glob(f"{escape(path)}.*")]
            sizes[identity] = sum(os.stat(file).st_size for file in files)
        except OSError:
            # Not readable for this user, or just rotated away.
            continue
    return sizes
