"""How much containers keep on the node's disk: in their own layer, and in their logs.

The engine has to walk through all files of a layer, so it is asked seldom, and the more seldom the
longer it takes, as cAdvisor does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape, glob
from typing import Final

from podtui.clock import Clock
from podtui.kubelet.pod_cache import PodCache
from podtui.runtime.protocol import ContainerState, Runtime

EVERY: Final = 60.0
"""Seconds between two looks, at least."""
_SHARE: Final = 50.0
"""So many times as long as it took there is none."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes; None where it cannot be told."""

    layer: int | None = None
    logs: int | None = None

    @property
    def total(self) -> int | None:
        """What counts against ``ephemeral-storage``: without a layer nobody knows."""
        return None if self.layer is None else self.layer + (self.logs or 0)


class LayerSizes:
    def __init__(self, runtime: Runtime, cache: PodCache, clock: Clock) -> None:
        self._runtime = runtime
        self._cache = cache
        self._clock = clock
        self._kept: Mapping[str, Kept] = {}
        self.looked = False
        """Whether there was a look at all."""

    def of(self, container_id: str) -> Kept:
        return self._kept.get(container_id, Kept())

    async def look(self, *, local: bool) -> float:
        """Measure all that run. ``local``: the engine's files are here. Returns for how many
        seconds to let it be; raises `EngineError`."""
        began = self._clock.monotonic()
        layers = await self._runtime.layer_sizes()
        paths = {
            container.id: container.log_path
            for observed in self._cache
            for container in observed.containers
            if local and container.log_path and container.state is ContainerState.RUNNING
        }
        logs = await asyncio.to_thread(_log_sizes, paths) if paths else {}
        self._kept = {
            identity: Kept(layers.get(identity), logs.get(identity))
            for identity in layers.keys() | logs.keys()
        }
        self.looked = True
        return max(EVERY, _SHARE * (self._clock.monotonic() - began))


def _log_sizes(paths: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for identity, path in paths.items():
        try:
            files = [path, *glob(f"{escape(path)}.*")]
            found[identity] = sum(os.stat(file).st_size for file in files)
        except OSError:
            # Not ours to look into, or rotated away just now.
            continue
    return found
