"""Detect agents whose containers would have the same names: another root directory, but the same
engine, folder and node name."""

from __future__ import annotations

import logging
import os
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from podtui.agent.lock import is_held
from podtui.api.names import MANIFEST_PATH
from podtui.errors import AgentClash
from podtui.private_files import RootDenied
from podtui.resources import typed_program
from podtui.runtime.interceptor import RuntimeInterceptor
from podtui.runtime.protocol import EngineInfo, ForeignSandbox, Runtime
from podtui.settings import Settings

_LOG = logging.getLogger(__name__)


class Owner(StrEnum):
    """State of the agent of a root directory."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"
    """The root directory does not exist, or its path is not known."""


@dataclass(frozen=True, slots=True)
class Clash:
    """The pods of one other root directory that have the names of this agent's pods."""

    root_dir: str
    owner: Owner
    pods: tuple[str, ...]


def find_clashes(
    foreign: Sequence[ForeignSandbox],
    folder: str,
    node_name: str,
    owner_of: Callable[[str], Owner],
) -> tuple[Clash, ...]:
    """Find pods of other root directories that come from the same manifest folder and node name.

    A container's name contains the pod's name and UID, which derive from manifest, path and node
    name.
    """
    suffix = f"-{node_name.lower()}"
    pods: dict[str, set[str]] = {}
    for sandbox in foreign:
        manifest = sandbox.record.annotations.get(MANIFEST_PATH, "")
        if sandbox.record.name.endswith(suffix) and folder in (manifest, os.path.dirname(manifest)):
            pods.setdefault(sandbox.root_dir, set()).add(sandbox.record.name)
    return tuple(
        Clash(root_dir, owner_of(root_dir), tuple(sorted(pod_names)))
        for root_dir, pod_names in sorted(pods.items())
    )


def owner_of(root_dir: str) -> Owner:
    """Return the state of the agent of a root directory on this machine."""
    try:
        if not root_dir or not stat.S_ISDIR(os.stat(root_dir).st_mode):
            return Owner.GONE
        held = is_held(Path(root_dir) / "podtui.lock")
    except (FileNotFoundError, NotADirectoryError):
        return Owner.GONE
    except (PermissionError, RootDenied):
        # The directory of another user, whose agent may run.
        return Owner.RUNNING
    return Owner.RUNNING if held else Owner.STOPPED


def explain(clash: Clash, settings: Settings) -> str:
    """Describe the clash and its remedy."""
    podtui = typed_program()
    root = f"--root-dir {shlex.quote(clash.root_dir)}"
    pods = f"{len(clash.pods)} pods" if len(clash.pods) > 1 else f"pod {', '.join(clash.pods)}"
    other = f"root directory {clash.root_dir}" if clash.root_dir else "another root directory"
    has = f"has {pods} of {settings.staticPodPath} on this engine, as node {settings.nodeName}"
    rename = "start this agent with another --node-name"
    match clash.owner:
        case Owner.RUNNING:
            return (
                f"another agent ({other}) {has}: container names would conflict; {rename}, or stop"
                f" the other agent and remove its containers: {podtui} down {root}"
            )
        case Owner.STOPPED:
            return (
                f"a stopped agent ({other}) still {has}: these pods cannot start here; take over"
                f" its containers ({podtui} {root}), remove them ({podtui} down {root}), or"
                f" {rename}"
            )
        case Owner.GONE:
            remove = f": {podtui} down {root}" if clash.root_dir else ""
            return (
                f"an agent whose root directory no longer exists ({other}) still {has}: these pods"
                f" cannot start here; remove its containers{remove}, or {rename}"
            )


class _Guarded(RuntimeInterceptor):
    """A runtime that does not connect while a running agent's containers clash."""

    def __init__(
        self, runtime: Runtime, settings: Settings, on_clash: Callable[[AgentClash], None]
    ) -> None:
        super().__init__(runtime)
        self._settings = settings
        self._on_clash = on_clash
        self._checked = False

    async def connect(self) -> EngineInfo:
        info = await self._runtime.connect()
        if not self._checked:
            self._check(await self._runtime.list_foreign())
            self._checked = True
        return info

    def _check(self, foreign: Sequence[ForeignSandbox]) -> None:
        settings = self._settings
        folder = str(settings.staticPodPath)
        for clash in find_clashes(foreign, folder, settings.nodeName, owner_of):
            text = explain(clash, settings)
            if clash.owner is Owner.RUNNING:
                error = AgentClash(text)
                self._on_clash(error)
                raise error
            _LOG.warning("%s", text)


def guarded(
    runtime: Runtime, settings: Settings, on_clash: Callable[[AgentClash], None]
) -> Runtime:
    """Wrap the runtime so that its first connection checks for clashing agents.

    If a clashing agent runs, ``on_clash`` is called with the error and the connection fails;
    clashes with stopped agents are only logged.
    """
    return _Guarded(runtime, settings, on_clash)
