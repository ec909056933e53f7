"""Measuring a thousand pods does not block the event loop."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from podtui.clock import SystemClock
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.stats.metrics import SLICE, Metrics
from podtui.kubelet.types import ObservedContainer, ObservedPod, ObservedSandbox
from podtui.runtime.memory import MemoryRuntime
from podtui.runtime.protocol import (
    ContainerState,
    ContainerStats,
    NetworkInterfaceUsage,
    SandboxState,
    SandboxStats,
)

PODS = 1000


class Busy(MemoryRuntime):
    """Returns counters of a thousand pods, prepared beforehand."""

    def prepare(self) -> None:
        now = datetime.now(UTC)
        card = (NetworkInterfaceUsage(name="eth0", received=5, sent=6),)
        uids = [f"uid-{number}" for number in range(PODS)]
        counters = ContainerStats(timestamp=now, cpu=5, memory=6, read=7, written=8)
        self.containers = {f"c-{uid}": counters for uid in uids}
        self.sandboxes = {f"s-{uid}": SandboxStats(timestamp=now, interfaces=card) for uid in uids}

    async def stats(self, containers: Collection[str]) -> Mapping[str, ContainerStats]:
        assert self.containers.keys() == {*containers}
        return self.containers

    async def sandbox_stats(self, sandboxes: Collection[str]) -> Mapping[str, SandboxStats]:
        assert self.sandboxes.keys() == {*sandboxes}
        return self.sandboxes


class Steps(SystemClock):
    """A clock that advances by a minute on request."""

    def __init__(self) -> None:
        self.minutes = 0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.minutes)

    def monotonic(self) -> float:
        return 60.0 * self.minutes


def world(clock: Steps) -> Metrics:
    runtime, cache = Busy(clock=clock), PodCache()
    runtime.prepare()
    order, now = cache.begin(), datetime.now(UTC)
    for number in range(PODS):
        uid = f"uid-{number}"
        container = ObservedContainer(
            id=f"c-{uid}", name="c", restart_count=0, sandbox_id=f"s-{uid}",
            state=ContainerState.RUNNING, created_at=now,
        )  # fmt: skip
        sandbox = ObservedSandbox(
            id=f"s-{uid}", attempt=0, state=SandboxState.READY, created_at=now
        )
        observed = ObservedPod(
            uid=uid, name=uid, namespace="default", sandboxes=(sandbox,), containers=(container,)
        )
        cache.set(uid, observed, order)
    return Metrics(runtime, cache, None, clock, "n1")  # type: ignore[arg-type]


async def turns_beside(metrics: Metrics) -> list[float]:
    """Return this thread's CPU seconds between two turns of other tasks during one round,
    independent of the machine's load.
    """
    marks = [time.thread_time()]
    over = asyncio.Event()

    async def others() -> None:
        while not over.is_set():
            await asyncio.sleep(0)
            marks.append(time.thread_time())

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        await metrics.pods()
        over.set()
    return [b - a for a, b in itertools.pairwise(marks)]


async def test_metrics_of_a_thousand_pods_do_not_block_the_event_loop() -> None:
    """Each round ends a minute, which creates a row for each pod."""
    clock = Steps()
    metrics, shares = world(clock), list[float]()
    for _ in range(6):
        clock.minutes += 1
        gaps = await turns_beside(metrics)
        assert len(gaps) >= 3 * PODS / SLICE
        shares.append(max(gaps) / sum(gaps))
    assert len(await metrics.pods()) == PODS
    # A step is a 120th of the round; a garbage collection may delay one step, not all.
    assert min(shares[1:]) < 0.15
