"""Create the README's pictures from the running program: an agent on a real engine, the samples and
some of the gallery, and the screen. Writes ``docs/images/*.svg``.

Needs an engine with the sample image: ``scripts/with_engine.sh .venv/bin/python
scripts/screenshots.py``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from podtui.client.unix import UnixClient
from podtui.resources import shipped
from podtui.tui.app import PodtuiApp
from podtui.tui.preferences.theme_catalogue import ThemeCatalogue
from podtui.tui.screens.main.main_screen import MainScreen

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images"
GALLERY = ("crash-loop", "unknown-field", "too-big")
LOOPS = "CrashLoopBackOff"


@dataclass(frozen=True)
class Shot:
    """``pod`` is the pod under the cursor, without the node's name; ``keys`` are pressed then."""

    name: str
    size: tuple[int, int]
    theme: str = "podtui-dark"
    pod: str = "crash-loop"
    keys: tuple[str, ...] = ()


SHOTS = (
    Shot("overview-dark", (140, 40)),
    Shot("overview-light", (140, 40), "podtui-light"),
    Shot("overview-80x24", (80, 24)),
    Shot("overview-sand", (120, 34), "podtui-sand", "web"),
    Shot("overview-contrast", (120, 34), "podtui-contrast"),
    Shot("overview-colorblind", (120, 34), "podtui-colorblind"),
    Shot("pod-dark", (120, 36), pod="web", keys=("enter",)),
    Shot("timeline-dark", (120, 30), pod="pipeline", keys=("enter", "2")),
    Shot("why-dark", (120, 30), keys=("X",)),
    Shot("manifest-dark", (120, 30), pod="", keys=("g", "enter")),
    Shot("tree-dark", (120, 34), keys=("colon", *"tree", "enter", "plus")),
    Shot("node-dark", (120, 34), keys=("4", "enter")),
    Shot("help-dark", (120, 36), keys=("question_mark", "i")),
)


async def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition. Raises TimeoutError with ``what``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(0.1)


async def shoot(socket: Path, shot: Shot) -> None:
    app = PodtuiApp(
        UnixClient(socket),
        themes=ThemeCatalogue([shipped("themes")], shot.theme),
    )
    async with app.run_test(size=shot.size):
        main = app.screen_stack[0]
        assert isinstance(main, MainScreen)
        await until(lambda: app.model.node_use and app.model.pods, "pods and figures")
        await until(lambda: any(_word(app, p) == LOOPS for p in app.model.pods), "the crash loop")
        if shot.pod:
            main.pods.table.select(_key_of(app, shot.pod))
            await until(lambda: len(main.logs.view.buffer), "the log")
        for key in shot.keys:
            # Not the pilot's method, which waits for an idle program.
            app.simulate_key(key)
            await asyncio.sleep(0.5)
        await asyncio.sleep(2)
        (TARGET / f"{shot.name}.svg").write_text(app.export_screenshot(title="podtui"))


def _key_of(app: PodtuiApp, name: str) -> str:
    return next(k for k, pod in app.model.pods.items() if pod.metadata.name.startswith(name))


def _word(app: PodtuiApp, key: str) -> str:
    statuses = app.model.pods[key].status.containerStatuses
    waiting = statuses[0].state.waiting if statuses else None
    return waiting.reason if waiting is not None else ""


async def shoot_all(socket: Path) -> None:
    for shot in SHOTS:
        await shoot(socket, shot)


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    # A plain name, because the pictures show it.
    base = Path(tempfile.gettempdir(), "demo")
    try:
        base.mkdir(mode=0o700)
    except FileExistsError:
        print(f"{base} already exists: remove it first", file=sys.stderr)
        return 1
    try:
        folder = Path(base, "static_pods")
        samples = shipped("static_pods")
        shutil.copytree(samples, folder, ignore=shutil.ignore_patterns("gallery"))
        for name in GALLERY:
            shutil.copy(samples / "gallery" / f"{name}.yaml", folder)
        root = Path(base, "root")
        environment = {
            **os.environ,
            "PODTUI_ROOT_DIR": str(root),
            "PODTUI_STATIC_POD_PATH": str(folder),
            "PODTUI_NODE_NAME": "n1",
        }
        command = [sys.executable, "-m", "podtui", "agent"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as agent:
            try:
                # Long enough for a usage history and for some rounds of a crash loop.
                time.sleep(40)
                asyncio.run(shoot_all(root / "podtui.sock"))
            finally:
                agent.terminate()
                agent.wait()
                down = [sys.executable, "-m", "podtui", "down", "--yes"]
                subprocess.run(down, env=environment, check=False)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
