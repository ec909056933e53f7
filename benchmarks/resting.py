"""What a screen costs that nobody touches, with pods that nothing happens to."""

from __future__ import annotations

import threading

from benchmarks import agent as agents
from benchmarks.report import Row, row
from benchmarks.terminal import SCREEN, Terminal, terminal

PODS = 50


def _cost(shown: Terminal, agent: agents.Agent, seconds: float) -> tuple[float, float]:
    """(percent of one core, RSS in MB); what it draws is read all the while."""
    watched = agents.Agent(agent.folder, agent.root, shown.process, agent.environment)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            shown.read(0.2)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        return watched.cpu_and_memory(seconds)
    finally:
        stop.set()
        reader.join()


def measure(*, quick: bool) -> list[Row]:
    """On the simulated engine; the screen rests for ten seconds before it is measured."""
    with agents.running("memory") as agent:
        for index in range(PODS):
            agent.drop(f"rest-{index}")
        with terminal(SCREEN, agent.environment) as shown:
            shown.drain(10)
            cpu, memory = _cost(shown, agent, 10 if quick else 30)
            if shown.process.poll() is not None:
                raise RuntimeError("the screen has ended")
    return [
        row(f"screen idle, {PODS} pods: CPU", [cpu], "% of a core", bound=1.5),
        row(f"screen idle, {PODS} pods: RSS", [memory], "MB", bound=120),
    ]
