"""Virtual time: what advances it, what blocks it, how it fails."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest
import virtual_time
from virtual_time import EPOCH, VirtualClock, VirtualTimeError, run_virtual, virtual


@pytest.fixture
async def born_at() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.virtual_time
async def test_an_hour_passes_immediately(virtual_clock: VirtualClock, born_at: float) -> None:
    await virtual_clock.sleep(3600)
    assert virtual_clock.monotonic() - born_at == 3600
    assert (virtual_clock.now() - EPOCH).total_seconds() == 3600


@virtual()
async def test_sleeps_never_end_early() -> None:
    loop = asyncio.get_running_loop()
    for step in (0.1, 0.3, 1e-3, 7.7, 86400 * 3, 0.1):
        due = loop.time() + step
        await asyncio.sleep(step)
        assert loop.time() >= due


@virtual()
async def test_timeouts_groups_and_queues() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    seen: list[tuple[int, float]] = []
    loop = asyncio.get_running_loop()

    async def produce() -> None:
        for number in range(3):
            await asyncio.sleep(10)
            await queue.put(number)

    async def consume() -> None:
        while True:
            seen.append((await queue.get(), loop.time()))

    async def both() -> None:
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())

    with pytest.raises(TimeoutError):
        await both()
    assert seen == [(0, 10.0), (1, 20.0), (2, 30.0)]
    assert loop.time() == 100


def test_running_threads_stop_time() -> None:
    async def body() -> float:
        async with asyncio.timeout(0.001):
            await asyncio.to_thread(time.sleep, 0.05)
        return asyncio.get_running_loop().time()

    assert run_virtual(body()) == 0


def test_real_sockets_are_served() -> None:
    async def body() -> bytes:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            timer = threading.Timer(0.05, theirs.sendall, [b"late\n"])
            timer.start()
            try:
                return await reader.readline()
            finally:
                writer.close()
                await writer.wait_closed()
                await asyncio.to_thread(timer.join)

    assert run_virtual(body()) == b"late\n"


def test_a_deadlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "STALL_GRACE", 0.05)

    async def body() -> None:
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeError, match=r"nothing is left.*\n.*test_virtual_time\.py:\d+"):
        run_virtual(body())


def test_endless_work_ends_on_cpu_time() -> None:
    async def body() -> None:
        for _ in iter(int, 1):
            await asyncio.sleep(30)

    with pytest.raises(VirtualTimeError, match="seconds of CPU"):
        run_virtual(body(), timeout=0.1)
