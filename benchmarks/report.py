"""Rows of results, the tables they make, and their places in ``docs/performance.md``.

A table stands there between ``<!-- figures: NAME -->`` and ``<!-- end of NAME -->``. What stands
outside is prose, written by people, and stays.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure: what was measured, its median and range, the floor of the same run, the bound.

    ``bound`` is what ``ratio`` (or, where there is no floor, ``value``) may not exceed.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    runs: int
    floor: float | None = None
    floor_name: str = ""
    bound: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def verdict(self) -> str:
        if self.bound is None:
            return ""
        judged = self.ratio if self.ratio is not None else self.value
        return "held" if judged <= self.bound else "MISSED"


@dataclass(frozen=True, slots=True)
class Absent:
    """A row for what was not measured here, with the reason; or a fact, with its source."""

    name: str
    text: str


def row(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    floor: Sequence[float] | None = None,
    floor_name: str = "",
    bound: float | None = None,
) -> Row:
    """A row from samples; medians throughout."""
    return Row(
        name=name,
        value=statistics.median(values),
        unit=unit,
        low=min(values),
        high=max(values),
        runs=len(values),
        floor=statistics.median(floor) if floor else None,
        floor_name=floor_name,
        bound=bound,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def markdown(rows: Sequence[Row | Absent]) -> str:
    """A table for ``docs/performance.md`` and the terminal alike."""
    head = ("what", "median", "range", "n", "floor", "ratio", "bound", "")
    body = [
        (r.name, r.text, "", "", "", "", "", "")
        if isinstance(r, Absent)
        else (
            r.name,
            f"{_number(r.value)} {r.unit}",
            f"{_number(r.low)}–{_number(r.high)}",
            str(r.runs),
            f"{_number(r.floor)} {r.unit} ({r.floor_name})" if r.floor is not None else "",
            f"{r.ratio:.2f}" if r.ratio is not None else "",
            ("≤ " + _number(r.bound)) if r.bound is not None else "",
            r.verdict,
        )
        for r in rows
    ]
    measured = [line for line, r in zip(body, rows, strict=True) if isinstance(r, Row)]
    widths = [max(len(line[i]) for line in [head, *measured]) for i in range(len(head))]
    lines = [head, tuple("-" * width for width in widths), *body]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def replaced(document: str, name: str, figures: str) -> str:
    """The document with other figures of this name. Raises LookupError where it has no place for
    them."""
    begin, end = f"<!-- figures: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise LookupError(f"there is no {begin} … {end}")
    return f"{before}{begin}\n\n{figures.strip()}\n\n{end}{after}"
