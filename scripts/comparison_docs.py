"""Write ``docs/comparison.md``: what peers and podtui have, by row, with the tests that prove it.

Rows and what is said of each peer stand in ``scripts/proof/comparison.toml``; tests name the rows
that they prove with the mark ``compares``. Give this script the marks reports of a whole run.
``--check`` writes nothing and exits 1 where a row that podtui has, wholly or partly, has no test
that passed, where a mark names no row or one that says no, or where the document is stale.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverage_docs import DATA, ROOT, Proof, read_reports

DOCUMENT = ROOT / "docs" / "comparison.md"
PEERS = ("k9s", "lazydocker", "podman")
ANSWERS = ("yes", "partly", "no")
HEAD = f"| | {' | '.join(PEERS)} | podtui | proved by |"
LINKS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One feature. ``peers`` has a cell for each of `PEERS`; ``answer`` is one of `ANSWERS`."""

    id: str
    feature: str
    peers: tuple[str, ...]
    answer: str
    words: str

    @property
    def podtui(self) -> str:
        return f"**{self.answer}**{': ' if self.words else ''}{self.words}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``sections`` are a title and its rows, in the order of the document."""

    head: str
    sections: tuple[tuple[str, tuple[Row, ...]], ...]
    tail: str

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for _, rows in self.sections for row in rows)


def read_rows(text: str) -> Comparison:
    """Raises `ValueError` for a row with a cell missing or too many, and for an id used twice."""
    document = tomllib.loads(text)
    sections = tuple(
        (section["title"], tuple(_row(name, said) for name, said in section["rows"].items()))
        for section in document["sections"]
    )
    found = Comparison(document["head"], sections, document["tail"])
    twice = [name for name, count in Counter(row.id for row in found.rows).items() if count > 1]
    if twice:
        raise ValueError(f"ids used twice: {', '.join(twice)}")
    return found


def _row(name: str, said: Mapping[str, Any]) -> Row:
    wanted = {"feature", *PEERS, "podtui", "words"}
    if set(said) != wanted or not all(said[key] for key in (*PEERS, "feature", "words")):
        raise ValueError(f"{name}: wants {', '.join(sorted(wanted))}, none of them empty")
    if said["podtui"] not in ANSWERS:
        raise ValueError(f"{name}: podtui is one of {', '.join(ANSWERS)}")
    peers = tuple(said[peer] for peer in PEERS)
    return Row(name, said["feature"], peers, said["podtui"], said["words"])


def proofs_by_row(
    comparison: Comparison, proofs: Sequence[Proof]
) -> tuple[dict[str, list[Proof]], list[str]]:
    """The tests of each row, then what is wrong."""
    found: dict[str, list[Proof]] = {row.id: [] for row in comparison.rows}
    problems: list[str] = []
    for proof in proofs:
        for name in proof.compares:
            if name in found:
                found[name].append(proof)
            else:
                problems.append(f"{proof.node}: no such row of the comparison: {name}")
    for row in comparison.rows:
        problems += _problems_of(row, found[row.id])
    return found, problems


def _problems_of(row: Row, tests: Sequence[Proof]) -> Iterator[str]:
    if row.answer == "no":
        if tests:
            yield f"row {row.id} says no, yet {tests[0].node} proves something of it"
        return
    for test in tests:
        if test.outcome == "failed":
            yield f"row {row.id}: {test.node} failed"
    if not any(test.outcome == "passed" for test in tests):
        yield f"row {row.id} says {row.answer}, and no test that passed proves it"


def comparison_document(comparison: Comparison, found: Mapping[str, Sequence[Proof]]) -> str:
    counts = Counter(row.answer for row in comparison.rows)
    lines = ["# k9s, lazydocker, podman and podtui, row by row", "", comparison.head.strip(), ""]
    lines.append(
        f"Of {len(comparison.rows)} rows podtui has {counts['yes']} wholly, "
        f"{counts['partly']} partly, {counts['no']} not at all."
    )
    for title, rows in comparison.sections:
        lines += ["", f"## {title}", "", HEAD, "|" + "---|" * (len(PEERS) + 3)]
        lines += (_line(row, found[row.id]) for row in rows)
    return "\n".join([*lines, "", comparison.tail.strip()]) + "\n"


def _line(row: Row, tests: Sequence[Proof]) -> str:
    links = ", ".join(test.link for test in tests[:LINKS])
    more = f" and {len(tests) - LINKS} more" if len(tests) > LINKS else ""
    # A bar inside a cell would end it, also between backticks.
    cells = (cell.replace("|", "\\|") for cell in (row.feature, *row.peers, row.podtui))
    return f"| {' | '.join(cells)} | {links or '–'}{more} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    comparison = read_rows((DATA / "comparison.toml").read_text())
    found, problems = proofs_by_row(comparison, read_reports(arguments.reports))
    text = comparison_document(comparison, found)
    if not arguments.check:
        DOCUMENT.write_text(text)
    elif not DOCUMENT.exists() or DOCUMENT.read_text() != text:
        problems.append(f"{DOCUMENT.relative_to(ROOT)} is stale: run make docs")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
