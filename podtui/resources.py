"""Locations of podtui itself: its program, and the files that ship with it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

WEB_TERMINAL: Final = "podtui-web"
"""The value of ``TERM_PROGRAM`` in a tab of ``podtui web``."""


def program() -> list[str]:
    """Return the argv, with absolute paths, that starts this podtui."""
    script = Path(sys.executable).with_name("podtui")
    if os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-P", "-m", "podtui"]


def typed_program() -> str:
    """Return the shell command that runs this podtui again: ``podtui`` if it is found on PATH,
    otherwise the path by which it was started."""
    first, *rest = program()
    if rest:
        return shlex.join([first, "-m", "podtui"])
    on_path = shutil.which("podtui")
    if on_path is not None and os.path.samefile(on_path, first):
        return "podtui"
    started = sys.argv[0]
    if os.path.exists(started) and os.path.samefile(started, first):
        return shlex.quote(started)
    return shlex.quote(first)


def shipped(name: str) -> Path:
    """Return the folder ``themes``, ``static_pods`` or ``templates``. Raises FileNotFoundError."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}: not in this installation of podtui")
