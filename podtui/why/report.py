"""Formats diagnoses as text or JSON, for use without the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any, Final

from podtui.api.health import GLYPHS, WELL, Health
from podtui.api.local import Manifest
from podtui.editing.edits import EditError, diff_lines
from podtui.text.terminal_text import one_line
from podtui.why.types import Diagnosis, Fix, Kind

WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Report:
    """A diagnosis and its subject: a pod, another object, or a file that produces no pod."""

    name: str
    diagnosis: Diagnosis
    manifest: Manifest | None = None
    uid: str = ""

    @property
    def is_healthy(self) -> bool:
        health = self.diagnosis.health
        return self.diagnosis.kind is not Kind.FAILURE and (health is None or health in WELL)

    @property
    def state(self) -> str:
        """The health of the pod, or the state of another object or of a file without a pod."""
        if self.diagnosis.state:
            return self.diagnosis.state
        if self.diagnosis.health is not None:
            return str(self.diagnosis.health)
        return str(self.manifest.status.state) if self.manifest is not None else ""


def render_text(reports: Sequence[Report]) -> str:
    """Format one block per report, separated by blank lines."""
    return "\n\n".join("\n".join(_block(report)) for report in reports)


def _block(report: Report) -> list[str]:
    diagnosis = report.diagnosis
    lines = [
        f"{_glyph(diagnosis)} {one_line(report.name)}  {report.state}",
        _paragraph(diagnosis.title),
        *_details(report),
    ]
    for part in diagnosis.parts:
        more = f" and {len(part.more):,} more" if part.more else ""
        block = _block(Report(f"{part.name}{more}", replace(part.diagnosis, docs="")))
        lines += (f"    {line}" for text in block for line in text.split("\n"))
    return lines


def _details(report: Report) -> list[str]:
    diagnosis = report.diagnosis
    lines: list[str] = []
    lines += (_paragraph(sentence) for sentence in diagnosis.sentences)
    for item in diagnosis.evidence:
        times = f" (x{item.count})" if item.count > 1 else ""
        when = f"{item.time} " if item.time else ""
        lines.append(
            f"    {when}{'| ' if item.source == 'log' else ''}{one_line(item.text)}{times}"
        )
    if diagnosis.log_problem:
        lines.append(
            _paragraph(
                f"The log of {diagnosis.container} could not be read: {diagnosis.log_problem}"
            )
        )
    if diagnosis.field:
        lines.append(f"  {_place(report)}: {one_line(diagnosis.field)}")
    if report.manifest is not None and diagnosis.fixes:
        lines += _fix(report.manifest.spec.text, diagnosis.fixes[0])
    if diagnosis.advice:
        lines.append(_paragraph(f"{advice_word(diagnosis.fixes)}: {diagnosis.advice}"))
    if diagnosis.docs and not report.is_healthy:
        lines.append(f"  {diagnosis.docs}")
    return lines


def _glyph(diagnosis: Diagnosis) -> str:
    if diagnosis.health is None:
        return GLYPHS[Health.FAILING if diagnosis.kind is Kind.FAILURE else Health.RUNNING]
    return "▲" if diagnosis.besides else GLYPHS[diagnosis.health]


def advice_word(fixes: Sequence[Fix]) -> str:
    """Return what the advice is called beside these fixes, the first of which is shown."""
    return "Alternative" if fixes and fixes[0].edits else "What to do"


def _paragraph(text: str) -> str:
    return fill(
        one_line(text), WIDTH, initial_indent="  ", subsequent_indent="  ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


def _place(report: Report) -> str:
    path = one_line(report.manifest.spec.path) if report.manifest is not None else "manifest"
    position = report.diagnosis.position
    return path if position is None else f"{path}:{position[0]}:{position[1]}"


def _fix(text: str, fix: Fix) -> list[str]:
    try:
        diff = [f"    {one_line(line)}" for line in diff_lines(text, fix.edits) if line[:2] != "@@"]
    except EditError:
        diff = []
    where = f" (line {fix.line})" if fix.line is not None else ""
    note = [_paragraph(fix.note)] if fix.note else []
    return [_paragraph(f"Fix: {fix.title}{where}"), *note, *diff]


def render_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return one object per report for ``json.dumps``, including empty fields."""
    return [
        {
            "name": report.name,
            "health": report.state,
            "cause": report.diagnosis.cause,
            "title": report.diagnosis.title,
            "sentences": list(report.diagnosis.sentences),
            "container": report.diagnosis.container,
            "evidence": [
                {"source": e.source, "time": e.time, "count": e.count, "text": e.text}
                for e in report.diagnosis.evidence
            ],
            "logError": report.diagnosis.log_problem,
            "path": report.manifest.spec.path if report.manifest is not None else "",
            "field": report.diagnosis.field,
            "line": line,
            "column": column,
            "fixes": [_fix_json(fix) for fix in report.diagnosis.fixes],
            "advice": report.diagnosis.advice,
            "docs": report.diagnosis.docs,
            "nodeLabels": dict(report.diagnosis.node_labels),
            "parts": [
                {**render_json([Report(part.name, part.diagnosis)])[0], "more": list(part.more)}
                for part in report.diagnosis.parts
            ],
        }
        for report in reports
        for line, column in [report.diagnosis.position or (None, None)]
    ]


def _fix_json(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "note": fix.note,
        "line": fix.line,
        "weakens": fix.weakens,
        "edits": [
            {"line": e.line, "column": e.column, "old": e.old, "new": e.new} for e in fix.edits
        ],
    }
