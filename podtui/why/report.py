"""Formats diagnoses as text or JSON, for use without the screen."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Final

from podtui.api.health import WELL, Health
from podtui.api.local import Manifest
from podtui.why.edits import EditError, diff_lines
from podtui.why.types import Diagnosis, Fix

WIDTH: Final = 100
_GLYPHS: Final = {
    Health.HEALTHY: "●",
    Health.DONE: "✔",
    Health.WAITING: "◔",
    Health.TERMINATING: "◌",
    Health.BROKEN: "✖",
}


@dataclass(frozen=True, slots=True)
class Report:
    """A diagnosis and its subject: a pod, or a file that produces none."""

    name: str
    said: Diagnosis
    manifest: Manifest | None = None

    @property
    def well(self) -> bool:
        return self.said.health in WELL


def clean(text: str) -> str:
    """Remove control characters: the output of a pod must not move the cursor."""
    return "".join(
        " " if c in "\n\t" else c
        for c in text
        if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp")
    )


def render_text(reports: Sequence[Report]) -> str:
    """Format one block per report, separated by blank lines."""
    return "\n\n".join("\n".join(_block(report)) for report in reports)


def _block(report: Report) -> list[str]:
    said = report.said
    lines = [f"{_GLYPHS[said.health]} {clean(report.name)}  {said.health}", _para(said.title)]
    lines += (_para(sentence) for sentence in said.sentences)
    for one in said.evidence:
        times = f" (x{one.count})" if one.count > 1 else ""
        when = f"{one.time} " if one.time else ""
        lines.append(f"    {when}{'| ' if one.source == 'log' else ''}{clean(one.text)}{times}")
    if said.log_problem:
        lines.append(_para(f"The log of {said.container} could not be read: {said.log_problem}"))
    if said.field:
        lines.append(f"  {_place(report)}: {clean(said.field)}")
    if report.manifest is not None and said.fixes:
        lines += _fix(report.manifest.spec.text, said.fixes[0])
    if said.advice:
        lines.append(_para(f"{'Alternative' if said.fixes else 'What to do'}: {said.advice}"))
    if said.docs and not report.well:
        lines.append(f"  {said.docs}")
    return lines


def _para(text: str) -> str:
    return fill(clean(text), WIDTH, initial_indent="  ", subsequent_indent="  ")


def _place(report: Report) -> str:
    path = clean(report.manifest.spec.path) if report.manifest is not None else "manifest"
    place = report.said.place
    return path if place is None else f"{path}:{place[0]}:{place[1]}"


def _fix(text: str, fix: Fix) -> list[str]:
    try:
        diff = [f"    {clean(line)}" for line in diff_lines(text, fix.edits) if line[:2] != "@@"]
    except EditError:
        diff = []
    return [_para(f"Fix: {fix.title}"), *diff]


def render_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return one object per report for ``json.dumps``, including empty fields."""
    return [
        {
            "name": report.name,
            "health": str(report.said.health),
            "cause": report.said.cause,
            "title": report.said.title,
            "sentences": list(report.said.sentences),
            "container": report.said.container,
            "evidence": [
                {"source": e.source, "time": e.time, "count": e.count, "text": e.text}
                for e in report.said.evidence
            ],
            "logError": report.said.log_problem,
            "path": report.manifest.spec.path if report.manifest is not None else "",
            "field": report.said.field,
            "line": report.said.place[0] if report.said.place is not None else None,
            "column": report.said.place[1] if report.said.place is not None else None,
            "fixes": [_fix_json(fix) for fix in report.said.fixes],
            "advice": report.said.advice,
            "docs": report.said.docs,
        }
        for report in reports
    ]


def _fix_json(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "note": fix.note,
        "edits": [
            {"line": e.line, "column": e.column, "old": e.old, "new": e.new} for e in fix.edits
        ],
    }
