"""The walk of a pod in docs/architecture.md, compared with a trace of the agent."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from repository import ROOT

from podtui.agent.run import serve
from podtui.api.v1 import Pod
from podtui.client.protocol import Changed, Removed
from podtui.client.unix import UnixClient
from podtui.settings import resolve

WIRING = {"podtui/agent/run.py", "podtui/kubelet/kubelet.py", "podtui/kubelet/base/tasks.py"}
"""Files that own the tasks."""
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


class Trace:
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


async def test_a_pod_passes_the_files_that_the_architecture_lists(tmp_path: Path) -> None:
    pods, root = tmp_path / "pods", tmp_path / "root"
    pods.mkdir()
    root.mkdir()
    settings = resolve(
        {"rootDir": str(root), "staticPodPath": str(pods), "nodeName": "walks"}, {}
    ).settings
    stopped, trace = asyncio.Event(), Trace()
    # Before the event loop starts its threads.
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            agent = group.create_task(serve(settings, stopped, asyncio.Event()))
            client = UnixClient(settings.socket_path)
            async for delta in client.follow(Pod):
                if not trace.on:
                    # The agent is up: the first answer, also an error of the connection.
                    trace.on = settings.socket_path.exists()
                    if trace.on:
                        (pods / "walker.yaml").write_text(MANIFEST)
                elif isinstance(delta, Changed) and delta.items[-1].status.phase == "Running":
                    (pods / "walker.yaml").unlink(missing_ok=True)
                elif isinstance(delta, Removed):
                    break
            await client.close()
            stopped.set()
            await agent
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    heading = "One pod, from the file to the screen"
    out, back = set(walk(heading, 0)), set(walk(heading, 1))
    on_screen = {file for file in back if file.startswith("podtui/tui/")}
    assert len(out) <= 20
    assert len(back) <= 15
    assert trace.passed - WIRING <= out
    assert out <= trace.ran
    assert back - on_screen <= trace.ran
