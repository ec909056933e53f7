"""The walks in docs/architecture.md, compared with traces of the agent and the screen."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from repository import ROOT
from textual.strip import Strip
from tui_app import wait_for
from tui_scene import THEMES

from podtui.agent.run import serve
from podtui.api.v1 import Pod
from podtui.client.protocol import Changed, Removed
from podtui.client.unix import UnixClient
from podtui.runtime.protocol import LogLine
from podtui.settings import Settings, resolve
from podtui.tui.app import PodtuiApp
from podtui.tui.preferences.theme_catalogue import ThemeCatalogue

WIRING = {
    "podtui/agent/run.py",
    "podtui/kubelet/kubelet.py",
    "podtui/kubelet/tasks.py",
    "podtui/kubelet/kubelet_metrics.py",
    "podtui/runtime/interceptor.py",
}
"""Files that own the tasks, measure calls or pass them on."""
HAND_OFFS = {
    ("podtui/manifest/validation/pod.py", "validate_pod"),
    ("podtui/kubelet/pods/pod_workers.py", "update"),
    ("podtui/runtime/docker/runtime.py", "create_container"),
}
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: walker}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: busybox:1.36, command: [sleep, "3600"]}]
"""
TEXT = "a line that walks"
SPEAKER = """
apiVersion: v1
kind: Pod
metadata: {name: speaker}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "while sleep 0.2; do echo a line 'that' walks; done"]
"""
HELPERS = {
    "podtui/text/terminal_text.py",
    "podtui/tui/screens/logs/earlier_lines.py",
    "podtui/tui/views/logs/ansi.py",
    "podtui/tui/views/logs/levels.py",
    "podtui/tui/views/logs/times.py",
    "podtui/tui/widgets/cells.py",
    "podtui/tui/widgets/sanitize.py",
}
"""Files of functions that process a text and keep nothing of it."""


def walk(heading: str, number: int) -> list[str]:
    """Return the files of a table below a heading of the architecture page, in order."""
    text = (ROOT / "docs/architecture.md").read_text()
    section = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], flags=re.M)[0]
    tables = section.split("|---|---|---|")[1:]
    return re.findall(r"^\| \d+ \| `(podtui/[\w/.]+)`", tables[number], re.M)


def file_of(frame: FrameType) -> str:
    """Return the path of a frame's file in the repository; empty if it is not podtui's."""
    path = frame.f_code.co_filename
    return path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/podtui/") else ""


def stack(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if file := file_of(frame):
            yield file
        frame = frame.f_back


class PodTrace:
    """The files that run, and those on the stack where the pod is handed on. For setprofile()."""

    def __init__(self) -> None:
        self.on = False
        self.ran: set[str] = set()
        self.passed: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call" and (file := file_of(frame)):
            self.ran.add(file)
            if (file, frame.f_code.co_name) in HAND_OFFS:
                self.passed |= set(stack(frame))


class LineTrace:
    """The files whose functions hold the text in a variable when they return or yield. For
    setprofile()."""

    def __init__(self) -> None:
        self.on = False
        self.passed: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "return":
            return
        file = file_of(frame)
        if file and file not in self.passed and any(map(holds_text, [*frame.f_locals.values()])):
            self.passed.add(file)


def holds_text(value: object, depth: int = 2) -> bool:
    match value:
        case str():
            return TEXT in value
        case bytes() | bytearray():
            return TEXT.encode() in value
        case LogLine():
            return TEXT.encode() in value.content
        case Strip():
            return TEXT in value.text
        case list() | tuple() | deque() if depth:
            return any(holds_text(one, depth - 1) for one in list(value))
        case _:
            return False


@contextmanager
def traced(trace: Callable[[FrameType, str, object], None]) -> Generator[None]:
    """Begin before the event loop starts its threads."""
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def settings_of(tmp_path: Path) -> Settings:
    pods, root = tmp_path / "pods", tmp_path / "root"
    pods.mkdir()
    root.mkdir()
    return resolve(
        {"rootDir": str(root), "staticPodPath": str(pods), "nodeName": "walks"}, {}
    ).settings


async def test_a_pod_passes_the_files_that_the_architecture_lists(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    manifest = settings.staticPodPath / "walker.yaml"
    stopped, trace = asyncio.Event(), PodTrace()
    with traced(trace):
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            agent = group.create_task(serve(settings, stopped, asyncio.Event()))
            client = UnixClient(settings.socket_path)
            async for delta in client.follow(Pod):
                if not trace.on:
                    # The agent is up at its first answer, which may be a connection error.
                    trace.on = settings.socket_path.exists()
                    if trace.on:
                        manifest.write_text(MANIFEST)
                elif isinstance(delta, Changed) and delta.items[-1].status.phase == "Running":
                    manifest.unlink(missing_ok=True)
                elif isinstance(delta, Removed):
                    break
            await client.close()
            stopped.set()
            await agent
    heading = "One pod, from the file to the screen"
    out, back = set(walk(heading, 0)), set(walk(heading, 1))
    on_screen = {file for file in back if file.startswith("podtui/tui/")}
    assert len(out) <= 20
    assert len(back) <= 15
    assert trace.passed - WIRING <= out
    assert out <= trace.ran
    assert back - on_screen <= trace.ran


async def test_a_log_line_passes_the_files_that_the_architecture_lists(tmp_path: Path) -> None:
    """The container repeats the line, so the order of painting does not matter."""
    settings = settings_of(tmp_path)
    manifest = settings.staticPodPath / "speaker.yaml"
    manifest.write_text(SPEAKER)
    listed = set(walk("One log line, from the container to the screen", 0))
    stopped, trace = asyncio.Event(), LineTrace()
    with traced(trace):
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            agent = group.create_task(serve(settings, stopped, asyncio.Event()))
            client = UnixClient(settings.socket_path)
            app = PodtuiApp(client, themes=ThemeCatalogue([THEMES], "podtui-dark"))
            async with app.run_test(size=(120, 36)) as pilot:
                trace.on = True
                await wait_for(pilot, lambda: listed <= trace.passed, "the line is drawn")
                trace.on = False
                manifest.unlink()
                await wait_for(pilot, lambda: not app.model.pods, "the pod is gone")
            await client.close()
            stopped.set()
            await agent
    assert len(listed) <= 15
    assert trace.passed - HELPERS == listed
