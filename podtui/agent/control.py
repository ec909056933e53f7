"""Start, find and stop an agent, from another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from podtui import private_files
from podtui.agent.lock import LastSettings, is_held, last_agent, last_settings, read_agent
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.private_files import open_private
from podtui.settings import SETTINGS, Settings, flag_words


class AgentFailed(PodtuiError):
    """Raised when an agent could not be started or stopped; the text says where to find details."""


def prepare_root(settings: Settings) -> None:
    """Create the root directory, accessible only to its owner, or check it. Raises `RootDenied` and
    `AgentFailed`."""
    try:
        private_files.prepare_root(settings.rootDir)
    except OSError as error:
        raise AgentFailed(f"cannot make the root directory {settings.rootDir}: {error}") from error


def start_background(settings: Settings, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start an agent in its own session, so that it outlives this process.

    ``arguments`` follow ``podtui agent``. The agent logs to ``agent.log`` in the root directory.
    """
    prepare_root(settings)
    log = open_private(settings.agent_log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "podtui", "agent", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
    finally:
        os.close(log)


def wait_ready(settings: Settings, *, timeout: float, child: subprocess.Popen[bytes]) -> None:
    """Wait until the agent answers. Raises `AgentFailed`, with the end of the log if the agent has
    ended."""
    # Imported here because the screen imports this module, too, and must start fast.
    from podtui.client.blocking import get_json

    deadline = time.monotonic() + timeout
    while True:
        try:
            get_json(settings.socket_path, "/version", timeout=1.0)
        except (AgentUnavailable, ApiError):
            if child.poll() is not None:
                raise AgentFailed(
                    f"the agent ended with status {child.returncode}:\n"
                    + tail(settings.agent_log_path)
                ) from None
            if time.monotonic() > deadline:
                raise AgentFailed(
                    f"the agent does not answer; see {settings.agent_log_path}"
                ) from None
            time.sleep(0.05)
        else:
            return


def stop(settings: Settings, *, timeout: float = 30.0) -> bool:
    """Stop the agent; its containers keep running. Return False if none ran. Raises
    `AgentFailed`."""
    if not is_held(settings.lock_path):
        return False
    deadline = time.monotonic() + timeout
    signalled = False
    while is_held(settings.lock_path):
        record = read_agent(settings.lock_path)
        if record is not None and not signalled:
            try:
                os.kill(record.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
            except PermissionError as error:
                raise AgentFailed(f"process {record.pid} belongs to another user") from error
            signalled = True
        if time.monotonic() > deadline:
            raise AgentFailed(f"the agent did not end within {timeout:.0f} s")
        time.sleep(0.02)
    return True


class AgentProcess:
    """The agent of one root directory, started and restarted by a screen. ``arguments`` follow
    ``podtui agent``. All methods block."""

    def __init__(
        self,
        settings: Settings,
        arguments: Sequence[str],
        child: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._settings = settings
        self._arguments = list(arguments)
        self.child = child
        """The agent that this process started last; None if it was already running."""

    @property
    def problem(self) -> str:
        """The end of the log if the agent started here has ended, else empty."""
        child = self.child
        if child is None or child.poll() is None:
            return ""
        log = self._settings.agent_log_path
        return tail(log).strip() or f"it ended with status {child.returncode}; see {log}"

    @property
    def crashed(self) -> bool:
        """True if the agent started here was killed or failed, and no other runs."""
        failed = self.child is not None and self.child.poll() not in (None, 0)
        return failed and not is_held(self._settings.lock_path)

    def start(self, named: Collection[str] = ()) -> None:
        """Start the agent if none runs. If the last agent was killed, start with its settings,
        except those in ``named``. Raises `AgentFailed`."""
        if is_held(self._settings.lock_path):
            return
        killed = last_agent(self._settings.lock_path)
        last = last_settings(self._settings.lock_path) if killed is not None else None
        self._start(last, named)

    def restart(self, folder: str = "") -> None:
        """Start the agent if none runs, with the settings of the last one. With ``folder``, stop
        the running agent and start one that watches that folder. Raises `AgentFailed`."""
        if folder:
            stop(self._settings)
        elif is_held(self._settings.lock_path):
            return
        self._start(last_settings(self._settings.lock_path), folder=folder)

    def _start(
        self, last: LastSettings | None, named: Collection[str] = (), *, folder: str = ""
    ) -> None:
        arguments = list(self._arguments)
        if last is not None:
            settings = replace(
                self._settings,
                staticPodPath=Path(last.staticPodPath),
                nodeName=last.nodeName,
                engine=last.engine,
                nodeKubeconfig=Path(last.nodeKubeconfig) if last.nodeKubeconfig else None,
            )
            others = SETTINGS.keys() - LastSettings.__struct_fields__
            arguments += flag_words(settings, without=others | frozenset(named))
        if folder:
            arguments.append(f"--static-pod-path={folder}")
        self.child = start_background(self._settings, arguments)


def tail(path: Path, lines: int = 20) -> str:
    """Return the last lines of a log file; empty if it cannot be read."""
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
