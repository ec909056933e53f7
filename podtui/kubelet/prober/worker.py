"""Probe workers, one per pod, container and kind of probe: ticks and probe runs (kubelet.md §8)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.pods import pod_ref
from podtui.api.v1 import Container, Pod, Probe
from podtui.clock import Clock
from podtui.kubelet.base.types import ObservedContainer, ProbeResult
from podtui.kubelet.containers.killer import container_spec
from podtui.kubelet.events.recorder import WARNING, EventRecorder, field_path
from podtui.kubelet.events.timelines import stamp
from podtui.kubelet.prober.handlers import ProbeHandlers
from podtui.kubelet.prober.state import (
    OnProbeResult,
    ProbeKind,
    ProbeOutcome,
    ProbeState,
    ProbeVerdict,
    Rules,
    probe_of,
    rules_of,
)
from podtui.runtime.protocol import ContainerState

RUNS_KEPT: Final = 30
_OUTPUT_LINES: Final = 10
_OUTPUT_LIMIT: Final = 1000
_LOG = logging.getLogger(__name__)
TRIES: Final = 3


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


class Ticker:
    """Runs workers.

    ``newest`` returns a container's newest instance by pod UID and name; ``started`` whether this
    instance has passed its startup probe; ``known_good`` whether an earlier kubelet recorded it as
    started or ready.
    """

    def __init__(
        self,
        *,
        handlers: ProbeHandlers,
        newest: Callable[[str, str], ObservedContainer | None],
        started: Callable[[Pod, str, str], bool],
        known_good: Callable[[ProbeKind, str, str], bool],
        on_result: OnProbeResult,
        events: EventRecorder,
        clock: Clock,
    ) -> None:
        self._handlers = handlers
        self._newest = newest
        self._started = started
        self._known_good = known_good
        self._on_result = on_result
        self._events = events
        self._clock = clock

    async def run(self, worker: ProbeWorker, delay: float) -> None:
        """Tick every period, after an initial ``delay`` in seconds, until cancelled or the probe is
        gone."""
        worker.log.due = self._clock.monotonic() + delay
        await self._clock.sleep(delay)
        due = self._clock.monotonic()
        while (spec := worker.spec()) is not None:
            worker.run_now.clear()
            try:
                await self._tick(worker, *spec)
            except Exception:  # noqa: BLE001 - one probe's mistake must not end the others
                _LOG.exception("%s probe of %s failed", worker.kind, pod_ref(worker.pod))
            due = await self._pause(worker, due, rules_of(spec[1]).period)

    async def _pause(self, worker: ProbeWorker, due: float, period: float) -> float:
        """Wait for the next tick and return its time. A missed tick runs at once; a request to
        run now restarts the period."""
        now = self._clock.monotonic()
        if (following := due + period) <= now:
            worker.log.due = now
            return now - (now - due) % period
        worker.log.due = following
        try:
            async with asyncio.timeout(following - now):
                await worker.run_now.wait()
        except TimeoutError:
            return following
        return self._clock.monotonic()

    async def _tick(self, worker: ProbeWorker, container: Container, probe: Probe) -> None:
        newest = self._newest(worker.uid, worker.name)
        if newest is None:
            return
        if newest.state is ContainerState.EXITED:
            worker.state = worker.state.down(newest.id)
        if newest.state is not ContainerState.RUNNING:
            return
        known = self._known_good(worker.kind, worker.uid, newest.id)
        worker.state = worker.state.state_of(newest.id, known_good=known)
        rules = rules_of(probe)
        since = newest.started_at or newest.created_at
        age = (self._clock.now() - since).total_seconds()
        started = self._started(worker.pod, worker.name, newest.id)
        if worker.state.is_due(rules, age=age, started=started):
            outcome = await self._execute(worker, container, newest.id, probe)
            self._take(worker, container, newest.id, outcome, rules)

    async def _execute(
        self, worker: ProbeWorker, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        worker.running = True
        began, clock = self._clock.now(), self._clock.monotonic()
        try:
            outcome = await self._try(worker, container, container_id, probe)
        finally:
            worker.running = False
        worker.log.runs.append(probe_run(outcome, began, self._clock.monotonic() - clock))
        return outcome

    async def _try(
        self, worker: ProbeWorker, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        for _ in range(TRIES - 1):
            outcome = await self._handlers.run(worker.pod, container, container_id, probe)
            if outcome.verdict is not ProbeVerdict.ERROR:
                return outcome
        return await self._handlers.run(worker.pod, container, container_id, probe)

    async def run_once(self, worker: ProbeWorker) -> ProbeRun:
        """Run the handler once on a user's request; the result is not counted.

        Raises `LookupError` if the probe is gone or the container does not run.
        """
        spec, newest = worker.spec(), self._newest(worker.uid, worker.name)
        if spec is None or newest is None or newest.state is not ContainerState.RUNNING:
            raise LookupError(f'container "{worker.name}" does not run')
        began, clock = self._clock.now(), self._clock.monotonic()
        outcome = await self._handlers.run(worker.pod, spec[0], newest.id, spec[1])
        return probe_run(outcome, began, self._clock.monotonic() - clock)

    def _take(
        self,
        worker: ProbeWorker,
        container: Container,
        container_id: str,
        outcome: ProbeOutcome,
        rules: Rules,
    ) -> None:
        kind = worker.kind
        if outcome.verdict is ProbeVerdict.NO_ENGINE:
            _LOG.debug("%s probe of %s: %s", kind, pod_ref(worker.pod), outcome.text)
            return
        if outcome.verdict is ProbeVerdict.ERROR:
            worker.totals["unknown"] += 1
            text = f"{kind} probe errored and resulted in unknown state: {outcome.text}"
            self._event(worker, container, "Unhealthy", text)
            return
        if outcome.verdict is ProbeVerdict.FAILURE:
            worker.totals["failed"] += 1
            self._event(worker, container, "Unhealthy", f"{kind} probe failed: {outcome.text}")
            result = ProbeResult.FAILURE
        else:
            worker.totals["successful"] += 1
            if outcome.verdict is ProbeVerdict.WARNING:
                self._event(
                    worker, container, "ProbeWarning", f"{kind} probe warning: {outcome.text}"
                )
            result = ProbeResult.SUCCESS
        before = worker.state
        worker.state = before.observe(result, rules)
        if worker.state.result is not before.result:
            self._on_result(worker.uid, container_id, kind, result)

    def _event(self, worker: ProbeWorker, container: Container, reason: str, text: str) -> None:
        path = field_path(worker.pod, container.name)
        self._events.pod(worker.pod, WARNING, reason, text, path)


# --- reports to the user


def probe_run(outcome: ProbeOutcome, began: datetime, seconds: float) -> ProbeRun:
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
