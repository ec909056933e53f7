"""Rows of results, their tables, and the places of these in ``docs/performance.md``.

A table is between ``<!-- figures: NAME -->`` and ``<!-- end of NAME -->``. The text outside is
written by people, and is kept.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: its name, median and range, the floor of the same run, and the bound.

    ``bound`` is the maximum of ``ratio``, or of ``value`` if there is no floor.
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
        measured = self.ratio if self.ratio is not None else self.value
        return "held" if measured <= self.bound else "MISSED"


@dataclass(frozen=True, slots=True)
class Absent:
    """A row for a value that was not measured here, with the reason; or a fact, with its source."""

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
    """Return a row from samples, with medians."""
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
    """Return a table for ``docs/performance.md`` and the terminal."""
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
    """Return the document with the new table. Raises LookupError if it has no place of that
    name."""
    begin, end = f"<!-- figures: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise LookupError(f"there is no {begin} … {end}")
    return f"{before}{begin}\n\n{figures.strip()}\n\n{end}{after}"
