"""How much containers keep on the node's disk: in their own layer, and in their logs.

The engine has to walk through all files of a layer, so it is asked seldom, and the more seldom the
longer it takes, as cAdvisor does.
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
        self._due = self._soonest = 0.0
        self._asked: frozenset[str] = frozenset()
        """Those that ran at the last look, measured or not."""
        self.looked = False
        """Whether there was a look at all."""

    def of(self, container_id: str) -> Kept:
        return self._kept.get(container_id, Kept())

    async def look(self, running: Iterable[str], *, local: bool) -> None:
        """Measure all that run, where it is time to; what has started since the last look does not
        wait as long. ``local``: the engine's files are here. Raises `EngineError`."""
        began, ids = self._clock.monotonic(), frozenset(running)
        if began < (self._due if ids <= self._asked else self._soonest):
            return
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
        self.looked, self._asked = True, ids
        now = self._clock.monotonic()
        self._soonest = now + _SHARE * (now - began)
        self._due = max(now + EVERY, self._soonest)


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
