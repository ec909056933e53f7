"""Detect with systemd whether the machine is shutting down."""

from __future__ import annotations

import logging
import shutil
import subprocess
from typing import Final

_LOG = logging.getLogger(__name__)
_PATIENCE: Final = 5.0


def machine_is_stopping(program: str = "systemctl") -> bool:
    """Return whether the machine is shutting down; False if systemd does not report it or is not
    installed. Blocks for milliseconds."""
    path = shutil.which(program)
    if path is None:
        return False
    try:
        found = subprocess.run(
            [path, "is-system-running"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("systemd does not tell whether the machine goes down: %s", error)
        return False
    return found.stdout.strip() == "stopping"
