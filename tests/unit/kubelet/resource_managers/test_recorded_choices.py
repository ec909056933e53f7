"""CPUs and NUMA nodes are chosen as by the kubelet: its code (v1.36.2) chose for random topologies.

Each line of ``recorded_choices.jsonl`` is a case and the kubelet's answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from podtui.kubelet.resource_managers.cpu_assignment import (
    NotEnoughCpus,
    take_distributed,
    take_packed,
)
from podtui.kubelet.resource_managers.cpu_topology import Cpu, CpuTopology, NumaNode
from podtui.kubelet.resource_managers.topology_manager import Hint, TopologyManager

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_choices.jsonl").read_text().splitlines()
]


def taken(case: dict[str, Any]) -> dict[str, Any]:
    topology = CpuTopology({int(number): Cpu(*cpu) for number, cpu in case["Cpus"].items()})
    free, count, spread = frozenset(case["Free"]), case["N"], case["Spread"]
    try:
        if case["Kind"] == "dist":
            group = case["Group"]
            cpus = take_distributed(topology, free, count, group=group, spread_cores=spread)
        else:
            align = case["Align"]
            cpus = take_packed(topology, free, count, spread_cores=spread, align_caches=align)
    except NotEnoughCpus as error:
        return {"cpus": [], "err": str(error)}
    return {"cpus": sorted(cpus), "err": ""}


def merged(case: dict[str, Any]) -> dict[str, Any]:
    nodes = tuple(NumaNode(n, 0, {}, tuple(case["Dist"][str(n)])) for n in case["Numa"])
    manager = TopologyManager(case["Policy"], "container", nodes, case["Closest"])

    def hint(given: dict[str, Any]) -> Hint:
        return Hint(None if given["Any"] else frozenset(given["Nodes"]), given["Preferred"])

    best, admitted = manager.merge(
        [{name: [*map(hint, hints)] for name, hints in one.items()} for one in case["Hints"]]
    )
    chosen = sorted(best.nodes) if best.nodes is not None else None
    return {"nodes": chosen, "preferred": best.preferred, "admit": admitted}


def test_cpus_are_taken_as_by_the_kubelet() -> None:
    cases = [case for case in CASES if case["Kind"] != "merge"]
    wrong = [case for case in cases if taken(case) != case["want"]]
    assert not wrong, wrong[0]
    assert len(cases) > 100


def test_hints_are_merged_as_by_the_kubelet() -> None:
    cases = [case for case in CASES if case["Kind"] == "merge"]
    wrong = [case for case in cases if merged(case) != case["want"]]
    assert not wrong, wrong[0]
    assert len(cases) > 100
