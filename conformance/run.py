"""Run the cases: one agent per mode, several cases at a time, the longest first."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.compare import Difference
from conformance.drive import Driver, Outcome
from conformance.golden import NODE, Case
from conformance.images import images
from conformance.mirror import compare_node
from conformance.report import STRICT, Result, Results, evaluate
from conformance.site import Site, site

AT_ONCE: Final = 12
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Found:
    """``results`` by case, one for each mode; ``node`` are the differences of the node object."""

    results: Results
    node: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        return not self.node and all(one.passed for each in self.results.values() for one in each)


async def _mode(
    cases: Sequence[Case], *, strict: bool, at_once: int, engine: str, report: Report
) -> tuple[dict[str, Outcome], tuple[Difference, ...]]:
    gate = asyncio.Semaphore(at_once)
    outcomes: dict[str, Outcome] = {}

    async def drive(case: Case, place: Site) -> None:
        async with gate:
            begun = time.monotonic()
            outcome = outcomes[case.name] = await Driver(case, place).run()
            took = time.monotonic() - begun
        report(f"{case.name}: {len(outcome.differences)} lines differ, {took:.0f} s")

    with tempfile.TemporaryDirectory(prefix="podtui-conformance-") as base:
        async with site(Path(base), strict=strict, engine=engine) as place:
            async with asyncio.TaskGroup() as group:
                for case in sorted(cases, key=lambda one: -one.removed):
                    group.create_task(drive(case, place), name=case.name)
            node = json.loads(await place.witness.get(f"/api/v1/nodes/{NODE}"))
            return outcomes, compare_node(node)


def run(
    cases: Sequence[Case],
    modes: Sequence[str],
    *,
    at_once: int = AT_ONCE,
    engine: str = "auto",
    report: Report = lambda _: None,
) -> Found:
    """Run every case in every mode; call ``report`` for each result.

    A case that differs in another way than listed is repeated once, alone: on a busy machine, short
    intermediate statuses may be missed.

    Raises `podtui.errors.AgentUnavailable` or `SiteFailed` (in a group) if an agent fails.
    """
    results: dict[str, list[Result]] = {case.name: [] for case in cases}
    node: tuple[Difference, ...] = ()
    with images():
        for mode in modes:
            outcomes, node = asyncio.run(
                _mode(cases, strict=mode == STRICT, at_once=at_once, engine=engine, report=report)
            )
            evaluated = {name: evaluate(name, mode, outcome) for name, outcome in outcomes.items()}
            if again := [case for case in cases if not evaluated[case.name].passed]:
                outcomes, _ = asyncio.run(
                    _mode(again, strict=mode == STRICT, at_once=1, engine=engine, report=report)
                )
                evaluated |= {
                    name: evaluate(name, mode, outcome) for name, outcome in outcomes.items()
                }
            for name, result in evaluated.items():
                results[name].append(result)
    return Found(results, node)
