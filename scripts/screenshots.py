"""Make the README's pictures from the running program: an agent on the simulated engine, the
samples and some of the gallery, and the screen on them. Writes ``docs/images/*.svg``."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from podtui.client.unix import UnixClient
from podtui.resources import shipped
from podtui.tui.app import PodtuiApp

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images"
GALLERY = ("crash-loop", "unknown-field", "too-big")
SHOTS: list[tuple[str, str, tuple[int, int], tuple[str, ...]]] = [
    ("overview-dark", "podtui-dark", (140, 40), ()),
    ("overview-light", "podtui-light", (140, 40), ()),
    ("overview-80x24", "podtui-dark", (80, 24), ()),
    ("pod-dark", "podtui-dark", (120, 36), ("j", "enter")),
    ("manifest-dark", "podtui-dark", (120, 30), ("k", "k", "k", "k", "enter")),
]


async def shoot(socket: Path) -> None:
    for name, theme, size, keys in SHOTS:
        app = PodtuiApp(
            UnixClient(socket),
            theme=theme,
            theme_dirs=[shipped("themes")],
            folder="./static_pods",
            simulated=True,
        )
        async with app.run_test(size=size):
            await asyncio.sleep(6)
            for key in keys:
                # Not the pilot's way: it waits for a program that never rests.
                app.simulate_key(key)
                await asyncio.sleep(0.5)
            await asyncio.sleep(2)
            (TARGET / f"{name}.svg").write_text(app.export_screenshot(title="podtui"))


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    # A plain name: the pictures show it.
    base = Path(tempfile.gettempdir(), "demo")
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(mode=0o700)
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
            "PODTUI_ENGINE": "memory",
        }
        command = [sys.executable, "-m", "podtui", "agent"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as agent:
            try:
                time.sleep(25)
                asyncio.run(shoot(root / "podtui.sock"))
            finally:
                agent.terminate()
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
