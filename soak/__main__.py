"""``python -m soak [NAME …]``: inject faults, check the invariants after each, report."""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.__main__ import conditions
from benchmarks.report import replaced
from soak import fuzz
from soak.engine import Engine, isolate
from soak.fault import Fault
from soak.faults import FAULTS
from soak.invariants import Broken, check, drained, settle, snapshot
from soak.report import Result, markdown
from soak.world import World

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
LANES: Final = (
    ("rollouts",),
    ("services",),
    ("kills", "disk", "folder", "clock", "others", "records"),
    ("restarts", "hangs", "waves"),
)
"""Each has its own engine. As many run in parallel as the machine has cores, and one more; in the
short form all."""
FULL_SECONDS: Final = 85 * 60.0
SHORT_SECONDS: Final = 3 * 60.0
LAST_STEP_SECONDS: Final = 900.0
"""Seconds after the time limit for the last step to reach the desired state. In the short form,
each fault makes a step on a machine of any speed."""
_BY_NAME: Final = {fault.name: fault for fault in FAULTS}


def run_fault(
    fault: Fault,
    engine: Engine,
    base: Path,
    seed: int,
    *,
    short: bool,
    seconds: float,
) -> Result:
    """Inject the fault in its own world, up to its count or its time limit."""
    began = time.monotonic()
    planned = fault.short if short else fault.full
    limit = began + seconds
    world = World(base / fault.name, engine, seed)
    done, problem = 0, ""
    with ExitStack() as stack:
        try:
            world.start()
            for number in range(fault.pods):
                world.put(f"p{number}")
            settle(world)
            starts = None if fault.engine_ends else stack.enter_context(world.starts())
            before = snapshot(world)
            for step in fault.run(world, world.chance(fault.name), planned):
                settle(world)
                check(world, before, starts, step.excuse)
                done += step.count
                before = snapshot(world)
                if starts is not None:
                    starts.clear()
                if step.count:
                    print(f"  {fault.name}: {done} of {planned} {fault.unit}", flush=True)
                world.expired = time.monotonic() > limit and (done > 0 or not short)
                if world.expired and not fault.ends_itself:
                    break
            drained(world)
            if (code := world.stop()) != 0:
                raise Broken(f"the agent stops: exit code {code}")
        except (Broken, OSError, TimeoutError, subprocess.SubprocessError) as error:
            problem = f"{error or type(error).__name__}"
    if world.alive:
        world.kill()
    return Result(
        name=fault.name,
        title=fault.title,
        unit=fault.unit,
        done=done,
        planned=planned,
        seconds=time.monotonic() - began,
        checked=fault.checked,
        problem=problem,
    )


def run_lane(names: Sequence[str], base: Path, seed: int, *, short: bool, seconds: float) -> None:
    """Run faults one after another on one engine; write results to ``base/results``. Each gets its
    share of the time that is left."""
    deadline = time.monotonic() + seconds
    # Each damaged file that is opened here would be reported.
    logging.getLogger("podtui").setLevel(logging.CRITICAL)
    engine = Engine(base / "engine")
    engine.start()
    try:
        engine.load_image()
        with (base / "results").open("a") as results:
            for number, name in enumerate(names):
                fault = _BY_NAME[name]
                share = fault.seconds / sum(_BY_NAME[other].seconds for other in names[number:])
                result = run_fault(
                    fault,
                    engine,
                    base,
                    seed,
                    short=short,
                    seconds=(deadline - time.monotonic()) * share,
                )
                print(f"{name}: {result.verdict} {result.problem}", flush=True)
                results.write(json.dumps(asdict(result)) + "\n")
                results.flush()
    finally:
        engine.stop()


def run(
    names: Sequence[str], seed: int, *, short: bool, seconds: float, keep: Path | None
) -> list[Result]:
    """Run the lanes and the fuzzing in parallel; return results in the order of `FAULTS`."""
    results: list[Result] = []
    deadline = time.monotonic() + seconds

    def start(command: Sequence[str]) -> None:
        left = deadline - time.monotonic()
        options = [f"--seed={seed}", f"--seconds={left}", *(["--short"] if short else [])]
        # An ended lane has no result of the fault that it was at.
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", *command, *options],
                timeout=max(0.0, left) + LAST_STEP_SECONDS,
                check=False,
            )

    with ExitStack() as stack:
        base = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podtui-soak-")))
        commands: list[list[str]] = []
        lanes = [[name for name in lane if name in names] for lane in LANES]
        for number, lane in enumerate(filter(None, lanes)):
            folder = base / f"lane{number}"
            folder.mkdir(parents=True)
            commands.append(["soak", *lane, "--lane", str(folder)])
        if "fuzz" in names:
            for number, lane in enumerate(fuzz.LANES):
                commands.append(["soak.fuzz", *lane, "--out", str(base / f"fuzz{number}")])
        parallel = len(commands) if short else (os.cpu_count() or 1) + 1
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(start, commands))
        for path in sorted(base.glob("lane*/results")) + sorted(base.glob("fuzz*")):
            results += [Result(**json.loads(line)) for line in path.read_text().splitlines()]
    order = [*_BY_NAME, *fuzz.NAMES]
    found = {result.name for result in results}
    expected = [name for name in names if name != "fuzz"]
    expected += fuzz.NAMES if "fuzz" in names else []
    results += [
        Result(name=name, title=name, unit="", done=0, planned=1, seconds=0,
               problem="no result: it was ended, or failed before its end")
        for name in expected if name not in found
    ]  # fmt: skip
    return sorted(results, key=lambda one: order.index(one.name))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    every = [*_BY_NAME, "fuzz"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(every))
    parser.add_argument("--short", action="store_true", help="the form that takes 3 minutes")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--write", action="store_true", help=f"put results into docs/{TARGET.name}")
    parser.add_argument("--seconds", type=float, help="the time limit of the run")
    parser.add_argument("--keep", type=Path, help="keep logs and state in this new directory")
    parser.add_argument("--lane", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or every
    if unknown := set(names) - set(every):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    seconds = arguments.seconds or (SHORT_SECONDS if arguments.short else FULL_SECONDS)
    if arguments.lane is not None:
        isolate(sys.argv[1:])
        run_lane(names, arguments.lane, arguments.seed, short=arguments.short, seconds=seconds)
        return 0
    if os.geteuid() != 0:
        parser.error("needs root: it starts engines of its own")
    print(f"seed {arguments.seed}", flush=True)
    began = time.monotonic()
    results = run(
        names,
        arguments.seed,
        short=arguments.short,
        seconds=seconds,
        keep=arguments.keep,
    )
    table = markdown(results)
    took = f"Seed {arguments.seed}, {(time.monotonic() - began) / 60:.1f} minutes. {conditions()}"
    print(f"\n{table}\n\n{took}")
    for one in results:
        if one.problem:
            print(f"\n{one.name} (seed {arguments.seed}): {one.problem}")
    if arguments.write:
        document = replaced(TARGET.read_text(encoding="utf-8"), "soak", f"{table}\n\n{took}")
        TARGET.write_text(document, encoding="utf-8")
    return 1 if any(one.problem for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
