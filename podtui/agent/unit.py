"""Build the text of the agent's systemd unit. Pure functions.

See `systemd.service(5)` and `systemd.syntax(7)` for the settings and the quoting rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from podtui.settings import (
    SETTINGS,
    Resolved,
    Settings,
    config_words,
    environment_name,
    flag_words,
)

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


def unit_text(
    resolved: Resolved, program: Sequence[str], environ: Mapping[str, str], *, system: bool
) -> str:
    """Build the unit for the effective settings.

    ``program`` is podtui's command line with an absolute path; ``environ`` is the environment with
    settings and the engine's location. The first line has a checksum of the others, for
    `is_edited`.
    """
    settings = resolved.settings
    # systemd expands variables in all words except the program's path.
    words = (_word(word, dollar="$$") for word in (*program[1:], "agent", *_arguments(resolved)))
    command = " ".join((_word(program[0]), *words))
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
        f"Environment={_word(f'{name}={value}')}" for name, value in _carried(resolved, environ)
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


def _carried(resolved: Resolved, environ: Mapping[str, str]) -> list[tuple[str, str]]:
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
