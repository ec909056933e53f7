"""systemd: the text of the agent's unit, its installation, and the state of the machine.

See `systemd.service(5)` and `systemd.syntax(7)` for the settings and the quoting rules.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.agent.lock import read_agent
from podtui.errors import PodtuiError
from podtui.resources import typed_program
from podtui.settings import (
    SETTINGS,
    Resolved,
    Settings,
    config_words,
    environment_name,
    flag_words,
)

_LOG = logging.getLogger(__name__)
STATE_SECONDS: Final = 5.0
NAME: Final = "podtui.service"
LEAST_STOP_SECONDS: Final = 90
STOP_MARGIN: Final = 30
"""Seconds to add to the pods' grace periods for the agent itself."""
ENGINE_VARIABLES: Final = (
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
)
"""Variables with the location of the engine and its credentials."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_SEAL: Final = re.compile(r"# Written by 'podtui service', sha256 ([0-9a-f]{64})\n")
BOOTED: Final = Path("/run/systemd/system")
"""This directory exists if systemd is the init system; see `sd_booted(3)`."""
_TIMEOUT: Final = 60.0
_STOP_TIMEOUT: Final = 900.0
"""Seconds; systemd itself kills a unit that takes longer than its ``TimeoutStopSec``."""


def unit_text(
    resolved: Resolved, program: Sequence[str], environ: Mapping[str, str], *, system: bool
) -> str:
    """Build the unit for the effective settings.

    ``program`` is podtui's command line with an absolute path; ``environ`` is the environment with
    settings and the engine's location. The first line has a checksum of the others, for
    `is_edited`.
    """
    settings = resolved.settings
    # systemd expands variables in all tokens except the program's path.
    tokens = (_word(word, dollar="$$") for word in (*program[1:], "agent", *_arguments(resolved)))
    command = " ".join((_word(program[0]), *tokens))
    body = [
        "[Unit]",
        "Description=podtui, a kubelet for static pods",
    ]
    if system:
        # Units stop in reverse order, so the agent can still reach the engine when it stops.
        engine = "" if settings.engine == "memory" else "docker.service "
        body += [f"{key}={engine}network-online.target" for key in ("Wants", "After")]
    body += ["", "[Service]"]
    body += [
        f"Environment={_word(f'{name}={value}')}"
        for name, value in _environment_to_keep(resolved, environ)
    ]
    body += [
        f"ExecStart={command}",
        "Restart=on-failure",
        f"TimeoutStopSec={stop_seconds(settings)}",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if system else 'default.target'}",
    ]
    text = "\n".join(body) + "\n"
    return f"# Written by 'podtui service', sha256 {_digest(text)}\n{text}"


def is_edited(text: str) -> bool:
    """Return whether the unit was changed since podtui wrote it, or was not written by podtui."""
    seal = _SEAL.match(text)
    return seal is None or seal[1] != _digest(text[seal.end() :])


def stop_seconds(settings: Settings) -> int:
    """Return systemd's stop timeout for the agent in seconds: longer than the pods' grace
    periods."""
    steps = sum(seconds for _, seconds in settings.shutdownGracePeriodByPodPriority)
    grace = max(settings.shutdownGracePeriod, steps)
    return max(LEAST_STOP_SECONDS, int(grace) + STOP_MARGIN)


def _arguments(resolved: Resolved) -> list[str]:
    """Return the agent's flags. A node name that defaults to the hostname is left out, so that each
    start determines it."""
    by_host = frozenset({"nodeName"} if resolved.origins["nodeName"] == "default" else ())
    return [*flag_words(resolved.settings, without=by_host), *config_words(resolved)]


def _environment_to_keep(resolved: Resolved, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment variables in effect here that a service would not inherit."""
    names = [
        environment_name(key)
        for key, setting in SETTINGS.items()
        if setting.flag is None
        and not setting.screen
        and resolved.origins.get(key) == environment_name(key)
    ]
    if resolved.settings.engine != "memory":
        names += ENGINE_VARIABLES
    return [(name, environ[name]) for name in names if environ.get(name)]


def _word(text: str, *, dollar: str = "$") -> str:
    """Quote a word for a unit line if necessary; ``dollar`` is the replacement for ``$``."""
    if _PLAIN.fullmatch(text):
        return text
    escapes = {'"': '\\"', "\\": "\\\\", "%": "%%", "$": dollar}
    shown = "".join(
        escapes.get(char, char) if char.isprintable() else _hexadecimal(char) for char in text
    )
    return f'"{shown}"'


def _hexadecimal(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def default_folder(environ: Mapping[str, str], *, system: bool) -> Path:
    """Return the unit directory of the machine's or the user's manager."""
    if system:
        return Path("/etc/systemd/system")
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "systemd/user"


def machine_is_stopping(program: str = "systemctl", timeout: float = STATE_SECONDS) -> bool:
    """Return whether the machine is shutting down; False if systemd does not report it or is not
    installed. Blocks for milliseconds."""
    path = shutil.which(program)
    if path is None:
        return False
    try:
        answer = subprocess.run(
            [path, "is-system-running"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("systemd does not report whether the machine is shutting down: %s", error)
        return False
    return answer.stdout.strip() == "stopping"


class ServiceFailed(PodtuiError):
    """Raised if the unit cannot be installed or removed; the text says what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdManager:
    """A systemd manager, of the machine or of one user. ``folder`` is its unit directory;
    ``booted`` is a directory that exists if systemd is the init system."""

    system: bool
    folder: Path
    booted: Path

    @property
    def unit(self) -> Path:
        return self.folder / NAME

    @property
    def command(self) -> str:
        """The start of a command line for this manager."""
        return "systemctl" if self.system else "systemctl --user"

    def call(self, *arguments: str, timeout: float = _TIMEOUT) -> None:
        """Run ``systemctl`` and wait for it. Raises `ServiceFailed`."""
        path = shutil.which("systemctl")
        command = f"{self.command} {' '.join(arguments)}"
        if path is None:
            raise ServiceFailed(f"{command}: systemctl not found")
        try:
            done = subprocess.run(
                [path, *([] if self.system else ["--user"]), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceFailed(f"{command}: {error}") from error
        if done.returncode != 0:
            why = done.stderr.strip() or f"ended with status {done.returncode}"
            raise ServiceFailed(f"{command}: {why}")

    @property
    def is_there(self) -> bool:
        """Return True if systemd is the init system of this machine."""
        return self.booted.is_dir() and shutil.which("systemctl") is not None


def install(manager: SystemdManager, text: str, settings: Settings, *, force: bool) -> list[str]:
    """Write and enable the unit, and start it if no agent serves the root directory yet.

    Return lines for the user: the changes, and how to undo them. A different existing unit is
    replaced only with ``force``. Raises `ServiceFailed`.
    """
    if not manager.is_there:
        raise ServiceFailed(
            "this machine does not run systemd; nothing was installed."
            " 'podtui service print' prints the unit for another machine"
        )
    # Check before writing anything: a user's manager runs only while the user is logged in.
    manager.call("show", "--property=Version")
    before = _read(manager.unit)
    if before is not None and before != text and not force:
        raise ServiceFailed(
            f"{manager.unit} already exists and differs; nothing was changed."
            f" To replace it, use --force:\n{_difference(before, text)}"
        )
    if before != text:
        _write(manager.unit, text)
    messages = [f"{'Unchanged' if before == text else 'Wrote'}: {manager.unit}"]
    try:
        messages += _enable(manager, settings)
    except ServiceFailed as error:
        undo = f"'podtui service remove {_flag(manager)}' removes it"
        raise ServiceFailed(
            f"{error}\n{manager.unit} was written, but is not active; {undo}"
        ) from error
    if not manager.system:
        messages.append("It starts when you log in. To start it at boot: loginctl enable-linger")
    messages.append(f"To undo it: {typed_program()} service remove {_flag(manager)}")
    return messages


def _enable(manager: SystemdManager, settings: Settings) -> list[str]:
    manager.call("daemon-reload")
    agent = read_agent(settings.lock_path)
    if agent is None:
        manager.call("enable", "--now", NAME)
        return [f"Enabled and started: {manager.command} status {NAME}"]
    manager.call("enable", NAME)
    stop = f"{typed_program()} stop --root-dir={settings.rootDir}"
    return [
        f"Enabled, not started: an agent (process {agent.pid}) serves {settings.rootDir}.",
        f"To hand over its pods: {stop} && {manager.command} start {NAME}",
    ]


def remove(manager: SystemdManager, *, force: bool) -> list[str]:
    """Stop and disable the service and delete its unit; the containers keep running.

    Return lines for the user about the changes. A unit that was edited is removed only with
    ``force``. Raises `ServiceFailed`.
    """
    text = _read(manager.unit)
    if text is None:
        return [f"{manager.unit} does not exist: nothing to remove."]
    if is_edited(text) and not force:
        raise ServiceFailed(
            f"{manager.unit} was edited; nothing was changed. To remove it, use --force"
        )
    there = manager.is_there
    if there:
        manager.call("disable", "--now", NAME, timeout=_STOP_TIMEOUT)
    try:
        manager.unit.unlink()
    except OSError as error:
        raise ServiceFailed(f"cannot remove {manager.unit}: {error.strerror}") from error
    if not there:
        return [f"Removed: {manager.unit} (this machine does not run systemd)"]
    manager.call("daemon-reload")
    podtui = typed_program()
    return [
        f"Stopped, disabled and removed: {manager.unit}",
        f"Its containers keep running: '{podtui}' manages them, '{podtui} down' removes them.",
    ]


def _flag(manager: SystemdManager) -> str:
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
            f"cannot write {path}: {error.strerror}. System units require root (sudo);"
            " --user creates a unit of your own"
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
