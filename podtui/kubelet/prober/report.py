"""Report a probe's state to the user: its last runs, its streak and its next run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.kubelet.base.types import ObservedContainer, ProbeResult
from podtui.kubelet.events.timeline import stamp
from podtui.kubelet.prober.outcome import Outcome
from podtui.kubelet.prober.state import ProbeKind, ProbeState, Rules
from podtui.runtime.protocol import ContainerState

RUNS_KEPT: Final = 30
_OUTPUT_LINES: Final = 10
_OUTPUT_LIMIT: Final = 1000


@dataclass(slots=True, eq=False)
class ProbeLog:
    """The last runs of one probe. ``due`` is the monotonic time of its next tick."""

    runs: deque[ProbeRun] = field(default_factory=lambda: deque[ProbeRun](maxlen=RUNS_KEPT))
    due: float | None = None


def probe_run(outcome: Outcome, began: datetime, seconds: float) -> ProbeRun:
    """Return the record of one run, with the output cut."""
    lines = outcome.text[:_OUTPUT_LIMIT].splitlines()[:_OUTPUT_LINES]
    return ProbeRun(
        time=stamp(began),
        verdict=outcome.verdict.value,
        seconds=round(seconds, 6),
        output="\n".join(lines),
    )


def report(
    name: str,
    state: ProbeState,
    rules: Rules,
    newest: ObservedContainer | None,
    *,
    due_in: float | None,
    age: float,
    started: bool,
    running: bool,
    runs: Iterable[ProbeRun],
) -> ProbeReport:
    """Build the report of one probe.

    ``due_in`` is the time to the next tick in seconds, None if the worker has stopped; ``age`` is
    the time since the container's start in seconds.
    """
    word = _idle(state, newest, started=started) if due_in is not None else "stopped"
    wait = None
    if not word and due_in is not None:
        wait = _next_run(max(0.0, due_in), rules, age)
        word = "initial delay" if age < rules.initial_delay else ""
    failing = state.last is ProbeResult.FAILURE
    return ProbeReport(
        container=name,
        probe=state.kind.value,
        result="" if state.result is None else state.result.value,
        last="" if state.last is None else state.last.value,
        inRow=state.in_row,
        threshold=rules.failures if failing else rules.successes,
        nextIn=wait,
        state=word,
        running=running,
        history=tuple(runs),
    )


def _idle(state: ProbeState, newest: ObservedContainer | None, *, started: bool) -> str:
    """Return why a tick would not run the probe; empty if it would."""
    if newest is None or newest.state is not ContainerState.RUNNING:
        return "not running"
    if state.held:
        return "passed" if state.result is ProbeResult.SUCCESS else "failed"
    if not started and state.kind is not ProbeKind.STARTUP:
        return "waits for startup"
    return ""


def _next_run(due_in: float, rules: Rules, age: float) -> float:
    """Return the seconds to the next run: ticks during the initial delay run nothing."""
    short = rules.initial_delay - (age + due_in)
    return due_in + (math.ceil(short / rules.period) * rules.period if short > 0 else 0.0)
