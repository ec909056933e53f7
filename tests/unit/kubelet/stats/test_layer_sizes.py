"""Disk usage of containers, and how often the engine is queried for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from virtual_time import EPOCH, VirtualClock

from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.stats.layer_sizes import EVERY, LayerSize, LayerSizes
from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import ContainerState, Runtime

pytestmark = pytest.mark.virtual_time


class Engine:
    """An engine whose measurement takes ``seconds``."""

    def __init__(self, clock: VirtualClock, sizes: Mapping[str, int]) -> None:
        self.clock = clock
        self.sizes = sizes
        self.seconds = 0.1
        self.queries = 0

    async def layer_sizes(self) -> Mapping[str, int]:
        self.queries += 1
        await self.clock.sleep(self.seconds)
        return self.sizes


def one(name: str, log: Path | None = None) -> ObservedContainer:
    return ObservedContainer(
        id=name, name=name, restart_count=0, sandbox_id="s", state=ContainerState.RUNNING,
        created_at=EPOCH, log_path="" if log is None else str(log),
    )  # fmt: skip


class Disk:
    def __init__(self, *containers: ObservedContainer, **sizes: int) -> None:
        self.clock = VirtualClock()
        self.engine = Engine(self.clock, sizes)
        cache = PodCache()
        pod = ObservedPod(uid="u", name="u", namespace="default", containers=containers)
        cache.set("u", pod, cache.begin())
        runtime: Runtime = self.engine  # type: ignore[assignment]
        self.sizes = LayerSizes(runtime, cache, self.clock)

    async def measure(self, *running: str, local: bool = True) -> int:
        """Return how often the engine was queried so far."""
        await self.sizes.measure(running, local=local)
        return self.engine.queries


async def test_disk_usage_is_the_layer_and_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "c-json.log"
    log.write_bytes(b"x" * 10)
    (tmp_path / "c-json.log.1").write_bytes(b"y" * 5)
    ended = replace(one("ended", log), state=ContainerState.EXITED)
    disk = Disk(one("c", log), one("bare"), one("gone", tmp_path / "no.log"), ended, c=100, bare=7)
    assert not disk.sizes.measured
    await disk.measure("c", "bare", "gone")
    assert disk.sizes.measured
    assert disk.sizes.of("c") == LayerSize(layer=100, logs=15)
    assert disk.sizes.of("c").total == 115
    assert disk.sizes.of("bare").total == 7
    assert disk.sizes.of("gone") == disk.sizes.of("ended") == LayerSize()
    assert LayerSize(logs=15).total is None, "unknown without the size of the layer"


async def test_logs_of_a_remote_engine_are_not_measured(tmp_path: Path) -> None:
    log = tmp_path / "c-json.log"
    log.write_bytes(b"x" * 10)
    disk = Disk(one("c", log), c=100)
    await disk.measure("c", local=False)
    assert disk.sizes.of("c") == LayerSize(layer=100)


async def test_layer_sizes_are_requested_once_per_minute() -> None:
    disk = Disk(c=1)
    assert await disk.measure("c") == 1
    await disk.clock.sleep(EVERY - 1)
    assert await disk.measure("c") == 1
    await disk.clock.sleep(1)
    assert await disk.measure("c") == 2


async def test_new_containers_are_measured_sooner() -> None:
    disk = Disk(c=1)
    assert await disk.measure("c") == 1
    await disk.clock.sleep(1)
    assert await disk.measure("c", "new") == 1, "at once would be too soon"
    await disk.clock.sleep(10)
    assert await disk.measure() == 1, "nothing is new in fewer"
    assert await disk.measure("c", "new") == 2


async def test_a_slow_engine_is_queried_less_often() -> None:
    disk = Disk(c=1)
    disk.engine.seconds = 10.0
    assert await disk.measure("c") == 1
    await disk.clock.sleep(EVERY * 2)
    assert await disk.measure("c") == 1
    await disk.clock.sleep(EVERY * 7)
    assert await disk.measure("c") == 2
