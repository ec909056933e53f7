"""Command lines of programs that take over the terminal they are started on."""

from __future__ import annotations

import sys
from typing import Final

_OWN: Final = (
    "import fcntl, os, sys, termios;"
    " fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)


def owning(*words: str) -> list[str]:
    """Start a program as `podtui.web.child` does, so that it receives hang-ups and sizes."""
    return [sys.executable, "-S", "-c", _OWN, *words]
