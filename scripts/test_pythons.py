#!/usr/bin/env python3
"""Run the unit tests on the installed Python versions that podtui supports.

Without arguments: on every version found. ``--newest``: only on the newest one, and on none if that
is the version which runs this script. Each version has its virtual environment under
``.cache/pythons/``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST, LAST = 11, 14
REQUIREMENTS = ROOT / "requirements-dev.txt"
ASK = "import sys; print(*sys.version_info[:2], sys.executable)"


def candidates(minor: int) -> list[str]:
    """Return the commands and paths under which Python 3.``minor`` is usually installed."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    return [name, *map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/{name}")))]


def found() -> dict[int, str]:
    """Return the interpreters by minor version. A command of another version is ignored."""
    interpreters: dict[int, str] = {}
    for minor in range(FIRST, LAST + 1):
        for command in candidates(minor):
            try:
                answer = subprocess.run([command, "-c", ASK], capture_output=True, text=True)
            except OSError:
                continue
            version, _, path = answer.stdout.strip().rpartition(" ")
            if answer.returncode == 0 and version == f"3 {minor}":
                interpreters[minor] = path
                break
    return interpreters


def environment(minor: int, interpreter: str) -> Path:
    """Return a virtual environment with podtui and its test dependencies; it is kept until those
    change."""
    place = ROOT / ".cache" / "pythons" / f"3.{minor}"
    mark = place / "requirements"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not mark.is_file() or mark.read_text() != wanted:
        subprocess.run([interpreter, "-m", "venv", "--clear", place], check=True)
        pip = [place / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", REQUIREMENTS], check=True)
        subprocess.run([*pip, "--no-deps", "-e", ROOT], check=True)
        mark.write_text(wanted)
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newest", action="store_true", help="run on the newest version only")
    options = parser.parse_args()
    interpreters = found()
    if not interpreters:
        sys.exit(f"No Python from 3.{FIRST} to 3.{LAST} is installed.")
    minors = sorted(interpreters)
    if options.newest:
        minors = [minor for minor in minors[-1:] if minor != sys.version_info.minor]
    failed: list[int] = []
    for minor in minors:
        print(f"Python 3.{minor}: {interpreters[minor]}", flush=True)
        place = environment(minor, interpreters[minor])
        workers = str(os.cpu_count() or 1)
        pytest = [place / "bin/pytest", "-q", "tests/unit", "tests/contract", "-m", "not engine"]
        # Another version needs the same tests, not the same number of examples.
        variables = {**os.environ, "HYPOTHESIS_PROFILE": "quick"}
        command = [*pytest, "-n", workers, "--dist", "worksteal"]
        if subprocess.run(command, cwd=ROOT, env=variables).returncode:
            failed.append(minor)
    missing = [f"3.{minor}" for minor in range(FIRST, LAST + 1) if minor not in interpreters]
    if missing:
        print(f"Not installed here, so not tried: {', '.join(missing)}")
    if failed:
        print(f"Failed on: {', '.join(f'3.{minor}' for minor in failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
