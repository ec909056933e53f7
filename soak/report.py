"""The results: injections, checks, and the table in ``docs/reliability.md``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``problem`` is the violated invariant, empty if all hold."""

    name: str
    title: str
    unit: str
    done: int
    planned: int
    seconds: float
    checked: str = ""
    problem: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.problem:
            return "BROKEN"
        return "held" if self.done >= self.planned else "held; stopped by the time limit"


def markdown(results: Sequence[Result]) -> str:
    """Return a table for the document and the terminal."""
    rows = [
        "| fault | count | checked in addition to the invariants | result | time |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in results:
        count = f"{one.done:,} {one.unit}"
        if one.done < one.planned:
            count = f"{one.done:,} of {one.planned:,} {one.unit}"
        checked = "; ".join(text for text in (one.checked, one.note) if text)
        cells = (one.title, count, checked, one.verdict, f"{one.seconds:.0f} s")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)
