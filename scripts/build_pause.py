"""Assemble the pause program for each architecture whose tools are installed.

``podtui/runtime/docker/pause/pause_ARCH.S`` becomes ``pause_ARCH``: a static ELF file of a few
hundred bytes, committed next to its source. Tools: GNU ``as`` and ``objcopy``, native (Debian's
``binutils``) or cross (``binutils-x86-64-linux-gnu``, ``binutils-aarch64-linux-gnu``). The header
is part of the source, so no linker is needed and every version of the tools yields the same bytes.

``--check`` writes nothing and exits 1 if a committed file differs from the output of its source.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "podtui" / "runtime" / "docker" / "pause"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def tools(architecture: str) -> tuple[str, str] | None:
    """Return the paths of ``as`` and ``objcopy`` for an architecture, or None."""
    machine = MACHINES[architecture]
    prefix = "" if platform.machine() == machine else f"{machine}-linux-gnu-"
    found = [shutil.which(prefix + name) for name in ("as", "objcopy")]
    return (found[0], found[1]) if found[0] and found[1] else None


def assemble(architecture: str) -> bytes | None:
    """Return the program's bytes; None if the tools are missing."""
    commands = tools(architecture)
    if commands is None:
        return None
    assembler, objcopy = commands
    with tempfile.TemporaryDirectory() as folder:
        object_file = Path(folder) / "pause.o"
        binary = Path(folder) / "pause"
        source = FOLDER / f"pause_{architecture}.S"
        subprocess.run([assembler, "-o", object_file, source], check=True)
        subprocess.run(
            [objcopy, "-O", "binary", "--only-section=.text", object_file, binary], check=True
        )
        return binary.read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check: bool = parser.parse_args().check
    stale = False
    for architecture in MACHINES:
        program = assemble(architecture)
        path = FOLDER / f"pause_{architecture}"
        if program is None:
            print(f"{path.name}: no assembler for {architecture} here, left alone")
            continue
        same = path.exists() and path.read_bytes() == program
        if not check and not same:
            path.write_bytes(program)
            path.chmod(0o755)
        stale |= check and not same
        print(f"{path.name}: {len(program)} bytes, {'as committed' if same else 'changed'}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
