"""Probe workers, one per pod, container and kind of probe, and their reports (kubelet.md §8)."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.times import rfc3339_micros
from podtui.api.v1 import Container, Pod, Probe
from podtui.kubelet.containers.killer import container_spec
from podtui.kubelet.prober.state import (
    ProbeKind,
    ProbeOutcome,
    ProbeState,
    Rules,
    probe_of,
)
from podtui.kubelet.types import ObservedContainer, ProbeResult
from podtui.runtime.protocol import ContainerState

RUNS_KEPT: Final = 30
_OUTPUT_LINES: Final = 10
_OUTPUT_LIMIT: Final = 1000


@dataclass(slots=True, eq=False)
class ProbeLog:
    """The last runs of one probe. ``due`` is the monotonic time of its next tick."""

    runs: deque[ProbeRun] = field(default_factory=lambda: deque[ProbeRun](maxlen=RUNS_KEPT))
    due: float | None = None


@dataclass(slots=True, eq=False)
class ProbeWorker:
    """The state of a worker. ``pod`` may be replaced by a newer version at any time."""

    pod: Pod
    name: str
    """The name of the container."""
    state: ProbeState
    seen: float = 0.0
    """The monotonic time at which the instance of ``state`` was first seen running."""
    run_now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to run the next tick now."""
    running: bool = False
    """True while a handler runs."""
    task: asyncio.Task[None] | None = None
    stopped: bool = False
    totals: Counter[str] = field(default_factory=Counter[str])
    """Runs by result: successful, failed, unknown."""
    log: ProbeLog = field(default_factory=ProbeLog)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def kind(self) -> ProbeKind:
        return self.state.kind

    def spec(self) -> tuple[Container, Probe] | None:
        """Return the container and its probe from the current version of the pod."""
        container = container_spec(self.pod, self.name)
        probe = None if container is None else probe_of(container, self.kind)
        return None if container is None or probe is None else (container, probe)


# --- reports to the user


def probe_run(outcome: ProbeOutcome, began: datetime, seconds: float) -> ProbeRun:
    """Return the record of one run, with the output cut."""
    lines = outcome.text[:_OUTPUT_LIMIT].splitlines()[:_OUTPUT_LINES]
    return ProbeRun(
        time=rfc3339_micros(began),
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
