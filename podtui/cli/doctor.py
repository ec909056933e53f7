"""``podtui doctor``: check podtui's requirements and give advice on missing ones."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec
import psutil

from podtui import __version__
from podtui.agent.lock import AgentRecord, is_held, read_agent
from podtui.agent.run import make_runtime
from podtui.api.v1 import Node
from podtui.cli.invocation import FAILED, OK, settings_of
from podtui.client.blocking import get_json
from podtui.clock import SystemClock
from podtui.errors import AgentUnavailable, ApiError, EngineError
from podtui.private_files import RootDenied
from podtui.resources import typed_program
from podtui.runtime.docker.locate import find_engine
from podtui.runtime.protocol import EngineInfo
from podtui.settings import Settings
from podtui.text.terminal_text import lines
from podtui.why.pod_rules import engine_advice

_LIBRARIES: Final = ("textual", "docker", "PyYAML", "watchfiles", "psutil", "msgspec", "aiohttp")
CONNECT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``level`` is ``ok``, ``warn`` or ``fail``; ``advice`` is how to fix
    the problem."""

    level: str
    subject: str
    text: str
    advice: str = ""


def run(namespace: argparse.Namespace) -> int:
    """Print the report; return 1 if a check failed."""
    text, healthy = examine(settings_of(namespace))
    print(lines(text))
    return OK if healthy else FAILED


def examine(settings: Settings) -> tuple[str, bool]:
    """Run all checks. Return the report and whether no check failed. The checks use the engine and
    folder of the running agent, or those of a new agent if none runs."""
    try:
        agent = read_agent(settings.lock_path)
    except RootDenied as error:
        findings = [*_program(), Finding("fail", "root directory", str(error)), *_engine(settings)]
        return _formatted(findings)
    if agent is not None:
        settings = msgspec.structs.replace(
            settings,
            engine=agent.engine,
            staticPodPath=Path(agent.staticPodPath),
            nodeName=agent.nodeName,
        )
    findings = [
        *_program(),
        *_places(settings),
        *_agent(settings, agent),
        *(_engine(settings) if agent is None else _engine_of_agent(settings)),
    ]
    return _formatted(findings)


def _formatted(findings: Sequence[Finding]) -> tuple[str, bool]:
    marks = {"ok": "✓", "warn": "!", "fail": "✗"}
    report: list[str] = []
    for finding in findings:
        report.append(f"{marks[finding.level]} {finding.subject}: {finding.text}")
        if finding.advice:
            report.append(f"    → {finding.advice}")
    return "\n".join(report), all(finding.level != "fail" for finding in findings)


def _program() -> Iterator[Finding]:
    yield Finding(
        "ok", "podtui", f"{__version__} on Python {platform.python_version()}, {sys.platform}"
    )
    missing: list[str] = []
    installed: list[str] = []
    for name in _LIBRARIES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding(
            "fail", "libraries", f"missing: {', '.join(missing)}", "install podtui again, with pip"
        )
    else:
        yield Finding("ok", "libraries", ", ".join(installed))


def _places(settings: Settings) -> Iterator[Finding]:
    root = settings.rootDir
    if not root.exists():
        yield Finding("ok", "root directory", f"{root} (created when the agent starts)")
    elif not os.access(root, os.W_OK | os.X_OK):
        yield Finding(
            "fail", "root directory", f"{root} is not writable", "use another one (--root-dir)"
        )
    elif root.stat().st_mode & 0o077:
        yield Finding(
            "warn", "root directory", f"{root} is accessible to other users", f"chmod 700 {root}"
        )
    else:
        yield Finding("ok", "root directory", str(root))
    folder = settings.staticPodPath
    if not folder.exists():
        yield Finding("warn", "manifests", f"{folder} does not exist", f"mkdir -p {folder}")
    elif not os.access(folder, os.R_OK):
        yield Finding("fail", "manifests", f"{folder} is not readable", "change its permissions")
    else:
        yield Finding("ok", "manifests", str(folder))


def _agent(settings: Settings, record: AgentRecord | None) -> Iterator[Finding]:
    if record is not None:
        yield Finding(
            "ok",
            "agent",
            f"process {record.pid}, podtui {record.version}, node {record.nodeName}, engine"
            f" {record.engine}, folder {record.staticPodPath}",
        )
        if record.version != __version__:
            yield Finding(
                "warn", "agent", f"is version {record.version}, this is {__version__}",
                f"{typed_program()} stop, then {typed_program()}: containers keep running",
            )  # fmt: skip
    elif is_held(settings.lock_path):
        yield Finding("warn", "agent", "is starting")
    else:
        yield Finding("ok", "agent", f"none runs; '{typed_program()}' starts one")
        for pid, root in _agents_elsewhere(settings):
            yield Finding(
                "ok", "another agent", f"process {pid}, root directory {root}",
                f"{typed_program()} doctor --root-dir {shlex.quote(root)} examines it",
            )  # fmt: skip


def _agents_elsewhere(settings: Settings) -> Iterator[tuple[int, str]]:
    """Yield PID and root directory of agents with another root directory."""
    for process in psutil.process_iter(["cmdline"]):
        command: list[str] = process.info["cmdline"] or []
        if "agent" not in command or not any(Path(word).name == "podtui" for word in command):
            continue
        for index, word in enumerate(command):
            root = word.removeprefix("--root-dir=")
            if word == "--root-dir" and index + 1 < len(command):
                root = command[index + 1]
            if root != word and Path(root) != settings.rootDir:
                yield process.pid, root


def _engine_of_agent(settings: Settings) -> Iterator[Finding]:
    """Check the engine as the agent reports it, because the agent may run as another user with
    another environment."""
    try:
        (item,) = get_json(settings.socket_path, "/api/v1/nodes")["items"]
        status = msgspec.convert(item, Node).status
    except (AgentUnavailable, ApiError, ValueError) as error:
        yield Finding("warn", "agent", f"does not answer yet: {error}")
        yield from _engine(settings)
        return
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    if ready is None or ready.status != "True":
        message = ready.message if ready else "the node has no Ready condition yet"
        advice = engine_advice(message, ready.reason) if ready else engine_advice(message)
        yield Finding("fail", "engine of the agent", message, advice)
        return
    runtime = status.nodeInfo.containerRuntimeVersion if status.nodeInfo else "engine"
    yield Finding("ok", "engine of the agent", f"{runtime}, node {settings.nodeName} is Ready")
    for finding in _engine(settings):
        yield replace(finding, level="warn") if finding.level == "fail" else finding


def _engine(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "memory":
        yield Finding("warn", "engine", "SIMULATED: no container really runs", "use --engine auto")
        return
    search = find_engine(None if settings.engine == "auto" else settings.engine)
    for tried in search.tried:
        level = "ok" if search.endpoint else "fail"
        yield Finding(level, f"no engine at {tried.endpoint.url}", tried.problem)
    if search.endpoint is None:
        denied = [tried.problem for tried in search.tried if "permission denied" in tried.problem]
        yield Finding(
            "fail",
            "engine",
            "none can be used" if denied else "none answers",
            engine_advice(denied[0])
            if denied
            else "install Docker or Podman and start it, or try --engine memory",
        )
        return
    try:
        info = asyncio.run(_connect(settings))
    except (EngineError, TimeoutError) as error:
        yield Finding("fail", "engine", f"{search.endpoint.url} answers, but: {error}")
        return
    yield Finding(
        "ok",
        "engine",
        f"{info.name} {info.version} (API {info.api_version}) at {search.endpoint.url}"
        f" ({search.endpoint.source}); {info.operating_system or info.os}, cgroup v"
        f"{info.cgroup_version}, {info.cpus} CPUs, {info.memory / 2**30:.1f} GiB",
    )
    for lack in info.lacking:
        yield Finding("warn", "engine", lack)


async def _connect(settings: Settings) -> EngineInfo:
    runtime = make_runtime(settings, SystemClock())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await runtime.connect()
    finally:
        await runtime.close()
