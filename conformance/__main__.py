"""``python -m conformance [CASE …]``: run the cases, print the table and the differences."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from conformance.golden import ROOT, load
from conformance.report import MODES, as_json, document, rows, summary, text_table
from conformance.run import AT_ONCE, Found, run
from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import EngineInfo

TARGET: Final = ROOT / "docs" / "golden.md"


async def _engine() -> EngineInfo:
    runtime = DockerRuntime(None, root="conformance", clock=SystemClock())
    try:
        return await runtime.connect()
    finally:
        await runtime.close()


def unavailable(engine: EngineInfo) -> dict[str, str]:
    """Return the cases that the engine cannot run, by its capabilities, with the reason."""
    if not engine.supports_memory_limit:
        return {"oom": "the engine limits no memory"}
    if not engine.reports_oom:
        return {"oom": "the engine does not report containers that ran out of memory"}
    return {}


def _report(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def _print(found: Found) -> None:
    for name, results in sorted(found.results.items()):
        for one in results:
            if not one.passed:
                print(f"{name}, {one.mode}: {one.verdict}")
                for difference in one.bad:
                    print(f"    {difference}")
    for difference in found.node:
        print(f"    {difference}")
    print(f"\n{text_table(rows(found.results))}\n\n{summary(found.results)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: both")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="cases at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--write", action="store_true", help=f"write docs/{TARGET.name}")
    arguments = parser.parse_args()
    known = {case.name: case for case in load()}
    if unknown := set(arguments.cases) - set(known):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if arguments.write and (arguments.cases or arguments.mode):
        parser.error("--write wants all cases in both modes")
    lacking = unavailable(asyncio.run(_engine()))
    if arguments.write and lacking:
        parser.error(f"--write wants an engine that can do {', '.join(lacking)}")
    cases = [known[name] for name in arguments.cases or known if name not in lacking]
    for name, reason in lacking.items():
        _report(f"{name}: unavailable, {reason}")
    if not cases:
        return 0
    found = run(cases, arguments.mode or MODES, at_once=arguments.at_once, report=_report)
    _print(found)
    if arguments.json:
        arguments.json.write_text(as_json(found.results, found.node))
    if arguments.write:
        TARGET.write_text(document(found.results, found.node))
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main())
