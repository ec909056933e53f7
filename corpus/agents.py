"""Agents on the simulated engine, each in its own process: a fork of a process that has imported
the agent, so that a start costs 0.2 s of CPU instead of 3 s."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import aiohttp

from corpus.judge import NODE
from podtui.client.connection import HttpConnection
from podtui.errors import AgentUnavailable
from podtui.settings import Settings

_CONTEXT: Final = multiprocessing.get_context("forkserver")
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
MACHINE: Final = {"cpu": "1000", "memory": "16Ti", "user": "65532", "completion": "true"}
"""Large enough for every app, with images that do not run as root."""


class AgentLost(Exception):
    """An agent that does not start, ends by itself, or does not stop."""


@dataclass(frozen=True, slots=True)
class Agent:
    folder: Path
    root: Path
    connection: HttpConnection

    @property
    def log(self) -> str:
        return (self.root / "agent.log").read_text(errors="replace")


def preload() -> None:
    """Have the agent imported once. Call it before the first agent."""
    _CONTEXT.set_forkserver_preload(
        ["corpus.agents", "podtui.agent.run", "podtui.runtime.memory", "podtui.server.schema"]
    )


def serve(settings: Settings) -> None:
    """Run an agent until SIGTERM, in this process; it logs into its root directory."""
    from podtui.agent.run import run_agent

    settings.rootDir.mkdir(mode=0o700, exist_ok=True)
    log = os.open(settings.agent_log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.exit(run_agent(settings))


@contextlib.asynccontextmanager
async def agent(labels: Mapping[str, str]) -> AsyncGenerator[Agent]:
    """Start an agent with an empty folder on a node with these labels, and stop it. Raises
    `AgentLost`."""
    with tempfile.TemporaryDirectory(prefix="podtui-corpus-") as base:
        folder, root = Path(base, "folder"), Path(base, "root")
        os.mkdir(folder)
        settings = Settings(
            rootDir=root,
            staticPodPath=folder,
            engine="memory",
            simulatedEngine=MACHINE,
            nodeName=NODE,
            nodeLabels=labels,
            maxPods=1000,
            enableServer=False,
        )
        process = _CONTEXT.Process(target=serve, args=(settings,), daemon=True)
        process.start()
        connector = functools.partial(aiohttp.UnixConnector, str(settings.socket_path))
        connection = HttpConnection("http://podtui", connector)
        try:
            await _answer(connection, process)
            yield Agent(folder, root, connection)
            if not process.is_alive():
                raise AgentLost(f"the agent ended with status {process.exitcode}")
        finally:
            await connection.close()
            await _stop(process)


async def _stop(process: ForkServerProcess) -> None:
    process.terminate()
    await asyncio.to_thread(process.join, STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        raise AgentLost(f"the agent did not stop within {STOP_SECONDS:.0f} s")


async def _answer(connection: HttpConnection, process: ForkServerProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            await connection.get("/readyz")
        except AgentUnavailable as error:
            if not process.is_alive() or time.monotonic() > deadline:
                raise AgentLost(f"the agent does not answer: {error}") from error
            await asyncio.sleep(0.1)
        else:
            return
