"""The time from file to process, from edit to new version, and of removal: podtui, bare calls
and podman."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import agent as agents
from benchmarks import engine
from benchmarks.report import Row, row

F = TypeVar("F")
T = TypeVar("T")


def app_starts(events: list[tuple[str, str, int]], name: str) -> list[int]:
    return [
        when
        for action, container, when in events
        if action == "start" and container.startswith(f"k8s_app_{name}")
    ]


def gone(events: list[tuple[str, str, int]], name: str) -> list[int]:
    return [
        when
        for action, container, when in events
        if action == "destroy" and f"_{name}" in container and container.startswith("k8s_")
    ]


def podtui_start_and_remove(agent: agents.Agent, count: int) -> engine.Bare:
    """Write ``count`` manifests at once, wait until all run, remove them at once, wait until all
    are gone."""
    batch = f"b{time.monotonic_ns()}"
    names = [f"{batch}-{index}" for index in range(count)]
    with engine.watching() as watcher:
        begin = min(agent.drop(name) for name in names)
        watcher.wait(lambda events: len(app_starts(events, batch)) >= count, 300)
        started = max(app_starts(watcher.events, batch))
        agent.settle(count)
        stop_begin = min(agent.remove(name) for name in names)
        watcher.wait(lambda events: len(gone(events, batch)) >= 2 * count, 300)
        removed = max(gone(watcher.events, batch))
    return engine.Bare((started - begin) / 1e9, (removed - stop_begin) / 1e9)


def podtui_edit(agent: agents.Agent) -> float:
    """Return the seconds from an edit's rename to the new process; the old one exits on SIGTERM."""
    name = f"e{time.monotonic_ns()}"
    with engine.watching() as watcher:
        agent.drop(name)
        watcher.wait(lambda events: len(app_starts(events, name)) >= 1, 60)
        agent.settle(1)
        begin = agent.drop(name, version="2")
        watcher.wait(lambda events: len(app_starts(events, name)) >= 2, 60)
        seconds = (app_starts(watcher.events, name)[1] - begin) / 1e9
        agent.remove(name)
        watcher.wait(lambda events: len(gone(events, name)) >= 4, 60)
    return seconds


def podman() -> dict[str, str] | None:
    """Return the environment to run podman in, None if it is not installed."""
    if shutil.which("podman") is None:
        return None
    folder = Path(tempfile.gettempdir(), "podtui-bench-podman")
    folder.mkdir(exist_ok=True)
    settings = folder / "containers.conf"
    settings.write_text(
        "[containers]\ndefault_ulimits = []\n"
        "[engine]\nruntime = 'runc'\ncgroup_manager = 'cgroupfs'\n"
    )
    environment = {**os.environ, "CONTAINERS_CONF": str(settings)}
    images = subprocess.run(
        ["podman", "images", "--format", "json"], env=environment, capture_output=True, check=False
    )
    if images.returncode != 0:
        return None
    if not any("busybox:1.36" in str(image) for image in json.loads(images.stdout or b"[]")):
        archive = folder / "image.tar"
        with archive.open("wb") as file:
            for part in engine.client().get_image(engine.IMAGE):
                file.write(part)
        subprocess.run(
            ["podman", "load", "-i", archive], env=environment, capture_output=True, check=True
        )
        subprocess.run(
            ["podman", "tag", "docker.io/library/busybox:1.36", "localhost/busybox:1.36"],
            env=environment, capture_output=True, check=False,
        )  # fmt: skip
    return environment


def podman_play(environment: dict[str, str], count: int) -> float:
    """Return the seconds that ``podman kube play`` takes for ``count`` pods in one file."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "pods.yaml")
        name = f"p{time.monotonic_ns()}"
        manifest.write_text(
            "---\n".join(
                agents.MANIFEST.format(name=f"{name}-{index}", version="1")
                for index in range(count)
            )
        )
        begin = time.monotonic()
        subprocess.run(
            ["podman", "kube", "play", manifest], env=environment, capture_output=True, check=True
        )
        seconds = time.monotonic() - begin
        subprocess.run(
            ["podman", "kube", "down", manifest], env=environment, capture_output=True, check=False
        )
    return seconds


def pairs_of(runs: int, floor: Callable[[], F], figure: Callable[[], T]) -> tuple[list[F], list[T]]:
    """Measure a floor and a figure alternately, each first in every other pair: the kernel still
    cleans up the namespaces of the one before.

    Return (the floors, the figures).
    """
    floors: list[F] = []
    figures: list[T] = []
    for index in range(runs):
        if index % 2:
            figures.append(figure())
            floors.append(floor())
        else:
            floors.append(floor())
            figures.append(figure())
    return floors, figures


def measure(*, quick: bool) -> list[Row]:
    """Measure the bare calls and podtui alternately, and then podman and podtui."""
    from podtui.runtime.docker.pause import PAUSE_IMAGE

    engine.clear()
    plan = [(1, 1, 3 if quick else 20), (10, 4, 1 if quick else 4), (50, 4, 0 if quick else 4)]
    rows: list[Row] = []
    environment = podman()
    with agents.running() as agent:
        podtui_start_and_remove(agent, 1)
        for count, workers, runs in plan:
            if not runs:
                continue
            bare_calls = f"bare calls, {workers} at a time"
            bare, ours = pairs_of(
                runs,
                partial(engine.bare, count, workers, PAUSE_IMAGE),
                partial(podtui_start_and_remove, agent, count),
            )
            rows.append(
                row(
                    f"file → running, {count} pod{'s' * (count > 1)}",
                    [one.start for one in ours], "s",
                    floor=[one.start for one in bare], floor_name=bare_calls,
                    bound={1: 1.05, 10: 1.03, 50: 1.03}[count],
                )
            )  # fmt: skip
            rows.append(
                row(
                    f"{count} manifest{'s' * (count > 1)} removed → containers gone",
                    [one.remove for one in ours], "s",
                    floor=[one.remove for one in bare], floor_name=bare_calls,
                    bound={1: 1.2, 50: 1.08}.get(count),
                )
            )  # fmt: skip
            if environment is not None:
                played, started = pairs_of(
                    -(-runs // 2),
                    partial(podman_play, environment, count),
                    partial(podtui_start_and_remove, agent, count),
                )
                rows.append(
                    row(
                        f"the same against podman kube play, {count}",
                        [one.start for one in started], "s",
                        floor=played, floor_name="podman kube play",
                    )
                )  # fmt: skip
        restarts, edits = pairs_of(
            3 if quick else 10,
            partial(engine.bare, 1, 1, PAUSE_IMAGE),
            partial(podtui_edit, agent),
        )
        rows.append(
            row("edit → new version running", edits, "s",
                floor=[one.start + one.remove for one in restarts],
                floor_name="bare stop + bare start", bound=1.05)
        )  # fmt: skip
    engine.clear()
    return rows


def idle(*, quick: bool) -> list[Row]:
    """Return the cost of an idle agent."""
    rows: list[Row] = []
    seconds = 10.0 if quick else 60.0
    with agents.running() as agent:
        have = 0
        for count in (0, 10) if quick else (0, 10, 50):
            for index in range(have, count):
                agent.drop(f"idle-{index}")
            have = count
            agent.settle(count)
            time.sleep(5)
            cpu, memory = agent.cpu_and_memory(seconds)
            rows.append(
                row(f"agent idle, {count} pods: CPU", [cpu], "% of a core",
                    bound=0.6 if count == 50 else None)
            )  # fmt: skip
            rows.append(
                row(f"agent idle, {count} pods: RSS", [memory], "MB",
                    bound=100.0 if count == 50 else None)
            )  # fmt: skip
    return rows
