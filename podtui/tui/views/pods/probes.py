"""The state of a pod's probes: definition, next run, last result, history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import all_containers
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Container, Pod, Probe
from podtui.tui.views.pods.describe import probe_text
from podtui.tui.views.pods.timeline import length
from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.sanitize import clean, clean_lines

Key = tuple[str, str]
"""Container and type of the probe."""
GLYPHS: Final = {
    "success": ("✔", "good"),
    "warning": ("▲", "warning"),
    "failure": ("✖", "error"),
    "error": ("?", "warning"),
    "no engine": ("?", "muted"),
}
_RESULTS: Final = {
    "Success": ("● passes", "running"),
    "Failure": ("✖ fails", "error"),
    "Unknown": ("◔ not known yet", "pending"),
}
_IDLE: Final = {
    "passed": "passed: it is not run again",
    "failed": "failed: the container is restarted",
    "not running": "the container is not running",
    "waits for startup": "waiting for the startup probe to pass",
    "stopped": "stopped with the pod",
}
_OUTPUT_LINES: Final = 4


def key_of(report: ProbeReport) -> Key:
    return report.container, report.probe


def probe_of(pod: Pod, report: ProbeReport) -> Probe | None:
    """Return the probe's definition in the pod's spec."""
    container: Container | None = next(
        (c for _, c in all_containers(pod) if c.name == report.container), None
    )
    if container is None:
        return None
    return {
        "Startup": container.startupProbe,
        "Liveness": container.livenessProbe,
        "Readiness": container.readinessProbe,
    }.get(report.probe)


def probe_lines(
    pod: Pod,
    reports: tuple[ProbeReport, ...],
    selected: Key,
    answers: Mapping[Key, ProbeRun],
    *,
    now: float,
    elapsed: float,
    width: int,
) -> tuple[list[Line], dict[Key, int]]:
    """Return lines of at most ``width`` cells, and the first line of each probe. ``answers`` are
    the results of manual runs; ``elapsed`` is the age of the reports in seconds.
    """
    if not reports:
        return [row for line in _none(pod) for row in wrap(line, width, indent=1)], {}
    lines: list[Line] = []
    places: dict[Key, int] = {}
    for report in reports:
        key = key_of(report)
        places[key] = len(lines)
        mark = "▸" if key == selected else " "
        for part in _probe_block(pod, report, answers.get(key), now, elapsed):
            indent = 6
            first = (Span(f" {mark} ", "key"), *part[1:]) if part[0].text == "" else part
            lines += wrap(first, width, indent=indent)
        lines.append(())
    return lines, places


def _none(pod: Pod) -> list[Line]:
    requested = any(
        c.startupProbe or c.livenessProbe or c.readinessProbe for _, c in all_containers(pod)
    )
    if requested:
        return [
            (
                Span(
                    " Its probes are not running: the pod has not started, or has terminated.",
                    "soft",
                ),
            )
        ]
    purpose = " Readiness probes decide if a container is ready, liveness probes if it restarts."
    return [
        (Span(" No container of this pod has a probe.", "soft"),),
        (Span(purpose, "muted"),),
    ]


def _probe_block(
    pod: Pod, report: ProbeReport, answer: ProbeRun | None, now: float, elapsed: float
) -> list[Line]:
    word, tone = _RESULTS.get(report.result, ("◌ not run yet", "muted"))
    probe, streak = probe_of(pod, report), streak_text(report)
    parts: list[Line] = [
        (Span(""), Span(f"{word}  ", tone), Span(f"{clean(report.container)} ", "name"),
         Span(report.probe.lower(), "heading")),
        (Span("      check ", "key"), Span(clean(probe_text(probe)), "soft")),
        (Span("      next  ", "key"), Span(next_text(report, elapsed)),
         Span(f" · {streak}" if streak else "", "soft")),
    ]  # fmt: skip
    if report.history:
        spans = [Span("      runs  ", "key")]
        for run in report.history:
            glyph, tone = GLYPHS.get(run.verdict, ("?", "muted"))
            spans.append(Span(glyph, tone))
        parts.append(tuple(spans))
        parts += _run("last", report.history[-1], now)
    if answer is not None:
        parts += _run("asked", answer, now)
        parts.append((Span("            manual run; the result does not count", "muted"),))
    return parts


def _run(title: str, run: ProbeRun, now: float) -> list[Line]:
    glyph, tone = GLYPHS.get(run.verdict, ("?", "muted"))
    when = epoch(run.time)
    ago = "" if when is None else f", {short_duration(max(0.0, now - when))} ago"
    lines: list[Line] = [
        (Span(f"      {title:<5} ", "key"), Span(f"{glyph} {clean(run.verdict)}", tone),
         Span(f" in {length(run.seconds)}{ago}", "soft"))
    ]  # fmt: skip
    output = clean_lines(run.output.rstrip("\n")) if run.output else []
    lines += [(Span(f"            {text}", "soft"),) for text in output[:_OUTPUT_LINES]]
    return lines


def next_text(report: ProbeReport, elapsed: float) -> str:
    """Return when the probe runs next, or why it does not run."""
    if report.running:
        return "running now"
    if report.nextIn is None:
        return _IDLE.get(report.state, report.state)
    left = max(0.0, report.nextIn - elapsed)
    why = " (initial delay)" if report.state == "initial delay" else ""
    return f"in {left:.0f}s{why}"


def streak_text(report: ProbeReport) -> str:
    """Return the number of equal results in a row, and the threshold if it is not reached."""
    if not report.last or not report.inRow:
        return ""
    singular, plural_form = (
        ("failure", "failures") if report.last == "Failure" else ("success", "successes")
    )
    streak = f"{report.inRow:,} {singular if report.inRow == 1 else plural_form}"
    short = report.inRow < report.threshold
    return f"{streak} in a row" + (f", threshold {report.threshold}" if short else "")
