"""The command line of Docker."""

from __future__ import annotations

import subprocess


def docker(*arguments: str) -> str:
    """Return the output of a docker command. Raises `subprocess.CalledProcessError`."""
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=True, timeout=60
    ).stdout
