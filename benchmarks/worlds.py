"""Starting and asking `benchmarks.world`."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

YEAR: Final = 365 * 86400.0


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))


@dataclass(frozen=True, slots=True)
class WorldProcess:
    root: Path

    @property
    def socket(self) -> Path:
        return self.root / "podtui.sock"

    @property
    def url(self) -> str:
        """Where kubectl finds it."""
        return (self.root / "url").read_text()

    def counts(self) -> dict[str, int]:
        """``changed`` pods and ``sent`` lines so far. Raises OSError where nobody answers."""
        connection = _Connection(self.socket)
        try:
            connection.request("GET", "/bench")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextlib.contextmanager
def world(
    *, pods: int, changes: int = 0, lines: int = 0, past: int = 0, age: float = YEAR
) -> Generator[WorldProcess]:
    """One that answers, with pods ``age`` seconds old; it is ended in the end."""
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
            _ = found.url
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
