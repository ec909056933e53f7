"""``python -m benchmarks [NAME …]``: run them, print the table, keep it with ``--write``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.report import Row, markdown

TARGET = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
ALL = {
    "pods": ("benchmarks.pods", "measure"),
    "idle": ("benchmarks.pods", "idle"),
    "scale": ("benchmarks.scale", "measure"),
    "tui": ("benchmarks.screen", "measure"),
    "logs": ("benchmarks.logs", "measure"),
    "cli": ("benchmarks.cli", "measure"),
}


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()},"
        f" Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--quick", action="store_true", help="few runs, for a look")
    parser.add_argument("--write", action="store_true", help=f"write docs/{TARGET.name}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ALL)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    for name in arguments.names or ALL:
        module, function = ALL[name]
        print(f"… {name}", file=sys.stderr, flush=True)
        rows += getattr(importlib.import_module(module), function)(quick=arguments.quick)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    table = markdown(rows)
    print(f"\n{machine()}; load {load}; {when}\n\n{table}")
    if arguments.write:
        TARGET.write_text(
            "# Performance\n\n"
            "Written by `make bench` (`python -m benchmarks --write`). Each figure is the median of"
            " its runs, each ratio is to a floor measured in the same run; the machine is shared,"
            " so trust the ratios and not the seconds.\n\n"
            f"Machine: {machine()}. Date: {when}.\n\n{table}\n"
        )
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
