"""``podtui doctor``: what podtui needs, whether it is there, and what to do where it is not."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from podtui import __version__
from podtui.agent.lock import is_held, read_agent
from podtui.agent.run import make_runtime
from podtui.clock import SystemClock
from podtui.errors import EngineError
from podtui.resources import typed_program
from podtui.runtime.docker.locate import find_engine
from podtui.runtime.protocol import EngineInfo
from podtui.settings import Settings

_LIBRARIES: Final = ("textual", "docker", "PyYAML", "watchfiles", "psutil", "msgspec", "aiohttp")
CONNECT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``level`` is ``ok``, ``warn`` or ``fail``; ``advice`` what to do."""

    level: str
    subject: str
    said: str
    advice: str = ""


def examine(settings: Settings) -> tuple[str, bool]:
    """(the report, whether nothing failed)."""
    findings = [
        *_program(),
        *_places(settings),
        *_agent(settings),
        *_engine(settings),
    ]
    marks = {"ok": "✓", "warn": "!", "fail": "✗"}
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{marks[finding.level]} {finding.subject}: {finding.said}")
        if finding.advice:
            lines.append(f"    → {finding.advice}")
    return "\n".join(lines), all(finding.level != "fail" for finding in findings)


def _program() -> Iterator[Finding]:
    yield Finding(
        "ok", "podtui", f"{__version__} on Python {platform.python_version()}, {sys.platform}"
    )
    missing: list[str] = []
    found: list[str] = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding(
            "fail", "libraries", f"missing: {', '.join(missing)}", "install podtui again, with pip"
        )
    else:
        yield Finding("ok", "libraries", ", ".join(found))


def _places(settings: Settings) -> Iterator[Finding]:
    root = settings.rootDir
    if not root.exists():
        yield Finding("ok", "root directory", f"{root} (made when the agent starts)")
    elif not os.access(root, os.W_OK | os.X_OK):
        yield Finding(
            "fail", "root directory", f"{root} is not writable", "use --root-dir, or its owner"
        )
    elif root.stat().st_mode & 0o077:
        yield Finding(
            "warn", "root directory", f"{root} is open to other users", f"chmod 700 {root}"
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


def _agent(settings: Settings) -> Iterator[Finding]:
    record = read_agent(settings.lock_path)
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
                f"{typed_program()} stop, then {typed_program()}: containers run on",
            )  # fmt: skip
    elif is_held(settings.lock_path):
        yield Finding("warn", "agent", "is just starting")
    else:
        yield Finding("ok", "agent", f"none runs; '{typed_program()}' starts one")


def _engine(settings: Settings) -> Iterator[Finding]:
    if settings.engine == "memory":
        yield Finding("warn", "engine", "SIMULATED: no container really runs", "--engine auto")
        return
    search = find_engine(None if settings.engine == "auto" else settings.engine)
    for tried in search.tried:
        level = "ok" if search.found else "fail"
        yield Finding(level, f"no engine at {tried.endpoint.url}", tried.problem)
    if search.found is None:
        yield Finding(
            "fail",
            "engine",
            "none answers",
            "install Docker or Podman and start it, or look around with --engine memory",
        )
        return
    try:
        info = asyncio.run(_connect(settings))
    except (EngineError, TimeoutError) as error:
        yield Finding("fail", "engine", f"{search.found.url} answers, but: {error}")
        return
    yield Finding(
        "ok",
        "engine",
        f"{info.name} {info.version} (API {info.api_version}) at {search.found.url}, found by"
        f" {search.found.source}; {info.operating_system or info.os}, cgroup v"
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
