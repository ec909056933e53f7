"""Resizes that the node cannot accept yet, with a scripted decision."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pod_builders import ctr, make_pod
from virtual_time import VirtualClock, virtual

from podtui.api.v1 import Event, Pod
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.resize.allocations import Allocations
from podtui.kubelet.resize.resizes import DEFERRED, RETRY_PERIOD, Resizes
from podtui.kubelet.types import AdmitResult


class FullNode:
    """A node without free resources, which defers every resize."""

    def __init__(self) -> None:
        self.checks = 0

    async def fits_resize(self, pod: Pod) -> AdmitResult:
        self.checks += 1
        return AdmitResult(admitted=False, reason=DEFERRED, message="no room")

    def mark_admitted(self, pod: Pod) -> None:
        raise AssertionError("not admitted")


class Events:
    def __init__(self) -> None:
        self.counts: list[tuple[str, int | None]] = []

    async def put(self, event: Event) -> None:
        self.counts.append((event.reason, event.count))


def pod_with(cpu: str) -> Pod:
    return make_pod(ctr(resources={"requests": {"cpu": cpu}}), uid="u1")


@virtual()
async def test_deferred_resizes_are_retried_periodically_and_reported_once(tmp_path: Path) -> None:
    clock, node, events = VirtualClock(), FullNode(), Events()
    small, large = pod_with("1"), pod_with("900")
    allocations = Allocations(str(tmp_path), clock)
    allocations.allocate(small)
    recorder = EventRecorder(events, clock, "n1")
    resizes = Resizes(
        allocations=allocations,
        admission=node,
        find=lambda uid: large,
        wake=lambda uid: None,
        events=recorder,
        clock=clock,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(resizes.run())
        await resizes.updated(small, large)
        assert node.checks == 1
        await asyncio.sleep(3.5 * RETRY_PERIOD)
        assert node.checks == 4
        task.cancel()
    await recorder.drain()
    assert events.counts == [("ResizeDeferred", 1)]
