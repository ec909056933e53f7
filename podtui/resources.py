"""Where podtui itself lies: its program, and the files that ship with it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program() -> list[str]:
    """The absolute argv that is this podtui."""
    script = Path(sys.executable).with_name("podtui")
    if os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-P", "-m", "podtui"]


def typed_program() -> str:
    """What to type in the user's shell to run this podtui again: ``podtui`` where PATH leads to it,
    else the path that it was started by."""
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
    """The folder ``themes``, ``static_pods`` or ``templates``. Raises FileNotFoundError."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}: not in this installation of podtui")
