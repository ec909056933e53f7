"""``python -m benchmarks [NAME …]``: run the benchmarks, print their tables, save them with
``--write``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.report import Absent, Row, markdown, replaced

TARGET = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
ALL = {
    "pods": ("benchmarks.pods", "measure"),
    "idle": ("benchmarks.pods", "idle"),
    "scale": ("benchmarks.scale", "measure"),
    "api": ("benchmarks.api", "measure"),
    "workloads": ("benchmarks.workloads", "measure"),
    "play": ("benchmarks.play", "measure"),
    "services": ("benchmarks.services", "measure"),
    "names": ("benchmarks.names", "measure"),
    "paint": ("benchmarks.paint", "measure"),
    "keys": ("benchmarks.keys", "measure"),
    "resting": ("benchmarks.resting", "measure"),
    "logs": ("benchmarks.logs", "measure"),
    "viewers": ("benchmarks.viewers", "measure"),
    "following": ("benchmarks.following", "measure"),
    "beside": ("benchmarks.beside", "measure"),
    "cli": ("benchmarks.cli", "measure"),
}
"""In the order of execution; each has a place of its name in the document."""


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()},"
        f" Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--quick", action="store_true", help="few runs, for a first impression")
    parser.add_argument("--write", action="store_true", help=f"put them into docs/{TARGET.name}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    measured = dict[str, list[Row | Absent]]()
    for name in arguments.names or ALL:
        module, function = ALL[name]
        print(f"… {name}", file=sys.stderr, flush=True)
        rows = getattr(importlib.import_module(module), function)(quick=arguments.quick)
        measured[name] = rows
        print(f"\n{markdown(rows)}\n", flush=True)
        if arguments.write:
            write({name: rows})
    print(conditions())
    every = [row for rows in measured.values() for row in rows]
    return 1 if any(isinstance(row, Row) and row.verdict == "MISSED" for row in every) else 0


def conditions() -> str:
    """Return the machine and the time of the run."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{machine()}; load at the end {load}; {datetime.now(UTC):%Y-%m-%d}."


def write(measured: Mapping[str, Sequence[Row | Absent]]) -> None:
    """Write tables to their places, each as soon as it is complete. Raises LookupError if the
    document has no place for one."""
    document = TARGET.read_text(encoding="utf-8")
    for name, rows in measured.items():
        document = replaced(document, name, f"{markdown(rows)}\n\n{conditions()}")
    TARGET.write_text(document, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
