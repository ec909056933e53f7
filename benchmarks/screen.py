"""The screen: first paint, key to paint under load, and what it costs while nothing happens."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import termios
import threading
import time

from benchmarks import agent as agents
from benchmarks.report import Row, row
from benchmarks.scripted import ScriptedClient

SIZE = (160, 45)


async def _lag(seconds: float) -> list[float]:
    """How late a bare event loop's timers are, in ms: the machine's own noise."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    end = loop.time() + seconds
    while loop.time() < end:
        due = loop.time() + 0.02
        await asyncio.sleep(0.02)
        late.append(1e3 * (loop.time() - due))
    return late


async def _key_to_paint(seconds: float) -> tuple[list[float], int]:
    """(ms from a cursor key to the repaint of the table, log lines taken in), under load."""
    from podtui.resources import shipped
    from podtui.tui.app import PodtuiApp

    client = ScriptedClient(pods=200, changes=200, lines=10_000)
    app = PodtuiApp(client, theme=None, theme_dirs=[shipped("themes")], folder="static_pods")
    waits: list[float] = []
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.sleep(2)
        begin = time.monotonic()
        keys = ("j", "k")
        while time.monotonic() - begin < seconds:
            painted = asyncio.Event()
            sent = time.perf_counter()
            app.call_later(app.simulate_key, keys[len(waits) % 2])
            app.call_later(lambda e=painted: app.call_after_refresh(e.set))
            async with asyncio.timeout(10):
                await painted.wait()
            waits.append(1e3 * (time.perf_counter() - sent))
            await asyncio.sleep(0.03)
        del pilot
    return waits, client.sent_lines


def _percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _first_paint(agent: agents.Agent, runs: int) -> list[float]:
    """Seconds from starting ``podtui`` on a terminal until its first pane is drawn there."""
    return [_until(agent, b"Pods") for _ in range(runs + 1)][1:]


def _until(agent: agents.Agent, wanted: bytes) -> float:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (36, 120))
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "podtui"],
        env={**agent.environment, "TERM": "xterm-256color"},
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    seen = b""
    try:
        while wanted not in seen:
            if time.monotonic() - begin > 30:
                raise TimeoutError("nothing is drawn")
            ready, _, _ = select.select([master], [], [], 1)
            if ready:
                seen += os.read(master, 65536)
        return time.monotonic() - begin
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _idle(agent: agents.Agent, seconds: float) -> tuple[float, float]:
    """(percent of one core, RSS in MB) of a screen on a terminal that nobody touches."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (36, 120))
    process = subprocess.Popen(
        [sys.executable, "-m", "podtui"],
        env={**agent.environment, "TERM": "xterm-256color"},
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    shown = agents.Agent(agent.folder, agent.root, process, agent.environment)
    stop = threading.Event()

    def drain() -> None:
        while not stop.is_set():
            if select.select([master], [], [], 0.2)[0]:
                os.read(master, 65536)

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        time.sleep(8)
        return shown.cpu_and_memory(seconds)
    finally:
        stop.set()
        reader.join()
        process.kill()
        process.wait()
        os.close(master)


def _import_textual(runs: int) -> list[float]:
    """Seconds of a whole Python process that imports textual's app and nothing else."""
    values: list[float] = []
    for _ in range(runs + 1):
        begin = time.monotonic()
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
        values.append(time.monotonic() - begin)
    return values[1:]


def measure(*, quick: bool) -> list[Row]:
    """On terminals of our own; no engine is needed."""
    runs = 3 if quick else 9
    with agents.running("memory") as agent:
        for index in range(50):
            agent.drop(f"paint-{index}")
        time.sleep(5)
        bare = _import_textual(runs)
        paint = _first_paint(agent, runs)
        cpu, memory = _idle(agent, 10 if quick else 30)
    seconds = 5.0 if quick else 20.0
    lag = asyncio.run(_lag(seconds))
    waits, lines = asyncio.run(_key_to_paint(seconds))
    above = _percentile(waits, 0.99) - _percentile(lag, 0.99)
    return [
        row("screen: start to first paint", paint, "s", bound=1.0),
        row("screen: start to first paint, against importing textual", paint, "s",
            floor=bare, floor_name="import textual", bound=1.5),
        row("screen idle, 50 pods: CPU", [cpu], "% of a core", bound=1.5),
        row("screen idle, 50 pods: RSS", [memory], "MB", bound=120),
        row("screen: key to paint, median, 200 pods/s and 10,000 lines/s", waits, "ms"),
        row("screen: key to paint, p99 above the bare loop's p99 lag", [above], "ms", bound=50),
        row("screen: log lines/s while at it", [lines / seconds], "lines/s"),
    ]  # fmt: skip
