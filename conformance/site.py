"""A real agent with its own root directory and manifest folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.golden import NODE, ROOT
from conformance.witness import Witness
from podtui.client.blocking import get_json
from podtui.errors import AgentUnavailable, ApiError

SETTINGS: Final = """\
nodeName: {node}
kubeletStrict: {strict}
clusterDNS: [10.96.0.10]
clusterDomain: ""
fileCheckFrequency: 20s
"""
START_SECONDS: Final = 120.0
DOWN_SECONDS: Final = 90.0


class SiteFailed(Exception):
    """Raised if the agent does not start, or ends by itself."""


@dataclass(frozen=True, slots=True)
class Site:
    base: Path
    strict: bool
    witness: Witness

    @property
    def folder(self) -> Path:
        return self.base / "manifests"

    def put(self, name: str, text: str) -> None:
        """Write a manifest as in the recording: to a temporary file, then renamed."""
        hidden = self.folder / f".{name}.new"
        hidden.write_text(text)
        hidden.rename(self.folder / name)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


def _environment(base: Path, engine: str) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "DOCKER_HOST") if key in os.environ}
    return {
        **kept,
        "HOME": str(base),
        "XDG_CONFIG_HOME": str(base / "config"),
        "PODTUI_CONFIG": str(base / "settings.yaml"),
        "PODTUI_ROOT_DIR": str(base / "root"),
        "PODTUI_STATIC_POD_PATH": str(base / "manifests"),
        "PODTUI_ENGINE": engine,
        "LANG": "C.UTF-8",
    }


def _start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=out
        )


def _log_end(base: Path) -> str:
    lines = (base / "agent.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-20:])


async def _answering(socket: Path, process: subprocess.Popen[bytes], base: Path) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                if process.poll() is not None:
                    raise SiteFailed(f"the agent has ended:\n{_log_end(base)}")
                try:
                    await asyncio.to_thread(get_json, socket, "/version", 1.0)
                except (AgentUnavailable, ApiError):
                    await asyncio.sleep(0.1)
                else:
                    return
    except TimeoutError as error:
        raise SiteFailed(f"the agent does not answer:\n{_log_end(base)}") from error


@asynccontextmanager
async def site(base: Path, *, strict: bool, engine: str = "auto") -> AsyncIterator[Site]:
    """Start an agent under ``base``, watch it, and remove everything that it ran.

    Raises `SiteFailed`.
    """
    (base / "manifests").mkdir(parents=True)
    (base / "settings.yaml").write_text(
        SETTINGS.format(node=NODE, strict="true" if strict else "false")
    )
    environment = _environment(base, engine)
    program = [sys.executable, "-m", "podtui"]
    process = _start([*program, "agent"], environment, base / "agent.log")
    witness = Witness(base / "root" / "podtui.sock")
    try:
        await _answering(base / "root" / "podtui.sock", process, base)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(witness.run(), name="witness")
            yield Site(base, strict, witness)
            watching.cancel()
    finally:
        await witness.close()
        await asyncio.to_thread(
            subprocess.run,
            [*program, "down", "--yes"],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=DOWN_SECONDS,
            check=False,
        )
        process.kill()
        process.wait(10)
