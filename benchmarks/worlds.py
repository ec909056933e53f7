"""Start and query `benchmarks.world`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.client.blocking import get_json
from podtui.errors import PodtuiError

YEAR: Final = 365 * 86400.0


@dataclass(frozen=True, slots=True)
class WorldProcess:
    root: Path

    @property
    def socket(self) -> Path:
        return self.root / "podtui.sock"

    @property
    def kubeconfig(self) -> Path:
        """The file for kubectl, which exists once the server listens."""
        return self.root / "kubeconfig"

    def counts(self) -> dict[str, int]:
        """Return the number of changed pods and sent lines. Raises `PodtuiError` if it does not
        answer."""
        return get_json(self.socket, "/bench", timeout=10)


@contextlib.contextmanager
def world(
    *, pods: int, changes: int = 0, lines: int = 0, past: int = 0, age: float = YEAR
) -> Generator[WorldProcess]:
    """Start a world with pods that are ``age`` seconds old; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="podtui-bench-") as base:
        root = Path(base)
        settings = {"pods": pods, "changes": changes, "lines": lines, "past": past, "age": age}
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.world", base, json.dumps(settings)]
        )
        found = WorldProcess(root)
        try:
            _wait(found, process)
            yield found
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(found: WorldProcess, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            found.counts()
            found.kubeconfig.stat()
        except (PodtuiError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
