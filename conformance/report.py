"""The results as a table, lines that differ, JSON, and ``docs/golden.md``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.compare import ASPECTS, Difference
from conformance.departures import DEPARTURES, departure
from conformance.drive import Outcome
from conformance.rules import (
    FLEETING,
    LEAVES,
    MASKS,
    MIRROR_LEAVES,
    MIRROR_MASKS,
    REPEATS,
    UNORDERED,
)

STRICT: Final = "strict"
MODES: Final = ("default", STRICT)
SAME: Final = "="
OTHER: Final = "≠"


@dataclass(frozen=True, slots=True)
class Result:
    """One case in one mode. ``departures`` are the numbers of the departures that it needed,
    ``missing`` those that are listed for it but made no difference; ``bad`` are the unexplained
    differences."""

    mode: str
    departures: tuple[int, ...]
    missing: tuple[int, ...]
    bad: tuple[Difference, ...]
    marks: Mapping[str, str]

    @property
    def verdict(self) -> str:
        if self.bad:
            return "DIFFERS"
        if self.missing:
            return "no longer departs"
        numbers = ", ".join(map(str, self.departures))
        return f"departs ({numbers})" if numbers else "agrees"

    @property
    def passed(self) -> bool:
        return not self.bad and not self.missing


Results = Mapping[str, Sequence[Result]]


def evaluate(case: str, mode: str, outcome: Outcome) -> Result:
    """Evaluate the differences of a case."""
    strict = mode == STRICT
    bad: list[Difference] = []
    used: set[int] = set()
    marks: dict[str, str] = dict.fromkeys((*ASPECTS, "records"), SAME)
    for one in outcome.differences:
        number = departure(case, one, strict=strict)
        if number is None:
            bad.append(one)
            marks[one.aspect] = OTHER
        else:
            used.add(number)
            if marks[one.aspect] == SAME:
                marks[one.aspect] = str(number)
    if outcome.records is None or strict:
        marks["records"] = ""
    elif outcome.records:
        bad += outcome.records
        marks["records"] = OTHER
    listed = set() if strict else {one.number for one in DEPARTURES if one.case == case}
    return Result(mode, tuple(sorted(used)), tuple(sorted(listed - used)), tuple(bad), marks)


def _cell(results: Sequence[Result], aspect: str) -> str:
    marks = [one.marks[aspect] for one in results]
    if aspect == "records":
        return marks[0]
    return marks[0] if len(set(marks)) == 1 or marks[1:] == [SAME] else "/".join(marks)


def rows(results: Results) -> list[list[str]]:
    """Return a header and a row per case; a cell has one mark, or two if the modes differ."""
    modes = [one.mode for one in next(iter(results.values()))]
    columns = [*ASPECTS, "records"]
    head = ["case", *columns, *modes]
    body = [
        [name, *(_cell(found, one) for one in columns), *(one.verdict for one in found)]
        for name, found in sorted(results.items())
    ]
    return [head, *body]


def text_table(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)


def _markdown_table(table: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in table]
    lines.insert(1, "|" + "---|" * lines[0].count(" | ") + "---|")
    return "\n".join(lines)


def summary(results: Results) -> str:
    """Return one line per mode with the number of cases that agree."""
    lines: list[str] = []
    for at, mode in enumerate(one.mode for one in next(iter(results.values()))):
        found = [each[at] for each in results.values()]
        agree = sum(one.verdict == "agrees" for one in found)
        departs = sum(one.passed and bool(one.departures) for one in found)
        lines.append(f"{mode}: {agree} of {len(found)} agree, {departs} depart as listed")
    return "\n".join(lines)


def as_json(results: Results, node: Sequence[Difference]) -> str:
    def shown(one: Difference) -> dict[str, Any]:
        return {"aspect": one.aspect, "ours": one.ours, "theirs": one.theirs}

    cases = {
        name: {
            one.mode: {
                "verdict": one.verdict,
                "departures": list(one.departures),
                "differences": [shown(each) for each in one.bad],
            }
            for one in found
        }
        for name, found in sorted(results.items())
    }
    return json.dumps({"cases": cases, "node": [shown(one) for one in node]}, indent=1) + "\n"


def _rules() -> str:
    masks = [(f"`{one.where}`", one.why) for one in (*MASKS, *MIRROR_MASKS)]
    repeats = [("number of " + ", then ".join(f"`{p}`" for p in one.group), one.why)
               for one in REPEATS]  # fmt: skip
    orders = [(f"order of `{one.pattern}`", one.why) for one in UNORDERED]
    missed = [(f"`{one.text}` in {one.case}", one.why) for one in FLEETING]
    left = [(f"`{one.pattern}`", one.why) for one in (*LEAVES, *MIRROR_LEAVES)]
    found = [
        (what.replace("|", "\\|"), why) for what, why in (*masks, *repeats, *orders, *missed, *left)
    ]
    return _markdown_table([("what", "why"), *found])


def document(results: Results, node: Sequence[Difference]) -> str:
    """Return ``docs/golden.md``. It depends only on the results, not on their time."""
    table = [[cell or " " for cell in row] for row in rows(results)]
    verdict = "the same" if not node else "different"
    return (
        "# Comparison with a real kubelet\n\n"
        "Written by `make conformance WRITE=1`. Each case is a manifest that a kubelet v1.36.2 has"
        " run ([recordings](../tests/golden/README.md)); podtui runs it on a Docker engine, and the"
        " results are compared. `=` means equal line by line; a number is the"
        " [departure](departures.md) that explains the difference. *strict* is"
        " `kubeletStrict: true`; *statuses* are the intermediate statuses, compared only in this"
        " mode;"
        " *records* are the API objects, compared with those of a real API server.\n\n"
        + "\n".join(f"* {line}" for line in summary(results).splitlines())
        + f"\n* the node's record: {verdict}\n\n"
        + _markdown_table(table)
        + "\n\n## Permitted differences\n\n"
        "These rules apply to both sides (`conformance/rules.py`).\n\n" + _rules() + "\n"
    )
