"""Install, enable and remove the agent's systemd unit."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.agent.lock import read_agent
from podtui.agent.unit import NAME, is_edited
from podtui.errors import PodtuiError
from podtui.resources import typed_program
from podtui.settings import Settings

BOOTED: Final = Path("/run/systemd/system")
"""This directory exists if systemd is the init system; see `sd_booted(3)`."""
_PATIENCE: Final = 60.0
_STOP_PATIENCE: Final = 900.0
"""Seconds; systemd itself kills a unit that takes longer than its ``TimeoutStopSec``."""


class ServiceFailed(PodtuiError):
    """Raised if the unit cannot be installed or removed; the text says what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A systemd manager, of the machine or of one user. ``folder`` is its unit directory;
    ``booted`` is a directory that exists if systemd is the init system."""

    system: bool
    folder: Path
    booted: Path

    @property
    def unit(self) -> Path:
        return self.folder / NAME

    @property
    def words(self) -> str:
        """The start of a command line for this manager."""
        return "systemctl" if self.system else "systemctl --user"

    def call(self, *arguments: str, patience: float = _PATIENCE) -> None:
        """Run ``systemctl`` and wait for it. Raises `ServiceFailed`."""
        path = shutil.which("systemctl")
        said = f"{self.words} {' '.join(arguments)}"
        if path is None:
            raise ServiceFailed(f"{said}: there is no systemctl")
        try:
            done = subprocess.run(
                [path, *([] if self.system else ["--user"]), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceFailed(f"{said}: {error}") from error
        if done.returncode != 0:
            why = done.stderr.strip() or f"ended with status {done.returncode}"
            raise ServiceFailed(f"{said}: {why}")

    @property
    def is_there(self) -> bool:
        """Return True if systemd is the init system of this machine."""
        return self.booted.is_dir() and shutil.which("systemctl") is not None


def install(manager: Manager, text: str, settings: Settings, *, force: bool) -> list[str]:
    """Write and enable the unit, and start it if no agent serves the root directory yet.

    Return lines that tell what was done and how to undo it. A different existing unit is replaced
    only with ``force``. Raises `ServiceFailed`.
    """
    if not manager.is_there:
        raise ServiceFailed(
            "systemd does not run this machine: nothing was installed."
            " 'podtui service print' writes the unit, for another machine"
        )
    # Check before writing anything: a user's manager runs only while the user is logged in.
    manager.call("show", "--property=Version")
    before = _read(manager.unit)
    if before is not None and before != text and not force:
        raise ServiceFailed(
            f"{manager.unit} is there and differs; nothing was changed."
            f" --force overwrites it:\n{_difference(before, text)}"
        )
    if before != text:
        _write(manager.unit, text)
    said = [f"{'Unchanged' if before == text else 'Wrote'}: {manager.unit}"]
    try:
        said += _enable(manager, settings)
    except ServiceFailed as error:
        undo = f"'podtui service remove {_flag(manager)}' takes it away"
        raise ServiceFailed(
            f"{error}\n{manager.unit} is written, but not in force; {undo}"
        ) from error
    if not manager.system:
        said.append("It starts when you log in. With the machine: loginctl enable-linger")
    said.append(f"To undo it: {typed_program()} service remove {_flag(manager)}")
    return said


def _enable(manager: Manager, settings: Settings) -> list[str]:
    manager.call("daemon-reload")
    agent = read_agent(settings.lock_path)
    if agent is None:
        manager.call("enable", "--now", NAME)
        return [f"Enabled and started: {manager.words} status {NAME}"]
    manager.call("enable", NAME)
    stop = f"{typed_program()} stop --root-dir={settings.rootDir}"
    return [
        f"Enabled, not started: an agent (process {agent.pid}) serves {settings.rootDir}.",
        f"To hand its pods over: {stop} && {manager.words} start {NAME}",
    ]


def remove(manager: Manager, *, force: bool) -> list[str]:
    """Stop and disable the service and delete its unit; the containers keep running.

    Return lines that tell what was done. A unit that was edited is removed only with ``force``.
    Raises `ServiceFailed`.
    """
    text = _read(manager.unit)
    if text is None:
        return [f"There is no {manager.unit}: nothing to remove."]
    if is_edited(text) and not force:
        raise ServiceFailed(
            f"{manager.unit} is not as podtui wrote it; nothing was changed. --force removes it"
        )
    there = manager.is_there
    if there:
        manager.call("disable", "--now", NAME, patience=_STOP_PATIENCE)
    try:
        manager.unit.unlink()
    except OSError as error:
        raise ServiceFailed(f"cannot remove {manager.unit}: {error.strerror}") from error
    if not there:
        return [f"Removed: {manager.unit} (systemd does not run here)"]
    manager.call("daemon-reload")
    podtui = typed_program()
    return [
        f"Stopped, disabled and removed: {manager.unit}",
        f"Its containers run on. '{podtui}' takes them over again, '{podtui} down' removes them.",
    ]


def _flag(manager: Manager) -> str:
    return "--system" if manager.system else "--user"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServiceFailed(f"cannot read {path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    passing = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        passing.write_text(text, encoding="utf-8")
        passing.chmod(0o644)
        passing.replace(path)
    except PermissionError as error:
        raise ServiceFailed(
            f"cannot write {path}: {error.strerror}. The machine's units are root's (sudo);"
            " --user makes one of your own"
        ) from error
    except OSError as error:
        raise ServiceFailed(f"cannot write {path}: {error.strerror}") from error
    finally:
        passing.unlink(missing_ok=True)


def _difference(before: str, after: str) -> str:
    lines: Sequence[str] = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), "there", "would be", lineterm="", n=1
        )
    )
    return "\n".join(lines)
