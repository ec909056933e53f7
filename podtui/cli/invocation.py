"""A parsed command line: its settings, its agent, questions to the user, and exit statuses."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Final

from podtui.cli.parser import FLAGS
from podtui.errors import AgentUnavailable
from podtui.private_files import check_root, permission_denied
from podtui.resources import typed_program
from podtui.settings import Resolved, Settings, resolve
from podtui.text.terminal_text import one_line

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_AGENT: Final = 3


def resolved_of(namespace: argparse.Namespace) -> Resolved:
    """Return the settings with their origins. Raises `podtui.errors.SettingsError`."""
    return resolve({key: getattr(namespace, key) for key in FLAGS}, config=namespace.config)


def settings_of(namespace: argparse.Namespace) -> Settings:
    """Return the settings. Raises `podtui.errors.SettingsError`."""
    return resolved_of(namespace).settings


def socket_of(namespace: argparse.Namespace) -> Path:
    """Return the agent's socket. Raises `AgentUnavailable` if there is none, and `RootDenied`."""
    settings = settings_of(namespace)
    try:
        check_root(settings.rootDir)
        exists = settings.socket_path.exists()
    except FileNotFoundError:
        exists = False
    except PermissionError as error:
        raise permission_denied(settings.rootDir) from error
    if not exists:
        start = f"{typed_program()}{root_words(namespace, settings)}"
        raise AgentUnavailable(f"no agent is running for {settings.rootDir}; '{start}' starts one")
    return settings.socket_path


def root_words(namespace: argparse.Namespace, settings: Settings) -> str:
    """Return the root-dir option as typed after ``podtui``; empty if it is the default."""
    return "" if namespace.rootDir is None else f" --root-dir {shlex.quote(str(settings.rootDir))}"


def confirm(question: str) -> bool:
    """Return whether the user answers yes; end of input counts as no."""
    try:
        return input(f"{one_line(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
